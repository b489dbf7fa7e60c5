import { randomInt } from 'node:crypto'
import { constants } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import type { Log } from '../../lib/log.js'
import { type Position, START } from '../../model/position.js'
import type { Entry } from '../journal.js'
import { decodeRecords, encodeHeader, encodeRecord, lengthOf } from './segment.js'
import {
  fileNumber,
  findSegments,
  readFileUpTo,
  recordsOf,
  type Segment,
  segmentPath,
  truncateAfter,
} from './segment-file.js'

/** From this size on, the next write begins another file. */
const SEGMENT_BYTES = 8 * 1024 * 1024
/** Files whose entries are all stored are kept for reuse: writing over bytes is the fastest. */
const MAX_FREE = 8
/** A file grows in steps, as a write that does not change its size takes half of the time. */
const STEP_BYTES = 1024 * 1024
const ZEROS = Buffer.alloc(STEP_BYTES)

/** A write that returns once it is on disk saves a turn of the event loop. Elsewhere than on Linux it may not flush the drive. */
const WRITES_THROUGH = process.platform === 'linux'
const FLAGS = constants.O_RDWR | constants.O_CREAT | (WRITES_THROUGH ? constants.O_DSYNC : 0)

export interface EntryLogOptions {
  /** the folder */
  path: string
  /** the last position of what LMDB has of a conditional record */
  applied: Position
  /** entries up to here are no longer needed */
  stored: Position
  segmentBytes?: number | undefined
  /** rejects if the log must not take that many bytes more of the disk */
  assertRoom?: (bytes: number) => Promise<void>
  log?: Pick<Log, 'warn'> | undefined
}

/** A write failed, and so did taking it back: after a crash its entries may be there, or not. */
export class UnknownOutcome extends Error {}

/**
 * The entries of the embedded journal on disk, one record after the other in files that are used again once all that is in
 * them is stored. A record is there as a whole or not at all. One call of `append` or `undo` at a time.
 */
export class EntryLog {
  readonly #path: string
  readonly #segmentBytes: number
  readonly #assertRoom: (bytes: number) => Promise<void>
  readonly #log: Pick<Log, 'warn'> | undefined
  /** in the order of their positions; the last one is being written */
  readonly #live: Segment[] = []
  readonly #free: Segment[] = []
  #number = 0
  #files = 0
  #last = START
  /** entries up to here are no longer needed */
  #stored: Position
  #isAppending = false
  /** where the last segment is to be truncated before the next record */
  #truncateAt: number | null = null
  /** how it was before the last record */
  #before = { end: 0, last: START, lastOfAll: START }
  /** where the first record of a segment begins whose entries are after a position: the next read begins there */
  #cursor = { number: 0, after: START, start: 0 }

  private constructor({ path, stored, segmentBytes = SEGMENT_BYTES, assertRoom, log }: EntryLogOptions) {
    this.#log = log
    this.#stored = stored
    this.#path = path
    this.#segmentBytes = segmentBytes
    this.#assertRoom = assertRoom ?? (async () => undefined)
  }

  /** @throws Error if entries are missing or cannot be read */
  static async open(options: EntryLogOptions): Promise<EntryLog> {
    const log = new EntryLog(options)
    try {
      await log.#recover(options)
      return log
    } catch (error) {
      await log.close()
      throw error
    }
  }

  async #recover({ path: folder, applied }: EntryLogOptions): Promise<void> {
    for (const { hasUncommitted, isDamaged, ...found } of await findSegments(folder, applied)) {
      const { path, number, after, last } = found
      if (isDamaged) throw new Error(`${path} is damaged: entries of the journal cannot be read`)
      const isLive = last > this.#stored
      if (isLive && (this.#live.length > 0 ? after !== this.#last : after > this.#stored)) {
        throw new Error(`entries before ${path} are missing from the journal`)
      }
      const segment: Segment = { ...found, file: await open(path, FLAGS) }
      const kept = isLive ? this.#live : this.#free
      kept.push(segment)
      if (hasUncommitted) await truncateAfter(segment, segment.end)
      this.#number = Math.max(this.#number, number)
      this.#files = Math.max(this.#files, fileNumber(path))
      if (isLive) this.#last = last
    }
    await this.#keepFree(MAX_FREE)
  }

  /** The position of the last entry; START if there is none. */
  get last(): Position {
    return this.#last
  }

  /**
   * Appends entries, whose positions rise, and resolves when they are on disk.
   * @param isConditional whether they count only once `applied` has reached the last of them
   * @throws UnknownOutcome
   * @throws the error of the system; nothing was appended
   */
  async append(entries: Entry[], isConditional: boolean): Promise<void> {
    await this.#truncate()
    await this.#freeStored()
    this.#isAppending = true
    try {
      const bytes = entries.reduce((sum, { body }) => sum + body.length, 0)
      const segment = await this.#segmentFor(bytes)
      const parts = encodeRecord(entries, isConditional, segment.salt)
      if (segment.end === 0) parts.unshift(encodeHeader(segment))
      this.#before = { end: segment.end, last: segment.last, lastOfAll: this.#last }
      this.#truncateAt = segment.end
      await this.#write(segment, parts)
      this.#truncateAt = null
      segment.last = entries.at(-1)?.position ?? segment.last
      this.#last = segment.last
    } catch (error) {
      // What may be there must not count after a crash. If this fails as well, nothing is appended until it succeeds.
      const isGone = await this.#truncate().then(
        () => true,
        () => isConditional,
      )
      throw isGone ? error : new UnknownOutcome('the log of entries cannot be written', { cause: error })
    } finally {
      this.#isAppending = false
    }
  }

  async #write(segment: Segment, parts: Buffer[]): Promise<void> {
    const length = lengthOf(parts)
    const end = segment.end + length
    const missing = end > segment.size ? Math.ceil(end / STEP_BYTES) * STEP_BYTES - end : 0
    const padded = missing > 0 ? [...parts, ZEROS.subarray(0, missing)] : parts
    if (end > segment.size) await this.#assertRoom(end + missing - segment.size)
    const { bytesWritten } = await segment.file.writev(padded, segment.end)
    segment.size = Math.max(segment.size, segment.end + bytesWritten)
    if (bytesWritten < length) throw new Error(`only ${bytesWritten} of ${length} bytes could be written`)
    if (!WRITES_THROUGH) await segment.file.datasync()
    segment.end = end
  }

  /** Removes what the last `append` appended. */
  async undo(): Promise<void> {
    const segment = this.#live.at(-1)
    if (!segment) return
    const { end, last, lastOfAll } = this.#before
    Object.assign(segment, { end, last })
    this.#last = lastOfAll
    this.#truncateAt = end
    await this.#truncate()
  }

  /** Removes what is behind the last record. */
  async #truncate(): Promise<void> {
    const segment = this.#live.at(-1)
    if (this.#truncateAt === null || !segment) return
    await truncateAfter(segment, this.#truncateAt)
    this.#truncateAt = null
  }

  async #segmentFor(bytes: number): Promise<Segment> {
    const current = this.#live.at(-1)
    if (current && (current.end === 0 || current.end + bytes <= this.#segmentBytes)) return current
    const segment = this.#free.pop() ?? (await this.#create())
    this.#begin(segment)
    this.#live.push(segment)
    return segment
  }

  async #create(): Promise<Segment> {
    const path = segmentPath(this.#path, this.#files + 1)
    const file = await open(path, FLAGS)
    try {
      const folder = await open(this.#path, 'r')
      await folder.sync().finally(() => folder.close())
    } catch (error) {
      await file.close()
      throw error
    }
    this.#files++
    return { path, file, number: 0, after: START, salt: 0, end: 0, size: 0, last: START }
  }

  #begin(segment: Segment): void {
    const number = ++this.#number
    Object.assign(segment, { number, after: this.#last, salt: randomInt(2 ** 32), end: 0, last: START })
  }

  /** The entries after a position, in pieces; those of writes in flight may be missing. */
  async *read(after: Position): AsyncGenerator<Entry[]> {
    let isFirst = true
    for (const segment of [...this.#live]) {
      if (segment.last <= after) continue
      const { number } = segment
      const cursor = this.#cursor
      const from = cursor.number === number && cursor.after <= after ? cursor.start : undefined
      for await (const { entries, start } of recordsOf(segment, from)) {
        const wanted = entries.filter(({ position }) => position > after)
        if (wanted.length === 0) continue
        if (isFirst) this.#cursor = { number, after, start }
        isFirst = false
        yield wanted
      }
    }
  }

  /** Entries up to a position are no longer needed, which LMDB knows already. */
  async forget(upTo: Position): Promise<void> {
    this.#stored = upTo
    await this.#freeStored()
  }

  /** The last segment only between writes: on a full disk, none would be taken any more if it stayed. */
  async #freeStored(): Promise<void> {
    while (this.#live.length > 0) {
      const [segment] = this.#live
      const isInUse = this.#live.length === 1 && (this.#isAppending || this.#truncateAt !== null)
      if (!segment || segment.last > this.#stored || isInUse) return
      this.#live.shift()
      this.#free.push(segment)
      await this.#keepFree(MAX_FREE)
    }
  }

  /** Removes the files that are kept for reuse. @returns whether there were any */
  async removeFree(): Promise<boolean> {
    const hasFree = this.#free.length > 0
    await this.#keepFree(0)
    return hasFree
  }

  async #keepFree(most: number): Promise<void> {
    for (const { file, path } of this.#free.splice(most)) {
      // One that stays is found at the next start, and its entries are stored.
      await file.close().catch(() => undefined)
      await rm(path).catch((err) => {
        this.#log?.warn(
          { err, file: path },
          'a file of the journal cannot be removed: it takes room until the next start',
        )
      })
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#live, ...this.#free].map(({ file }) => file.close()))
  }
}

/**
 * The entries in a folder that may belong to another process, as they are now.
 * @param applied as EntryLogOptions has it
 */
export async function* readEntryLog(path: string, applied: Position): AsyncGenerator<Entry[]> {
  for (const { path: file, end, salt } of await findSegments(path, applied)) {
    const bytes = await readFileUpTo(file, end)
    for (const { entries } of decodeRecords(bytes, salt)) yield entries
  }
}

import { randomInt } from 'node:crypto'
import { constants } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import type { Log } from '../../lib/log.js'
import { type Position, START } from '../../model/position.js'
import type { WaitingEntry } from '../journal.js'
import { decodeRecords, encodeHeader, encodeRecord, sumLengths } from './segment.js'
import {
  fileNumber,
  findSegments,
  readFileUpTo,
  readRecords,
  type Segment,
  segmentPath,
  truncateAfter,
} from './segment-file.js'

/** A write that would make a file larger begins another one. */
const SEGMENT_BYTES = 8 * 1024 * 1024
/**
 * How many files without unstored entries are kept for reuse, because overwriting a file is faster than growing one.
 */
const MAX_FREE = 8
/** A file grows in steps of this size: a write that does not change the size of its file takes half the time. */
const STEP_BYTES = 1024 * 1024
/** Room in a file for single events and small batches. */
const SMALL_BYTES = 64 * 1024
const ZEROS = Buffer.alloc(STEP_BYTES)

/**
 * With O_DSYNC a write returns once it is on disk, which saves an event loop turn. Only Linux also flushes the drive.
 */
const WRITES_THROUGH = process.platform === 'linux'
const FLAGS = constants.O_RDWR | constants.O_CREAT | (WRITES_THROUGH ? constants.O_DSYNC : 0)

export interface EntryLogOptions {
  /** the folder */
  path: string
  /** the last position of the last conditional record whose transaction is in LMDB */
  applied: Position
  /** entries up to here are no longer needed */
  stored: Position
  segmentBytes?: number | undefined
  /** rejects if the log must not use this many more bytes of disk */
  assertRoom?: (bytes: number) => Promise<void>
  log?: Pick<Log, 'warn'> | undefined
}

/** A write failed, and removing its written part failed, too. After a crash, its entries may or may not exist. */
export class UnknownOutcome extends Error {}

/**
 * The entries of the embedded journal on disk: records in files, which are reused once all their entries are stored. An
 * incomplete record does not count. Only one call of `append` or `undo` may run at a time.
 */
export class EntryLog {
  readonly #path: string
  readonly #segmentBytes: number
  readonly #assertRoom: (bytes: number) => Promise<void>
  readonly #log: Pick<Log, 'warn'> | undefined
  /** segments in the order of their positions; the last one is being written */
  readonly #live: Segment[] = []
  readonly #free: Segment[] = []
  #number = 0
  #files = 0
  #last = START
  /** entries up to here are no longer needed */
  #stored: Position
  #isAppending = false
  /** where the last segment must be truncated before the next record; null if it does not have to be */
  #truncateAt: number | null = null
  /** the state before the last record, for `undo` */
  #before = { end: 0, last: START, lastOfAll: START }
  /** where the last read began: in segment `number`, the first record with entries after `after` begins at `start` */
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
    for (const { hasUncommitted, isDamaged, ...found } of await findSegments(folder, applied, this.#stored)) {
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

  /** How many bytes of disk a small record may take now: 0 if there is room for it in a file. */
  get growth(): number {
    const current = this.#live.at(-1)
    const hasRoom = current && current.end + SMALL_BYTES <= Math.min(current.size, this.#segmentBytes)
    // The file may end within a step, and the record may end two steps later.
    return hasRoom || this.#free.length > 0 ? 0 : 2 * STEP_BYTES
  }

  /**
   * Appends entries in ascending order of their positions, and resolves when they are on disk.
   * @param isConditional whether they only count once LMDB's `applied` has reached the last of them
   * @throws UnknownOutcome if the entries may or may not be on disk
   * @throws the system error if nothing was appended
   */
  async append(entries: WaitingEntry[], isConditional: boolean): Promise<void> {
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
      // The written part must not count after a crash. If this also fails, nothing is appended until it succeeds.
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
    const length = sumLengths(parts)
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

  /** Removes the entries of the last `append`. */
  async undo(): Promise<void> {
    const segment = this.#live.at(-1)
    if (!segment) return
    const { end, last, lastOfAll } = this.#before
    Object.assign(segment, { end, last })
    this.#last = lastOfAll
    this.#truncateAt = end
    await this.#truncate()
  }

  /** Removes the bytes after the last record. */
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
  async *read(after: Position): AsyncGenerator<WaitingEntry[]> {
    let isFirst = true
    for (const segment of [...this.#live]) {
      if (segment.last <= after) continue
      const { number } = segment
      const cursor = this.#cursor
      const from = cursor.number === number && cursor.after <= after ? cursor.start : undefined
      for await (const { entries, start } of readRecords(segment, from)) {
        const wanted = entries.filter(({ position }) => position > after)
        if (wanted.length === 0) continue
        if (isFirst) this.#cursor = { number, after, start }
        isFirst = false
        yield wanted
      }
    }
  }

  /** Call it when entries up to a position are no longer needed and LMDB has recorded that. */
  async forget(upTo: Position): Promise<void> {
    this.#stored = upTo
    await this.#freeStored()
  }

  /**
   * Frees segments without unstored entries. Between writes, also frees the last one, which may be the only space on a
   * full disk.
   */
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

  async #keepFree(count: number): Promise<void> {
    for (const { file, path } of this.#free.splice(count)) {
      // A file that remains does no harm: the next start finds that all its entries are stored.
      await file.close().catch(() => undefined)
      await rm(path).catch((err) => {
        this.#log?.warn(
          { err, file: path },
          'a file of the journal cannot be removed; it uses disk space until the next start',
        )
      })
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#live, ...this.#free].map(({ file }) => file.close()))
  }
}

/**
 * Reads the current entries in a folder, which may be in use by another process.
 * @param applied see EntryLogOptions
 */
export async function* readEntryLog(path: string, applied: Position): AsyncGenerator<WaitingEntry[]> {
  for (const { path: file, end, salt } of await findSegments(path, applied, START)) {
    const bytes = await readFileUpTo(file, end)
    for (const { entries } of decodeRecords(bytes, salt)) yield entries
  }
}

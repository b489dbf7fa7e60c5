import { randomInt } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Position, START } from '../../model/position.js'
import type { Entry } from '../journal.js'
import { decodeHeader, decodeRecords, encodeHeader, encodeRecord, lengthOf, type SegmentHeader } from './segment.js'

/** From this size on, the next write begins another file. */
const SEGMENT_BYTES = 8 * 1024 * 1024
/** Files that nothing in them is needed of are kept to be used again: writing over bytes is the fastest. */
const MAX_FREE = 8
/** A file grows in steps, as a write that does not change its size takes half of the time. */
const STEP_BYTES = 1024 * 1024
const ZEROS = Buffer.alloc(STEP_BYTES)
const NAME = /^entries-\d+$/

/** A write that returns once it is on disk saves a turn of the event loop. Elsewhere than on Linux it may not flush the drive. */
const WRITES_THROUGH = process.platform === 'linux'
const FLAGS = constants.O_RDWR | constants.O_CREAT | (WRITES_THROUGH ? constants.O_DSYNC : 0)

interface Segment extends SegmentHeader {
  path: string
  file: FileHandle
  /** bytes up to the end of its last record; 0 before it has one */
  end: number
  /** bytes of the file */
  size: number
  /** the position of its last entry */
  last: Position
}

/** What is on disk of a segment. */
type Found = Omit<Segment, 'file'> & { isCut: boolean }

export interface EntryLogOptions {
  /** the folder */
  path: string
  /** the last position of what LMDB has of a conditional record */
  applied: Position
  /** entries up to here are no longer needed */
  stored: Position
  segmentBytes?: number | undefined
}

/**
 * The entries of the embedded journal on disk, one record after the other in files that are used again once all that is in
 * them is stored. A record is there as a whole or not at all. One call of `append` or `undo` at a time.
 */
export class EntryLog {
  readonly #path: string
  readonly #segmentBytes: number
  /** in the order of their positions; the last one is being written */
  readonly #live: Segment[] = []
  readonly #free: Segment[] = []
  #number = 0
  #files = 0
  #last = START
  /** entries up to here are no longer needed */
  #stored: Position
  #isAppending = false
  /** where the last segment is to be cut before the next record */
  #cutAt: number | null = null
  /** how it was before the last record */
  #before = { end: 0, last: START, lastOfAll: START }

  private constructor({ path, stored, segmentBytes = SEGMENT_BYTES }: EntryLogOptions) {
    this.#stored = stored
    this.#path = path
    this.#segmentBytes = segmentBytes
  }

  /** @throws Error if entries are missing */
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

  async #recover({ path, applied }: EntryLogOptions): Promise<void> {
    for (const { isCut, ...found } of await findSegments(path, applied)) {
      const segment: Segment = { ...found, file: await open(found.path, FLAGS) }
      if (isCut) await cutAfter(segment, segment.end)
      this.#number = Math.max(this.#number, segment.number)
      this.#files = Math.max(this.#files, fileNumber(segment.path))
      if (segment.last <= this.#stored) {
        await this.#setFree(segment)
        continue
      }
      if (this.#live.length > 0 && segment.after !== this.#last) {
        throw new Error(`entries before ${segment.path} are missing from the journal`)
      }
      this.#live.push(segment)
      this.#last = segment.last
    }
  }

  /** The position of the last entry; START if there is none. */
  get last(): Position {
    return this.#last
  }

  /**
   * Appends entries, whose positions rise, and resolves when they are on disk.
   * @param isConditional whether they count only once `applied` has reached the last of them
   * @throws the error of the system; nothing was appended
   */
  async append(entries: Entry[], isConditional: boolean): Promise<void> {
    await this.#cut()
    await this.#freeStored()
    this.#isAppending = true
    try {
      const bytes = entries.reduce((sum, { body }) => sum + body.length, 0)
      const segment = await this.#segmentFor(bytes)
      const parts = encodeRecord(entries, isConditional, segment.salt)
      if (segment.end === 0) parts.unshift(encodeHeader(segment))
      this.#before = { end: segment.end, last: segment.last, lastOfAll: this.#last }
      this.#cutAt = segment.end
      await this.#write(segment, parts)
      this.#cutAt = null
      segment.last = entries.at(-1)?.position ?? segment.last
      this.#last = segment.last
    } catch (error) {
      // What may be there must not count after a crash. If this fails as well, nothing is appended until it succeeds.
      await this.#cut().catch(() => undefined)
      throw error
    } finally {
      this.#isAppending = false
    }
  }

  async #write(segment: Segment, parts: Buffer[]): Promise<void> {
    const length = lengthOf(parts)
    const end = segment.end + length
    const missing = end > segment.size ? Math.ceil(end / STEP_BYTES) * STEP_BYTES - end : 0
    const padded = missing > 0 ? [...parts, ZEROS.subarray(0, missing)] : parts
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
    this.#cutAt = end
    await this.#cut()
  }

  /** Removes what is behind the last record. */
  async #cut(): Promise<void> {
    const segment = this.#live.at(-1)
    if (this.#cutAt === null || !segment) return
    await cutAfter(segment, this.#cutAt)
    this.#cutAt = null
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
    const path = join(this.#path, `entries-${++this.#files}`)
    const file = await open(path, FLAGS)
    const folder = await open(this.#path, 'r')
    await folder.sync().finally(() => folder.close())
    return { path, file, number: 0, after: START, salt: 0, end: 0, size: 0, last: START }
  }

  #begin(segment: Segment): void {
    const number = ++this.#number
    Object.assign(segment, { number, after: this.#last, salt: randomInt(2 ** 32), end: 0, last: START })
  }

  /** The entries after a position, in pieces; those of writes in flight may be missing. */
  async *read(after: Position): AsyncGenerator<Entry[]> {
    for (const segment of [...this.#live]) {
      if (segment.last <= after) continue
      const bytes = await readUpTo(segment.file, segment.end)
      for (const { entries } of decodeRecords(bytes, segment.salt)) {
        const wanted = entries.filter(({ position }) => position > after)
        if (wanted.length > 0) yield wanted
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
      const isInUse = this.#live.length === 1 && (this.#isAppending || this.#cutAt !== null)
      if (!segment || segment.last > this.#stored || isInUse) return
      this.#live.shift()
      await this.#setFree(segment)
    }
  }

  async #setFree(segment: Segment): Promise<void> {
    if (this.#free.length < MAX_FREE) {
      this.#free.push(segment)
      return
    }
    await segment.file.close()
    await rm(segment.path)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#live, ...this.#free].map(({ file }) => file.close()))
  }
}

async function cutAfter(segment: Segment, end: number): Promise<void> {
  await segment.file.truncate(end)
  await segment.file.datasync()
  Object.assign(segment, { end, size: end })
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

/** The segments of a folder in their order; what has no header is one of nothing. */
async function findSegments(folder: string, applied: Position): Promise<Found[]> {
  const found: Found[] = []
  for (const name of await readdir(folder)) {
    if (!NAME.test(name)) continue
    const path = join(folder, name)
    const bytes = await readFileUpTo(path)
    const header = decodeHeader(bytes) ?? { number: 0, after: START, salt: 0 }
    const segment = { path, ...header, end: 0, size: bytes.length, last: START, isCut: false }
    for (const { entries, isConditional, end } of header.number > 0 ? decodeRecords(bytes, header.salt) : []) {
      const last = entries.at(-1)?.position ?? START
      if (isConditional && last > applied) {
        segment.isCut = true
        break
      }
      Object.assign(segment, { end, last })
    }
    found.push(segment)
  }
  return found.sort((a, b) => a.number - b.number)
}

/** @returns nothing if the file is gone */
async function readFileUpTo(path: string, end?: number): Promise<Buffer> {
  const file = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
  if (!file) return Buffer.alloc(0)
  try {
    return await readUpTo(file, end ?? (await file.stat()).size)
  } finally {
    await file.close()
  }
}

async function readUpTo(file: FileHandle, end: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(end)
  for (let at = 0; at < end; ) {
    const { bytesRead } = await file.read(bytes, at, end - at, at)
    if (bytesRead === 0) return bytes.subarray(0, at)
    at += bytesRead
  }
  return bytes
}

function fileNumber(path: string): number {
  return Number(/\d+$/.exec(path)?.[0])
}

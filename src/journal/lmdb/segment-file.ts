import { type FileHandle, open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { maxPosition, type Position, START } from '../../model/position.js'
import {
  decodeHeader,
  decodeRecords,
  HEADER_BYTES,
  hasBrokenHeader,
  hasRecordAfter,
  type LogRecord,
  recordLength,
  type SegmentHeader,
} from './segment.js'

/** An open file of the log of entries. */
export interface Segment extends SegmentHeader {
  path: string
  file: FileHandle
  /** bytes up to the end of its last record; 0 before it has one */
  end: number
  /** bytes of the file */
  size: number
  /** the position of its last entry */
  last: Position
}

/** A segment as it was found on disk. */
export interface FoundSegment extends Omit<Segment, 'file'> {
  /** whether its last record is followed by a conditional one that does not count */
  hasUncommitted: boolean
  /** whether records that are still needed cannot be read; may also be true while another process writes */
  isDamaged: boolean
}

/** Bytes per read; more if a record is larger. */
const PIECE_BYTES = 256 * 1024
const NAME = /^entries-\d+$/

export function segmentPath(folder: string, number: number): string {
  return join(folder, `entries-${number}`)
}

/** The number in the name of a file. */
export function fileNumber(path: string): number {
  return Number(/\d+$/.exec(path)?.[0])
}

/** The paths of all files of a log, in no order. */
export async function segmentPaths(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => NAME.test(name)).map((name) => join(folder, name))
}

/**
 * The segments of a folder in order. A file without a header counts as an empty segment.
 * @param applied see EntryLogOptions
 * @param stored see EntryLogOptions; START if it is unknown
 */
export async function findSegments(folder: string, applied: Position, stored: Position): Promise<FoundSegment[]> {
  const found: FoundSegment[] = []
  for (const path of await segmentPaths(folder)) found.push(inspect(path, await readFileUpTo(path), applied, stored))
  return found.sort((a, b) => a.number - b.number)
}

function inspect(path: string, bytes: Buffer, applied: Position, stored: Position): FoundSegment {
  const header = decodeHeader(bytes)
  const none = { path, number: 0, after: START, salt: 0, end: 0, size: bytes.length, last: START }
  if (!header) return { ...none, hasUncommitted: false, isDamaged: hasBrokenHeader(bytes) }
  const segment = { ...none, ...header, hasUncommitted: false, isDamaged: false }
  let rest = HEADER_BYTES
  for (const { entries, isConditional, end } of decodeRecords(bytes, header.salt)) {
    const last = entries.at(-1)?.position ?? START
    rest = end
    segment.hasUncommitted = isConditional && last > applied
    if (segment.hasUncommitted) break
    Object.assign(segment, { end, last })
  }
  return { ...segment, isDamaged: hasRecordAfter(bytes, rest, header.salt, maxPosition(segment.last, stored)) }
}

/**
 * The records that a segment has when this is called.
 * @param start where the first one begins
 */
export async function* readRecords(segment: Segment, start = HEADER_BYTES): AsyncGenerator<LogRecord> {
  // Copied, because the segment may be reused in the meantime; its records have another salt then.
  const { file, salt, end } = segment
  let length = PIECE_BYTES
  for (let at = start; at < end; ) {
    const wanted = Math.min(end - at, length)
    const bytes = await readUpTo(file, at, at + wanted)
    let read = 0
    for (const record of decodeRecords(bytes, salt, 0)) {
      read = record.end
      yield { ...record, start: at + record.start, end: at + record.end }
    }
    length = read > 0 ? PIECE_BYTES : recordLength(bytes)
    at += read
    if (read > 0 || (length > wanted && wanted < end - at)) continue
    if (segment.salt !== salt) return
    throw new Error(`${segment.path} is damaged: entries of the journal cannot be read`)
  }
}

/** Truncates the file of a segment to this many bytes. */
export async function truncateAfter(segment: Segment, end: number): Promise<void> {
  await segment.file.truncate(end)
  await segment.file.datasync()
  Object.assign(segment, { end, size: end })
}

/** Reads a file up to an offset, by default all of it. @returns an empty buffer if the file is gone */
export async function readFileUpTo(path: string, end?: number): Promise<Buffer> {
  const file = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
  if (!file) return Buffer.alloc(0)
  try {
    return await readUpTo(file, 0, end ?? (await file.stat()).size)
  } finally {
    await file.close()
  }
}

async function readUpTo(file: FileHandle, start: number, end: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(end - start)
  for (let at = 0; at < bytes.length; ) {
    const { bytesRead } = await file.read(bytes, at, bytes.length - at, start + at)
    if (bytesRead === 0) return bytes.subarray(0, at)
    at += bytesRead
  }
  return bytes
}

import { crc32 } from 'node:zlib'
import type { Position } from '../../model/position.js'
import type { WaitingEntry } from '../journal.js'
import { decodeEntry, encodeEntryHead } from './encoding.js'

/**
 * The bytes of a segment, which is a file of the log of entries:
 *
 *     header  magic (4 bytes), number (8), last position before this segment (8), salt (4), CRC of these (4)
 *     record  length of what follows the CRC (4 bytes), CRC (4), whether it is conditional (1), entries
 *     entry   position (8), length of the rest (4), the head (see `encodeEntryHead`), the body
 *
 * All integers are big-endian. A segment ends where no record follows. The CRC of a record is seeded with the salt,
 * which is drawn at random whenever a file is reused. So old bytes in the file are never mistaken for records, whatever
 * clients sent.
 */
export interface SegmentHeader {
  /** rises from segment to segment */
  number: number
  after: Position
  salt: number
}

/** The entries that one write appended. */
export interface LogRecord {
  entries: WaitingEntry[]
  /** whether it counts only if LMDB has the other changes of its write */
  isConditional: boolean
  /** where it begins and ends */
  start: number
  end: number
}

export const HEADER_BYTES = 28
const RECORD_HEAD_BYTES = 9
const ENTRY_HEAD_BYTES = 12
const MAGIC = 'TJL1'

export function encodeHeader({ number, after, salt }: SegmentHeader): Buffer {
  const header = Buffer.alloc(HEADER_BYTES)
  header.write(MAGIC, 'latin1')
  header.writeBigUInt64BE(BigInt(number), 4)
  header.writeBigUInt64BE(after, 12)
  header.writeUInt32BE(salt, 20)
  header.writeUInt32BE(crc32(header.subarray(0, 24)), 24)
  return header
}

/** @returns null if the bytes do not begin with a header */
export function decodeHeader(bytes: Buffer): SegmentHeader | null {
  if (bytes.length < HEADER_BYTES || bytes.toString('latin1', 0, 4) !== MAGIC) return null
  if (bytes.readUInt32BE(24) !== crc32(bytes.subarray(0, 24))) return null
  return { number: Number(bytes.readBigUInt64BE(4)), after: bytes.readBigUInt64BE(12), salt: bytes.readUInt32BE(20) }
}

/** @returns the parts of the record in order; bodies are not copied */
export function encodeRecord(entries: WaitingEntry[], isConditional: boolean, salt: number): Buffer[] {
  const head = Buffer.allocUnsafe(RECORD_HEAD_BYTES)
  head.writeUInt8(isConditional ? 1 : 0, 8)
  const parts: Buffer[] = [head]
  for (const entry of entries) {
    const rest = encodeEntryHead(entry)
    const start = Buffer.allocUnsafe(ENTRY_HEAD_BYTES)
    start.writeBigUInt64BE(entry.position)
    start.writeUInt32BE(rest.length + entry.body.length, 8)
    parts.push(Buffer.concat([start, rest]), entry.body)
  }
  head.writeUInt32BE(sumLengths(parts) - 8)
  head.writeUInt32BE(
    parts.reduce((crc, part, i) => crc32(i === 0 ? part.subarray(8) : part, crc), salt),
    4,
  )
  return parts
}

/** Whether the bytes begin with a damaged header. A crash does not cause that, because disks write whole sectors. */
export function hasBrokenHeader(bytes: Buffer): boolean {
  return !decodeHeader(bytes) && bytes.subarray(0, HEADER_BYTES).some((byte) => byte !== 0)
}

/** The records until none follows. @param start where the first one begins */
export function* decodeRecords(bytes: Buffer, salt: number, start = HEADER_BYTES): Generator<LogRecord> {
  for (let at = start; isWhole(bytes, at, salt); ) {
    const end = at + recordLength(bytes, at)
    const isConditional = bytes.readUInt8(at + 8) === 1
    yield { entries: decodeEntries(bytes.subarray(at + RECORD_HEAD_BYTES, end)), isConditional, start: at, end }
    at = end
  }
}

/** Size of the record that begins at `at`; more than the bytes there are if its head is incomplete. */
export function recordLength(bytes: Buffer, at = 0): number {
  return at + RECORD_HEAD_BYTES <= bytes.length ? 8 + bytes.readUInt32BE(at) : RECORD_HEAD_BYTES
}

function isWhole(bytes: Buffer, at: number, salt: number): boolean {
  const end = at + recordLength(bytes, at)
  if (end < at + RECORD_HEAD_BYTES || end > bytes.length) return false
  return bytes.readUInt32BE(at + 4) === crc32(bytes.subarray(at + 8, end), salt)
}

/**
 * Whether a complete record with entries after a position is anywhere after the end of a segment. A crash cannot leave
 * one with entries that are not stored, so the segment is damaged: only one write is in flight at a time, so nothing
 * follows a record that reached the disk only in part. If that record began a reused file and its first page is missing,
 * the previous header is still there, and previous records may follow, but all of their entries are stored.
 */
export function hasRecordAfter(segment: Buffer, end: number, salt: number, after: Position): boolean {
  for (let at = end; at + RECORD_HEAD_BYTES + ENTRY_HEAD_BYTES <= segment.length; at++) {
    if (isPlausible(segment, at, after) && isWhole(segment, at, salt)) return true
  }
  return false
}

/**
 * Whether a record with entries after a position may begin at `start`: a fast check, because a CRC at each byte is too
 * slow.
 */
function isPlausible(segment: Buffer, start: number, after: Position): boolean {
  // This is true for most bytes of text, so it is checked first.
  if ((segment[start] ?? 0) > segment.length >>> 24) return false
  const end = start + recordLength(segment, start)
  let at = start + RECORD_HEAD_BYTES
  if (at + ENTRY_HEAD_BYTES > end || end > segment.length || segment.readUInt8(at - 1) > 1) return false
  if (segment.readBigUInt64BE(at) <= after) return false
  while (at + ENTRY_HEAD_BYTES <= end) at += ENTRY_HEAD_BYTES + segment.readUInt32BE(at + 8)
  return at === end
}

function decodeEntries(bytes: Buffer): WaitingEntry[] {
  const entries: WaitingEntry[] = []
  for (let at = 0; at < bytes.length; ) {
    const end = at + ENTRY_HEAD_BYTES + bytes.readUInt32BE(at + 8)
    entries.push(decodeEntry(bytes.readBigUInt64BE(at), bytes.subarray(at + ENTRY_HEAD_BYTES, end)))
    at = end
  }
  return entries
}

export function sumLengths(parts: Buffer[]): number {
  return parts.reduce((sum, { length }) => sum + length, 0)
}

import { crc32 } from 'node:zlib'
import type { Position } from '../../model/position.js'
import type { Entry } from '../journal.js'
import { decodeEntry, encodeEntryHead } from './encoding.js'

/**
 * The bytes of a segment, which is a file of the log of entries:
 *
 *     header  magic (4 bytes), number (8), last position before this segment (8), salt (4), CRC of these (4)
 *     record  length of what follows the CRC (4 bytes), CRC (4), whether it is conditional (1), entries
 *     entry   position (8), length of the rest (4), then as `encodeEntryHead` has it, and the body
 *
 * All integers are big-endian. A segment ends where no record follows. The CRC of a record begins with the salt, which is
 * drawn anew each time that a file is used again: so what is left in it from before is no record, whatever clients sent.
 */
export interface SegmentHeader {
  /** rises from segment to segment */
  number: number
  after: Position
  salt: number
}

/** What one write appended. */
export interface LogRecord {
  entries: Entry[]
  /** whether it counts only if LMDB has the rest of its write */
  isConditional: boolean
  /** bytes of the segment up to its beginning and its end */
  start: number
  end: number
}

const HEADER_BYTES = 28
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

/** @returns the parts of the record in their order; bodies are not copied */
export function encodeRecord(entries: Entry[], isConditional: boolean, salt: number): Buffer[] {
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
  head.writeUInt32BE(lengthOf(parts) - 8)
  head.writeUInt32BE(
    parts.reduce((crc, part, i) => crc32(i === 0 ? part.subarray(8) : part, crc), salt),
    4,
  )
  return parts
}

/** The records of a segment up to its end. */
export function* decodeRecords(segment: Buffer, salt: number): Generator<LogRecord> {
  for (let start = HEADER_BYTES; start + RECORD_HEAD_BYTES <= segment.length; ) {
    const end = start + 8 + segment.readUInt32BE(start)
    if (end < start + RECORD_HEAD_BYTES || end > segment.length) return
    if (segment.readUInt32BE(start + 4) !== crc32(segment.subarray(start + 8, end), salt)) return
    const isConditional = segment.readUInt8(start + 8) === 1
    yield { entries: decodeEntries(segment.subarray(start + RECORD_HEAD_BYTES, end)), isConditional, start, end }
    start = end
  }
}

function decodeEntries(bytes: Buffer): Entry[] {
  const entries: Entry[] = []
  for (let at = 0; at < bytes.length; ) {
    const end = at + ENTRY_HEAD_BYTES + bytes.readUInt32BE(at + 8)
    entries.push(decodeEntry(bytes.readBigUInt64BE(at), bytes.subarray(at + ENTRY_HEAD_BYTES, end)))
    at = end
  }
  return entries
}

export function lengthOf(parts: Buffer[]): number {
  return parts.reduce((sum, { length }) => sum + length, 0)
}

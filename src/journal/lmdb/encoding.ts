import { millisecondsOf, type Position } from '../../model/position.js'
import type { Entry, EntryKind } from '../journal.js'

const KINDS: EntryKind[] = ['events', 'profiles', 'sessions']
/** Of kind, count and length of the project id. */
const ENTRY_HEADER_BYTES = 7
/** Added to the kind of an entry whose position is ahead of the clock; the clock's time follows its header. */
const HAS_TIME = 0x80

/** What the journal knows of itself, as JSON. */
export interface Meta {
  id: number
  stored: string
  frozen: [first: string, last: string] | null
  /** no position at or before it is assigned; absent if `advancePast` was never called */
  outranked?: string
}

export const EMPTY = Buffer.alloc(0)

export function positionKey(position: Position): Buffer {
  const key = Buffer.allocUnsafe(8)
  key.writeBigUInt64BE(position)
  return key
}

export function withPosition(position: Position, rest: Buffer): Buffer {
  return Buffer.concat([positionKey(position), rest])
}

export function expiryKey(atMs: number, type: string, name: Buffer): Buffer {
  return Buffer.concat([positionKey(BigInt(atMs)), Buffer.from(type), name])
}

/**
 * kind (1 byte), count (4), length of the project id (2), the time of acceptance (8, only if the kind has HAS_TIME), the
 * project id, the body. Without a time, the position's applies.
 */
export function encodeEntry({ position, kind, projectId, count, receivedAt, body }: Entry): Buffer {
  const hasTime = receivedAt !== millisecondsOf(position)
  const project = Buffer.from(projectId)
  const header = Buffer.allocUnsafe(ENTRY_HEADER_BYTES + (hasTime ? 8 : 0))
  header.writeUInt8(KINDS.indexOf(kind) + (hasTime ? HAS_TIME : 0), 0)
  header.writeUInt32BE(count, 1)
  header.writeUInt16BE(project.length, 5)
  if (hasTime) header.writeBigUInt64BE(BigInt(receivedAt), ENTRY_HEADER_BYTES)
  return Buffer.concat([header, project, body])
}

export function decodeEntry(position: Position, value: Buffer): Entry {
  const first = value.readUInt8(0)
  const kind = KINDS[first & ~HAS_TIME]
  if (kind === undefined) throw new Error(`journal entry ${position} is of an unknown kind`)
  const hasTime = first >= HAS_TIME
  const projectStart = ENTRY_HEADER_BYTES + (hasTime ? 8 : 0)
  const bodyStart = projectStart + value.readUInt16BE(5)
  return {
    position,
    kind,
    projectId: value.toString('utf8', projectStart, bodyStart),
    count: value.readUInt32BE(1),
    receivedAt: hasTime ? Number(value.readBigUInt64BE(ENTRY_HEADER_BYTES)) : millisecondsOf(position),
    body: value.subarray(bodyStart),
  }
}

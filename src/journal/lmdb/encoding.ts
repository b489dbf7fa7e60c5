import { type Position, toMilliseconds } from '../../model/position.js'
import type { EntryKind, WaitingEntry } from '../journal.js'
import { FIRST_LAYOUT, type LayoutGuard } from '../layout.js'
import { formatShares, parseShares, projectIn } from '../shares.js'

/** Entries are stored with the index of their kind in this list, so new kinds must be added at the end. */
const KINDS: EntryKind[] = ['events', 'profiles', 'sessions', 'aliases', 'rejected']
/** Kind, count and length of the shares. */
const ENTRY_HEADER_BYTES = 9
/** Added to the kind of an entry whose position is ahead of the clock; the clock's time follows its header. */
const HAS_TIME = 0x80
/** Added to the kind of an entry with skipped events; their count and indexes follow. */
const HAS_SKIP = 0x40

/** The version of all formats of the embedded journal. Raise it with any change of them: other versions are refused. */
export const FORMAT = 1

/** The state of the journal itself, stored as JSON. */
export interface Meta {
  format: typeof FORMAT
  id: number
  stored: string
  frozen: [first: string, last: string] | null
  /** only greater positions are assigned; absent if the journal was never lifted or advanced */
  outranked?: string
  /** version of the layout whose processes may use the journal; absent: the first */
  layout?: number
  /** version that the layout is being changed to, during which no writes are allowed */
  closedFor?: number
}

export function toGuard({ layout = FIRST_LAYOUT, closedFor }: Meta): LayoutGuard {
  return { version: layout, closedFor: closedFor ?? null }
}

/** The fields that `toGuard` reads; none for a journal of the first layout. */
export function toMeta({ version, closedFor }: LayoutGuard): Pick<Meta, 'layout' | 'closedFor'> {
  return { ...(version !== FIRST_LAYOUT && { layout: version }), ...(closedFor !== null && { closedFor }) }
}

export const EMPTY = Buffer.alloc(0)

export function positionKey(position: Position): Buffer {
  const key = Buffer.allocUnsafe(8)
  key.writeBigUInt64BE(position)
  return key
}

export function encodeNumber(value: number): Buffer {
  return positionKey(BigInt(value))
}

export function withPosition(position: Position, rest: Buffer): Buffer {
  return Buffer.concat([positionKey(position), rest])
}

/** The key of the expiry of a state. @param name the state's key; empty for the first expiry of this time */
export function expiryKey(atMs: number, name: Buffer): Buffer {
  return withPosition(BigInt(atMs), name)
}

/** The state's key within the key of its expiry. */
export function nameIn(expiry: Buffer): Buffer {
  return expiry.subarray(8)
}

/**
 * Encodes what precedes the body of an entry: kind (1 byte), count (4), length of the shares (4), the time of
 * acceptance (8, only if the kind has HAS_TIME), the number of skipped events and the index of each (4 each, only if
 * the kind has HAS_SKIP), the shares, which name the project. Without a time, the position's applies.
 */
export function encodeEntryHead({ position, kind, count, receivedAt, skip, shares }: WaitingEntry): Buffer {
  const hasTime = receivedAt !== toMilliseconds(position)
  const held = Buffer.from(formatShares(shares))
  const header = Buffer.allocUnsafe(ENTRY_HEADER_BYTES)
  header.writeUInt8(KINDS.indexOf(kind) + (hasTime ? HAS_TIME : 0) + (skip ? HAS_SKIP : 0), 0)
  header.writeUInt32BE(count, 1)
  header.writeUInt32BE(held.length, 5)
  const time = hasTime ? encodeNumber(receivedAt) : EMPTY
  return Buffer.concat([header, time, skip ? encodeIndexes(skip) : EMPTY, held])
}

/** @param value the head and the body */
export function decodeEntry(position: Position, value: Buffer): WaitingEntry {
  const first = value.readUInt8(0)
  const kind = KINDS[first & ~HAS_TIME & ~HAS_SKIP]
  if (kind === undefined) throw new Error(`journal entry ${position} is of an unknown kind`)
  const hasTime = (first & HAS_TIME) !== 0
  const skipStart = ENTRY_HEADER_BYTES + (hasTime ? 8 : 0)
  const skip = (first & HAS_SKIP) !== 0 ? decodeIndexes(value, skipStart) : null
  const sharesStart = skipStart + (skip ? 4 + 4 * skip.length : 0)
  const bodyStart = sharesStart + value.readUInt32BE(5)
  const shares = parseShares(value.toString('utf8', sharesStart, bodyStart))
  return {
    position,
    kind,
    projectId: projectIn(kind, shares),
    count: value.readUInt32BE(1),
    receivedAt: hasTime ? Number(value.readBigUInt64BE(ENTRY_HEADER_BYTES)) : toMilliseconds(position),
    body: value.subarray(bodyStart),
    ...(skip && { skip }),
    shares,
  }
}

function encodeIndexes(indexes: number[]): Buffer {
  const bytes = Buffer.allocUnsafe(4 + 4 * indexes.length)
  for (const [i, value] of [indexes.length, ...indexes].entries()) bytes.writeUInt32BE(value, 4 * i)
  return bytes
}

function decodeIndexes(value: Buffer, at: number): number[] {
  return Array.from({ length: value.readUInt32BE(at) }, (_, i) => value.readUInt32BE(at + 4 + 4 * i))
}

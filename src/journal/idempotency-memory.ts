import { DAY_MS } from '../contract/durations.js'
import type { Position } from '../model/position.js'
import type { IdempotencyKey } from '../model/request-ids.js'

/** A repeated request is recognised for this long, and for up to `IDEMPOTENCY_BUCKET_MS` longer. */
export const IDEMPOTENCY_MEMORY_MS = DAY_MS
/** Requests expire together, by the bucket of time in which they arrived. */
export const IDEMPOTENCY_BUCKET_MS = 6 * 60 * 60 * 1000
/** Buckets before the current one that may hold a request that has not expired. */
export const OLD_BUCKETS = IDEMPOTENCY_MEMORY_MS / IDEMPOTENCY_BUCKET_MS

/**
 * Bytes stored per key and per fingerprint. Two keys of a project never have the same 128 bits by chance, and a
 * deliberate collision harms only that project. The same is true for the 64 bits of a fingerprint.
 */
export const KEY_BYTES = 16
const FINGERPRINT_BYTES = 8
export const POSITION_BYTES = 8
/** Bytes of a position and a fingerprint. */
export const VALUE_BYTES = POSITION_BYTES + FINGERPRINT_BYTES
export const JOURNAL_BYTES = 4
const INDEX_BYTES = 3

/** The record of a request that both journals keep under its key. */
export interface RequestValue {
  /** FINGERPRINT_BYTES */
  fingerprint: Buffer
  /**
   * START if the key is only reserved (write type `reserve`): a commit with the same key and fingerprint is still
   * executed, in any lane. Otherwise a change would be lost if its process died between reserving and committing.
   */
  position: Position
  /** index of its event in the entry at that position; 0 for requests without an event */
  index: number
  /**
   * Id of the journal that assigned the position. It is kept when the request is copied to another lane, because a
   * repeated request must get the event ids of its first execution.
   */
  journalId: number
}

/**
 * Formats position and fingerprint; then the journal's id, if another journal assigned the position or an index
 * follows; then the index, if it is not 0. Most values have only the first two.
 * @param ownId id of the journal that remembers the request
 */
export function formatRequest({ fingerprint, position, index, journalId }: RequestValue, ownId: number): Buffer {
  const value = Buffer.alloc(VALUE_BYTES + JOURNAL_BYTES + INDEX_BYTES)
  value.writeBigUInt64BE(position)
  fingerprint.copy(value, POSITION_BYTES)
  value.writeUInt32BE(journalId, VALUE_BYTES)
  value.writeUIntBE(index, VALUE_BYTES + JOURNAL_BYTES, INDEX_BYTES)
  if (index > 0) return value
  return value.subarray(0, VALUE_BYTES + (journalId === ownId ? 0 : JOURNAL_BYTES))
}

export function parseRequest(value: Buffer, ownId: number): RequestValue {
  return {
    fingerprint: value.subarray(POSITION_BYTES, VALUE_BYTES),
    position: value.readBigUInt64BE(),
    index: value.length > VALUE_BYTES + JOURNAL_BYTES ? value.readUIntBE(VALUE_BYTES + JOURNAL_BYTES, INDEX_BYTES) : 0,
    journalId: value.length > VALUE_BYTES ? value.readUInt32BE(VALUE_BYTES) : ownId,
  }
}

export function bucketAt(ms: number): number {
  return Math.floor(ms / IDEMPOTENCY_BUCKET_MS)
}

export function keyBytes({ key }: IdempotencyKey): Buffer {
  return Buffer.from(key, 'hex').subarray(0, KEY_BYTES)
}

export function fingerprintBytes({ fingerprint }: IdempotencyKey): Buffer {
  return Buffer.from(fingerprint, 'hex').subarray(0, FINGERPRINT_BYTES)
}

/** Milliseconds until the oldest requests expire. */
export function msUntilNextBucket(now: number): number {
  return IDEMPOTENCY_BUCKET_MS - (now % IDEMPOTENCY_BUCKET_MS)
}

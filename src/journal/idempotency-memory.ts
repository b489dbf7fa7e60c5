import type { IdempotencyKey } from './journal.js'

/** A repeated request is recognised for this long, and for up to `REQUEST_BUCKET_MS` more. */
export const IDEMPOTENCY_MEMORY_MS = 24 * 60 * 60 * 1000
/** Requests are forgotten together, by the bucket of time that they came in. */
export const IDEMPOTENCY_BUCKET_MS = 6 * 60 * 60 * 1000
/** Buckets before the present one that may hold a request which is not to be forgotten yet. */
export const OLD_BUCKETS = IDEMPOTENCY_MEMORY_MS / IDEMPOTENCY_BUCKET_MS

/**
 * What is kept of a key and of a fingerprint, in bytes. Two keys of one project with the same 128 bits would have to be
 * looked for, and harm nobody but that project; of the 64 bits of a fingerprint the same is true.
 */
export const KEY_BYTES = 16
export const FINGERPRINT_BYTES = 8

export function bucketAt(ms: number): number {
  return Math.floor(ms / IDEMPOTENCY_BUCKET_MS)
}

export function keyBytes({ key }: IdempotencyKey): Buffer {
  return Buffer.from(key, 'hex').subarray(0, KEY_BYTES)
}

export function fingerprintBytes({ fingerprint }: IdempotencyKey): Buffer {
  return Buffer.from(fingerprint, 'hex').subarray(0, FINGERPRINT_BYTES)
}

/** When the oldest requests are forgotten next. */
export function msUntilNextBucket(now: number): number {
  return IDEMPOTENCY_BUCKET_MS - (now % IDEMPOTENCY_BUCKET_MS)
}

import type { IdempotencyKey } from './journal.js'

/** A repeated request is recognised for this long, and for up to `IDEMPOTENCY_BUCKET_MS` longer. */
export const IDEMPOTENCY_MEMORY_MS = 24 * 60 * 60 * 1000
/** Requests expire together, by the bucket of time in which they arrived. */
export const IDEMPOTENCY_BUCKET_MS = 6 * 60 * 60 * 1000
/** Buckets before the current one that may hold a request that has not expired. */
export const OLD_BUCKETS = IDEMPOTENCY_MEMORY_MS / IDEMPOTENCY_BUCKET_MS

/**
 * Bytes stored of a key and of a fingerprint. Two keys of one project with the same 128 bits do not occur by chance, and a
 * collision found on purpose harms only that project; the same holds for the 64 bits of a fingerprint.
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

/** Milliseconds until the oldest requests expire. */
export function msUntilNextBucket(now: number): number {
  return IDEMPOTENCY_BUCKET_MS - (now % IDEMPOTENCY_BUCKET_MS)
}

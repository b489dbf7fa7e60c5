import type { Database } from 'lmdb'
import type { Position } from '../../model/position.js'
import { bucketAt, fingerprintBytes, IDEMPOTENCY_MEMORY_MS, keyBytes, OLD_BUCKETS } from '../idempotency-memory.js'
import type { IdempotencyKey, Outcome } from '../journal.js'

const BUCKET_BYTES = 4
const POSITION_BYTES = 8

export interface RequestTables {
  /** bucket and key → position and fingerprint */
  requests: Database<Buffer, Buffer>
  /** bucket and project → number of that project's requests */
  counts: Database<Buffer, Buffer>
  /** of versions before 0.2: the whole key → position and fingerprint, in hexadecimal digits */
  old: Database<Buffer, Buffer>
}

/**
 * The requests that the embedded journal remembers, ordered by the bucket of time in which they arrived, so that expired
 * ones are removed from the front. Call all but `find` within a transaction.
 */
export class LmdbRequests {
  readonly #tables: RequestTables
  readonly #maxOfProject: number
  /** since the last removal */
  #added = 0

  /** @param maxOfProject 0: any number */
  constructor(tables: RequestTables, maxOfProject: number) {
    this.#tables = tables
    this.#maxOfProject = maxOfProject
  }

  find(request: IdempotencyKey, now: number): Outcome | null {
    const digest = keyBytes(request)
    const bucket = bucketAt(now)
    // From the next bucket on, as the clock may have been fast when the request arrived.
    for (let at = bucket + 1; at >= bucket - OLD_BUCKETS; at--) {
      const value = this.#tables.requests.get(keyAt(at, digest))
      if (value) return outcomeOf(value, value.subarray(POSITION_BYTES).equals(fingerprintBytes(request)))
    }
    const old = this.#tables.old.get(Buffer.from(request.key, 'hex'))
    return old ? outcomeOf(old, old.toString('utf8', POSITION_BYTES) === request.fingerprint) : null
  }

  /** Whether the project of the request has reached its maximum. */
  isLimited({ projectId }: IdempotencyKey, now: number): boolean {
    if (this.#maxOfProject === 0) return false
    const bucket = bucketAt(now)
    let count = 0
    for (let at = bucket + 1; at >= bucket - OLD_BUCKETS; at--) count += this.#count(at, projectId)
    return count >= this.#maxOfProject
  }

  remember(request: IdempotencyKey, position: Position, now: number): void {
    const bucket = bucketAt(now)
    const value = Buffer.allocUnsafe(POSITION_BYTES)
    value.writeBigUInt64BE(position)
    this.#tables.requests.put(keyAt(bucket, keyBytes(request)), Buffer.concat([value, fingerprintBytes(request)]))
    const count = Buffer.allocUnsafe(8)
    count.writeBigUInt64BE(BigInt(this.#count(bucket, request.projectId) + 1))
    this.#tables.counts.put(keyAt(bucket, Buffer.from(request.projectId)), count)
    this.#added++
  }

  /** Removes expired requests: up to `limit`, or twice as many as were added since the last time. */
  forget(now: number, limit: number): void {
    const end = keyAt(bucketAt(now - IDEMPOTENCY_MEMORY_MS), NOTHING)
    const most = Math.max(limit, 2 * this.#added)
    this.#added = 0
    for (const key of this.#tables.requests.getKeys({ end, limit: most })) this.#tables.requests.remove(key)
    for (const key of this.#tables.counts.getKeys({ end, limit: most })) this.#tables.counts.remove(key)
  }

  #count(bucket: number, projectId: string): number {
    return Number(this.#tables.counts.get(keyAt(bucket, Buffer.from(projectId)))?.readBigUInt64BE() ?? 0)
  }
}

const NOTHING = Buffer.alloc(0)

function keyAt(bucket: number, rest: Buffer): Buffer {
  const key = Buffer.allocUnsafe(BUCKET_BYTES)
  key.writeUInt32BE(Math.max(0, bucket))
  return Buffer.concat([key, rest])
}

function outcomeOf(value: Buffer, isSame: boolean): Outcome {
  return isSame ? { status: 'repeated', position: value.readBigUInt64BE() } : { status: 'mismatch' }
}

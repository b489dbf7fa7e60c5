import { INSERT_ID_BYTES, NO_INSERT_ID } from '../../model/insert-id.js'
import { idBucketAt, OLD_ID_BUCKETS } from '../insert-id-memory.js'
import type { RememberedIds } from '../relocation.js'
import { Draft } from './draft.js'
import type { LmdbTables } from './tables.js'

const BUCKET_BYTES = 4
/** Ids in one piece of `all`. */
const PIECE = 10_000

/**
 * The ids of events and changes that the embedded journal remembers, ordered by the bucket of time in which they arrived,
 * so that expired ones are removed from the front. Call `forget` within a transaction.
 */
export class LmdbInsertIds {
  readonly #table: LmdbTables['insertIds']
  /** buckets that may have ids; the others need not be searched */
  readonly #buckets = new Set<number>()
  /** since the last removal */
  #added = 0

  constructor({ insertIds }: Pick<LmdbTables, 'insertIds'>) {
    this.#table = insertIds
    for (let bucket = 0; ; ) {
      const [key] = insertIds.getKeys({ start: startOf(bucket), limit: 1 })
      if (!key) return
      bucket = key.readUInt32BE()
      this.#buckets.add(bucket++)
    }
  }

  /** The indexes of the known ids among these. */
  find(insertIds: Buffer, now: number, draft = new Draft()): number[] {
    const known: number[] = []
    const buckets = this.#living(now)
    for (let i = 0; i * INSERT_ID_BYTES < insertIds.length; i++) {
      const id = idAt(insertIds, i)
      if (id && this.#isKnown(id, buckets, draft)) known.push(i)
    }
    return known
  }

  /** Remembers ids. @returns the indexes of those that were known */
  take(insertIds: Buffer, now: number, draft: Draft, bucket = idBucketAt(now)): number[] {
    const known: number[] = []
    this.#buckets.add(bucket)
    const buckets = this.#living(now)
    for (let i = 0; i * INSERT_ID_BYTES < insertIds.length; i++) {
      const id = idAt(insertIds, i)
      if (!id) continue
      if (this.#isKnown(id, buckets, draft)) {
        known.push(i)
      } else {
        draft.put(this.#table, keyAt(bucket, id), NOTHING)
        this.#added++
      }
    }
    return known
  }

  /** Removes expired ids: up to `limit`, or twice as many as were added since the last time. */
  forget(now: number, limit: number): void {
    const first = idBucketAt(now) - OLD_ID_BUCKETS
    if (![...this.#buckets].some((bucket) => bucket < first)) return
    let left = Math.max(limit, 2 * this.#added)
    this.#added = 0
    for (const key of this.#table.getKeys({ end: startOf(first), limit: left })) {
      this.#table.remove(key)
      left--
    }
    // If the transaction is not committed, ids of these buckets stay; the removal of a later bucket also removes them.
    if (left > 0) for (const bucket of this.#buckets) if (bucket < first) this.#buckets.delete(bucket)
  }

  /** The ids that have not expired, in pieces. */
  *all(now: number): Generator<RememberedIds> {
    for (const bucket of this.#living(now)) {
      let ids: Buffer[] = []
      for (const key of this.#table.getKeys({ start: startOf(bucket), end: startOf(bucket + 1) })) {
        ids.push(Buffer.from(key.subarray(BUCKET_BYTES)))
        if (ids.length < PIECE) continue
        yield { bucket, ids: Buffer.concat(ids) }
        ids = []
      }
      if (ids.length > 0) yield { bucket, ids: Buffer.concat(ids) }
    }
  }

  /** The buckets that have not expired, the latest first, because most repetitions come soon. */
  #living(now: number): number[] {
    const first = idBucketAt(now) - OLD_ID_BUCKETS
    return [...this.#buckets].filter((bucket) => bucket >= first).sort((a, b) => b - a)
  }

  #isKnown(id: Buffer, buckets: number[], draft: Draft): boolean {
    return buckets.some((bucket) => draft.get(this.#table, keyAt(bucket, id)) !== undefined)
  }
}

const NOTHING = Buffer.alloc(0)

function idAt(insertIds: Buffer, index: number): Buffer | null {
  const id = insertIds.subarray(index * INSERT_ID_BYTES, (index + 1) * INSERT_ID_BYTES)
  return id.equals(NO_INSERT_ID) ? null : id
}

function keyAt(bucket: number, id: Buffer): Buffer {
  const key = Buffer.allocUnsafe(BUCKET_BYTES + INSERT_ID_BYTES)
  key.writeUInt32BE(bucket)
  id.copy(key, BUCKET_BYTES)
  return key
}

function startOf(bucket: number): Buffer {
  const key = Buffer.allocUnsafe(BUCKET_BYTES)
  key.writeUInt32BE(Math.max(0, bucket))
  return key
}

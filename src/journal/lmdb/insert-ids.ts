import { hasInsertId, INSERT_ID_BYTES } from '../../model/insert-id.js'
import { idBucketAt, OLD_ID_BUCKETS } from '../insert-id-memory.js'
import type { RememberedIds } from '../relocation.js'
import { bucketStart, bucketsIn } from './buckets.js'
import { Draft } from './draft.js'
import { IdBucket, type IdLimits } from './id-bucket.js'
import type { MemoryClock } from './memory-clock.js'
import type { LmdbTables } from './tables.js'

/** Ids of an older version that are moved in one transaction. */
const MOVED = 10_000
/** Bytes of ids that are listed at once, or a little more: whoever adds them elsewhere waits for the disk after each piece. */
const PIECE_BYTES = 10_000 * INSERT_ID_BYTES

/**
 * The ids of events and changes that the embedded journal remembers, by the bucket of time in which they arrived, so that
 * expired ones are removed together.
 */
export class LmdbInsertIds {
  readonly #table: LmdbTables['insertIds']
  readonly #limits: IdLimits | undefined
  readonly #clock: MemoryClock | null
  readonly #buckets = new Map<number, IdBucket>()
  /** whether the table may have ids of buckets that have expired */
  #hasExpired = true
  /** the last write that took ids, and the buckets that it took them for */
  #last: { draft: Draft; buckets: Set<IdBucket> } | null = null

  /** @param clock by which ids expire; default: the time that each call has */
  constructor({ insertIds }: Pick<LmdbTables, 'insertIds'>, limits?: IdLimits, clock: MemoryClock | null = null) {
    this.#table = insertIds
    this.#clock = clock
    this.#limits = limits
    for (const bucket of bucketsIn(insertIds)) this.#bucketOf(bucket)
  }

  /** The indexes of the known ids among these. Call it only while no write is in flight, or before its `record`. */
  find(insertIds: Buffer, now: number, draft = new Draft()): number[] {
    this.#settle(draft)
    const buckets = this.#living(now)
    const known: number[] = []
    for (let at = 0; at < insertIds.length; at += INSERT_ID_BYTES) {
      if (isId(insertIds, at) && buckets.some((bucket) => bucket.has(insertIds, at))) {
        known.push(at / INSERT_ID_BYTES)
      }
    }
    return known
  }

  /** Remembers ids. Call `record` once all ids of a write are taken. @returns the indexes of those that were known */
  take(insertIds: Buffer, now: number, draft: Draft, bucket = idBucketAt(now)): number[] {
    this.#settle(draft)
    const own = this.#bucketOf(bucket)
    const others = this.#living(now).filter((other) => other !== own)
    const known: number[] = []
    let isTaken = false
    for (let at = 0; at < insertIds.length; at += INSERT_ID_BYTES) {
      if (!isId(insertIds, at)) continue
      if (others.some((other) => other.has(insertIds, at)) || !own.take(insertIds, at)) {
        known.push(at / INSERT_ID_BYTES)
      } else {
        isTaken = true
      }
    }
    if (!isTaken) return known
    this.#last ??= { draft, buckets: new Set() }
    this.#last.buckets.add(own)
    return known
  }

  /** Records the ids that a write took, if it took any. */
  record(draft: Draft): void {
    if (this.#last?.draft === draft) for (const bucket of this.#last.buckets) bucket.record(draft)
  }

  /** Removes expired ids, up to `limit` records and pages. Call it within a transaction. */
  forget(now: number, limit: number): void {
    const first = this.#oldest(now)
    for (const bucket of this.#buckets.keys()) {
      if (bucket >= first) continue
      this.#buckets.delete(bucket)
      this.#hasExpired = true
    }
    if (!this.#hasExpired) return
    let left = limit
    for (const key of this.#table.getKeys({ end: bucketStart(first), limit })) {
      this.#table.remove(key)
      left--
    }
    // If the transaction is not committed, records of these buckets stay; they are removed with those of a later bucket.
    this.#hasExpired = left === 0
  }

  /** The ids that have not expired, in pieces; an id may come twice. Call it only while no write is in flight. */
  *all(now: number): Generator<RememberedIds> {
    this.#settle(new Draft())
    const first = this.#oldest(now)
    for (const [number, bucket] of this.#buckets) {
      if (number < first) continue
      let pages: Buffer[] = []
      let bytes = 0
      for (const ids of bucket.all()) {
        pages.push(ids)
        bytes += ids.length
        if (bytes < PIECE_BYTES) continue
        yield { bucket: number, ids: Buffer.concat(pages) }
        pages = []
        bytes = 0
      }
      if (bytes > 0) yield { bucket: number, ids: Buffer.concat(pages) }
    }
  }

  /** The buckets that have not expired, the latest first, because most repetitions come soon. */
  #living(now: number): IdBucket[] {
    const first = this.#oldest(now)
    const living = [...this.#buckets].filter(([number]) => number >= first)
    return living.sort(([a], [b]) => b - a).map(([, bucket]) => bucket)
  }

  /** The oldest bucket that has not expired. */
  #oldest(now: number): number {
    return idBucketAt(this.#clock?.at(now) ?? now) - OLD_ID_BUCKETS
  }

  #bucketOf(number: number): IdBucket {
    const bucket = this.#buckets.get(number) ?? new IdBucket(this.#table, number, this.#limits)
    this.#buckets.set(number, bucket)
    return bucket
  }

  /** Keeps or drops what the last write took, as it is known by now whether that was committed. */
  #settle(draft: Draft): void {
    if (!this.#last || this.#last.draft === draft) return
    for (const bucket of this.#last.buckets) {
      if (this.#last.draft.isCommitted) bucket.keep()
      else bucket.drop()
    }
    this.#last = null
  }
}

/** Moves the ids of a version that had one record for each. */
export async function moveOldInsertIds(tables: LmdbTables, now: number): Promise<void> {
  const { root, oldInsertIds } = tables
  const insertIds = new LmdbInsertIds(tables)
  for (;;) {
    const keys = [...oldInsertIds.getKeys({ limit: MOVED })]
    if (keys.length === 0) return
    const draft = new Draft()
    const buckets = new Map<number, Buffer[]>()
    for (const key of keys) {
      const ids = buckets.get(key.readUInt32BE()) ?? []
      ids.push(key.subarray(-INSERT_ID_BYTES))
      buckets.set(key.readUInt32BE(), ids)
      draft.remove(oldInsertIds, key)
    }
    for (const [bucket, ids] of buckets) insertIds.take(Buffer.concat(ids), now, draft, bucket)
    insertIds.record(draft)
    await draft.commit(root)
  }
}

function isId(insertIds: Buffer, at: number): boolean {
  return insertIds.readInt32LE(at) !== 0 || hasInsertId(insertIds, at / INSERT_ID_BYTES)
}

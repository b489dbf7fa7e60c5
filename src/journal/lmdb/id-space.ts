import { INSERT_ID_BYTES, NO_INSERT_ID } from '../../model/insert-id.js'
import { shortenedSince } from '../insert-id-memory.js'
import type { Draft } from './draft.js'
import { IdBucket, type IdLimits } from './id-bucket.js'
import type { LmdbTables } from './tables.js'

/** The record of a sender's ids. If a write failed, it may be ahead of the ids themselves. */
export interface SpaceRecord {
  /** epoch ms: ids that came before were forgotten early; null if none ever was */
  since: number | null
  /** whether they were forgotten on request, not because there were too many */
  isRequested: boolean
  /** the buckets in the order in which they were begun */
  buckets: {
    /** unique number of its `IdBucket` */
    number: number
    /** the bucket of time in which its ids arrived */
    time: number
    /** epoch ms at which the first id arrived */
    startedAt: number
    ids: number
  }[]
  /** numbers of buckets to remove */
  dropped: number[]
}

export interface SpaceOptions {
  limits(): IdLimits
  /** a number for a new bucket */
  nextNumber(): number
}

/** The time of a look-up or a write of ids. */
export interface IdTime {
  /** epoch ms */
  now: number
  /** the oldest bucket of time that has not expired */
  oldest: number
}

/** The ids of one sender, in `IdBucket`s by the bucket of time in which they arrived; several if many arrived. */
export class IdSpace {
  readonly #table: LmdbTables['insertIds']
  readonly #options: SpaceOptions
  readonly record: SpaceRecord
  readonly #buckets: Map<number, IdBucket>
  /** buckets that the current write has added to */
  readonly #changed = new Set<number>()
  /** whether the current write is the first in 7 days that made ids be forgotten early */
  #isShortened = false

  constructor(table: LmdbTables['insertIds'], record: SpaceRecord, options: SpaceOptions) {
    this.#table = table
    this.#options = options
    this.record = record
    this.#buckets = new Map(record.buckets.map(({ number }) => [number, this.#open(number)]))
    for (const bucket of record.buckets) bucket.ids = this.#buckets.get(bucket.number)?.size ?? 0
  }

  /** The indexes of the known ids. */
  find(ids: Buffer, { oldest }: IdTime): number[] {
    const buckets = this.#living(oldest)
    const known: number[] = []
    for (const at of placesIn(ids)) {
      if (buckets.some((bucket) => bucket.has(ids, at))) known.push(at / INSERT_ID_BYTES)
    }
    return known
  }

  /**
   * Adds ids, and forgets the oldest if there are too many afterwards. Call `write` after the last `take` of a write.
   * @param bucket of time in which they arrived
   * @returns the indexes of ids that were known
   */
  take(ids: Buffer, { now, oldest }: IdTime, bucket: number, max: number): number[] {
    const to = this.#bucketFor(bucket, now, max)
    const own = this.#buckets.get(to.number)
    if (!own) throw new Error('a bucket of ids is not open')
    const others = this.#living(oldest).filter((other) => other !== own)
    const known: number[] = []
    let added = 0
    for (const at of placesIn(ids)) {
      if (others.some((other) => other.has(ids, at)) || !own.take(ids, at)) known.push(at / INSERT_ID_BYTES)
      else added++
    }
    if (added === 0) return known
    to.ids += added
    this.#changed.add(to.number)
    this.#shorten(to.number, { now, oldest }, max)
    return known
  }

  /** Records the ids that a write has taken. */
  write(draft: Draft): void {
    for (const number of this.#changed) this.#buckets.get(number)?.record(draft)
  }

  /**
   * Call it when the write is committed.
   * @returns whether it is the first in 7 days that made ids be forgotten early
   */
  keep(): boolean {
    for (const number of this.#changed) this.#buckets.get(number)?.keep()
    this.#changed.clear()
    const isShortened = this.#isShortened
    this.#isShortened = false
    return isShortened
  }

  /** Marks buckets for removal. @returns whether there were any */
  drop(isDropped: (bucket: SpaceRecord['buckets'][number]) => boolean): boolean {
    if (!dropFrom(this.record, isDropped)) return false
    for (const number of this.record.dropped) this.#buckets.delete(number)
    return true
  }

  /** All ids that have not expired, with the bucket of time in which they arrived; an id may occur twice. */
  *all(oldest: number): Generator<{ bucket: number; ids: Buffer }> {
    for (const { number, time } of this.record.buckets) {
      if (time < oldest) continue
      for (const ids of this.#buckets.get(number)?.all() ?? []) yield { bucket: time, ids }
    }
  }

  /** The buckets that have not expired, latest first, because most repetitions come soon. */
  #living(oldest: number): IdBucket[] {
    const living: IdBucket[] = []
    for (const { number, time } of this.record.buckets) {
      const bucket = time >= oldest ? this.#buckets.get(number) : undefined
      if (bucket) living.unshift(bucket)
    }
    return living
  }

  #bucketFor(time: number, now: number, max: number): SpaceRecord['buckets'][number] {
    const { buckets } = this.record
    const last = buckets.findLast((bucket) => bucket.time === time)
    // Half of the maximum must remain when the oldest bucket is forgotten.
    if (last && last.ids < max / 2) return last
    const next = { number: this.#options.nextNumber(), time, startedAt: now, ids: 0 }
    buckets.push(next)
    this.#buckets.set(next.number, this.#open(next.number))
    return next
  }

  #shorten(own: number, { now, oldest }: IdTime, max: number): void {
    if (countIds(this.record) <= max) return
    // Expired ids are no longer known, so dropping them first forgets nothing early.
    this.drop(({ time }) => time < oldest)
    while (countIds(this.record) > max) {
      const first = this.record.buckets.find(({ number }) => number !== own)
      if (!first) return
      this.drop((bucket) => bucket === first)
      if (shortenedSince(this.record.since, now) === null) this.#isShortened = true
      this.record.since = this.record.buckets[0]?.startedAt ?? now
      this.record.isRequested = false
    }
  }

  #open(number: number): IdBucket {
    return new IdBucket(this.#table, number, this.#options.limits)
  }
}

function countIds({ buckets }: SpaceRecord): number {
  return buckets.reduce((sum, { ids }) => sum + ids, 0)
}

/** Marks buckets of a record for removal. @returns whether there were any */
export function dropFrom(record: SpaceRecord, isDropped: (bucket: SpaceRecord['buckets'][number]) => boolean): boolean {
  const dropped = record.buckets.filter(isDropped)
  if (dropped.length === 0) return false
  record.dropped.push(...dropped.map(({ number }) => number))
  record.buckets = record.buckets.filter((bucket) => !dropped.includes(bucket))
  return true
}

/** The offsets of ids in the buffer, without zeros, which mean no id. */
function* placesIn(ids: Buffer): Generator<number> {
  for (let at = 0; at < ids.length; at += INSERT_ID_BYTES) if (isId(ids, at)) yield at
}

function isId(ids: Buffer, at: number): boolean {
  return ids.readInt32LE(at) !== 0 || ids.compare(NO_INSERT_ID, 0, INSERT_ID_BYTES, at, at + INSERT_ID_BYTES) !== 0
}

import { type Position, START } from '../../model/position.js'
import type { IdempotencyKey } from '../../model/request-ids.js'
import { type Sender, senderName } from '../../model/sender.js'
import {
  bucketAt,
  fingerprintBytes,
  formatRequest,
  IDEMPOTENCY_MEMORY_MS,
  keyBytes,
  OLD_BUCKETS,
  parseRequest,
  type RequestValue,
} from '../idempotency-memory.js'
import type { Refused } from '../journal.js'
import type { RememberedRequest } from '../relocation.js'
import type { PerClass } from '../sender-limits.js'
import { BUCKET_BYTES, bucketStart, bucketsIn } from './buckets.js'
import { Draft } from './draft.js'
import { encodeNumber } from './encoding.js'
import type { MemoryClock } from './memory-clock.js'
import type { LmdbTables } from './tables.js'

/**
 * The requests that the embedded journal remembers, ordered by the bucket of time in which they arrived, so that
 * expired ones are removed from the front. Call `forget` and `add` within a transaction.
 */
export class LmdbRequests {
  readonly #tables: Pick<LmdbTables, 'requests' | 'counts'>
  readonly #maxPerSender: PerClass
  readonly #clock: MemoryClock | null
  readonly #ownId: number
  /** the buckets that may have requests, the latest first; usually one or two */
  #buckets: number[]
  /** since the last removal */
  #added = 0

  /**
   * @param ownId id of this journal
   * @param clock the clock by which requests expire; default: the time passed to each call
   */
  constructor(
    tables: Pick<LmdbTables, 'requests' | 'counts'>,
    ownId: number,
    maxPerSender: PerClass,
    clock: MemoryClock | null = null,
  ) {
    this.#clock = clock
    this.#tables = tables
    this.#ownId = ownId
    this.#maxPerSender = maxPerSender
    this.#buckets = [...bucketsIn(tables.requests)].reverse()
  }

  /** See `Journal.findRequest`. */
  find(request: IdempotencyKey, now: number): Refused | null {
    return findRefusal(request, [...this.#found(request, now, new Draft())], this.#ownId)
  }

  /** Why a request is not executed: it is known, or its sender has reached its maximum. Null if it is executed. */
  refusal(request: IdempotencyKey, sender: Sender, now: number, draft: Draft): Refused | null {
    const found = [...this.#found(request, now, draft)]
    const known = findRefusal(request, found, this.#ownId)
    if (known) return known
    // A reserved key has been counted.
    return found.length === 0 && this.#isLimited(sender, now, draft) ? { status: 'limited' } : null
  }

  *#found(request: IdempotencyKey, now: number, draft: Draft): Generator<RequestValue> {
    const digest = keyBytes(request)
    for (const bucket of this.#living(now)) {
      const value = draft.get(this.#tables.requests, keyAt(bucket, digest))
      if (value) yield parseRequest(value, this.#ownId)
    }
  }

  #isLimited(sender: Sender, now: number, draft: Draft): boolean {
    let count = 0
    for (const bucket of this.#living(now)) count += this.#count(bucket, sender, draft)
    return count >= this.#maxPerSender[sender.keyClass]
  }

  /**
   * The buckets that have not expired, and future ones, because the clock may have been ahead when a request arrived:
   * the next one if the clock is relied upon, otherwise all.
   */
  #living(now: number): number[] {
    const oldest = bucketAt(this.#time(now)) - OLD_BUCKETS
    const newest = this.#clock ? Number.POSITIVE_INFINITY : bucketAt(now) + 1
    return this.#buckets.filter((bucket) => bucket >= oldest && bucket <= newest)
  }

  #time(now: number): number {
    return this.#clock?.at(now) ?? now
  }

  #noteBucket(bucket: number): void {
    if (this.#buckets.includes(bucket)) return
    this.#buckets.push(bucket)
    this.#buckets.sort((a, b) => b - a)
  }

  /**
   * Remembers a request.
   * @param event `position`: that of its entry, START if the key is only reserved; `index`: that of its event in the entry
   */
  remember(
    request: IdempotencyKey,
    sender: Sender,
    event: { position: Position; index: number },
    now: number,
    draft: Draft,
  ): void {
    const bucket = bucketAt(now)
    const key = keyAt(bucket, keyBytes(request))
    const isNew = draft.get(this.#tables.requests, key) === undefined
    const value = { fingerprint: fingerprintBytes(request), ...event, journalId: this.#ownId }
    draft.put(this.#tables.requests, key, formatRequest(value, this.#ownId))
    this.#noteBucket(bucket)
    this.#added++
    if (!isNew) return
    const count = this.#count(bucket, sender, draft) + 1
    draft.put(this.#tables.counts, countKey(bucket, sender), encodeNumber(count))
  }

  /** Removes expired requests: up to `limit`, or twice as many as were added since the last time. */
  forget(now: number, limit: number): void {
    const first = bucketAt(this.#time(now) - IDEMPOTENCY_MEMORY_MS)
    const end = bucketStart(first)
    const max = Math.max(limit, 2 * this.#added)
    this.#added = 0
    let removed = 0
    for (const key of this.#tables.requests.getKeys({ end, limit: max })) {
      this.#tables.requests.remove(key)
      removed++
    }
    if (removed < max) this.#buckets = this.#buckets.filter((bucket) => bucket >= first)
    for (const key of this.#tables.counts.getKeys({ end, limit: max })) this.#tables.counts.remove(key)
  }

  /** The requests that have not expired. */
  *all(now: number): Generator<RememberedRequest> {
    const start = bucketStart(bucketAt(this.#time(now)) - OLD_BUCKETS)
    for (const { key, value } of this.#tables.requests.getRange({ start })) {
      const { fingerprint, ...request } = parseRequest(value, this.#ownId)
      const copies = { fingerprint: Buffer.from(fingerprint), key: Buffer.from(key.subarray(BUCKET_BYTES)) }
      yield { ...request, ...copies, bucket: key.readUInt32BE() }
    }
  }

  /** Adds a request of another journal, unless it is known here as more than reserved. */
  add({ bucket, key, ...request }: RememberedRequest): void {
    const at = keyAt(bucket, key)
    const here = this.#tables.requests.get(at)
    if (here && here.readBigUInt64BE() !== START) return
    if (request.position === START && here) return
    this.#tables.requests.put(at, formatRequest(request, this.#ownId))
    this.#noteBucket(bucket)
  }

  #count(bucket: number, sender: Sender, draft: Draft): number {
    return Number(draft.get(this.#tables.counts, countKey(bucket, sender))?.readBigUInt64BE() ?? 0)
  }
}

function countKey(bucket: number, sender: Sender): Buffer {
  return keyAt(bucket, Buffer.from(senderName(sender)))
}

function keyAt(bucket: number, rest: Buffer): Buffer {
  return Buffer.concat([bucketStart(bucket), rest])
}

/** The refusal of a remembered request; null if it is unknown or only reserved. */
function findRefusal(request: IdempotencyKey, found: RequestValue[], ownId: number): Refused | null {
  const own = fingerprintBytes(request)
  for (const { fingerprint, position, index, journalId } of found) {
    if (!fingerprint.equals(own)) return { status: 'mismatch' }
    if (position === START) continue
    const place = index > 0 ? { index, journalId } : journalId !== ownId && { journalId }
    return { status: 'repeated', position, ...place }
  }
  return null
}

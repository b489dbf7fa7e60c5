import { type Position, START } from '../../model/position.js'
import {
  bucketAt,
  FINGERPRINT_BYTES,
  fingerprintBytes,
  IDEMPOTENCY_MEMORY_MS,
  KEY_BYTES,
  keyBytes,
  OLD_BUCKETS,
} from '../idempotency-memory.js'
import type { IdempotencyKey, Outcome } from '../journal.js'
import type { RememberedRequest } from '../relocation.js'
import { BUCKET_BYTES, bucketStart, bucketsIn } from './buckets.js'
import { Draft } from './draft.js'
import { positionKey, REQUEST } from './encoding.js'
import type { LmdbTables } from './tables.js'

const POSITION_BYTES = 8
const VALUE_BYTES = POSITION_BYTES + FINGERPRINT_BYTES

/** What is remembered of a request. */
interface Found {
  /** null if it is only reserved */
  position: Position | null
  isSame: boolean
  /** another journal assigned the position */
  journalId?: number
}

/**
 * The requests that the embedded journal remembers, ordered by the bucket of time in which they arrived, so that expired
 * ones are removed from the front. Call `forget` and `add` within a transaction.
 */
export class LmdbRequests {
  readonly #tables: Pick<LmdbTables, 'requests' | 'counts' | 'oldRequests' | 'expiries'>
  readonly #maxOfProject: number
  /** those that may have requests, the latest first: most of the time, all but one or two are empty */
  #buckets: number[]
  readonly #hasOld: boolean
  /** since the last removal */
  #added = 0

  /** @param maxOfProject 0: any number */
  constructor(tables: Pick<LmdbTables, 'requests' | 'counts' | 'oldRequests' | 'expiries'>, maxOfProject: number) {
    this.#tables = tables
    this.#maxOfProject = maxOfProject
    this.#buckets = [...bucketsIn(tables.requests)].reverse()
    const [old] = tables.oldRequests.getKeys({ limit: 1 })
    this.#hasOld = old !== undefined
  }

  /** See `Journal.findRequest`. */
  find(request: IdempotencyKey, now: number, draft = new Draft()): Outcome | null {
    for (const { position, isSame, journalId } of this.#found(request, now, draft)) {
      if (!isSame) return { status: 'mismatch' }
      if (position !== null) return { status: 'repeated', position, ...(journalId !== undefined && { journalId }) }
    }
    return null
  }

  /** Why a request is not executed: it is known, or its project has reached its maximum. Null if it is executed. */
  refusal(request: IdempotencyKey, now: number, draft: Draft): Outcome | null {
    const known = this.find(request, now, draft)
    if (known) return known
    // A reserved key is counted already.
    const [reserved] = this.#found(request, now, draft)
    return !reserved && this.#isLimited(request, now, draft) ? { status: 'limited' } : null
  }

  *#found(request: IdempotencyKey, now: number, draft: Draft): Generator<Found> {
    const digest = keyBytes(request)
    for (const bucket of this.#living(now)) {
      const value = draft.get(this.#tables.requests, keyAt(bucket, digest))
      if (value) yield parseValue(value, fingerprintBytes(request))
    }
    if (!this.#hasOld) return
    const old = this.#tables.oldRequests.get(Buffer.from(request.key, 'hex'))
    if (old)
      yield { position: old.readBigUInt64BE(), isSame: old.toString('utf8', POSITION_BYTES) === request.fingerprint }
  }

  #isLimited({ projectId }: IdempotencyKey, now: number, draft: Draft): boolean {
    if (this.#maxOfProject === 0) return false
    let count = 0
    for (const bucket of this.#living(now)) count += this.#count(bucket, projectId, draft)
    return count >= this.#maxOfProject
  }

  /** The buckets that have not expired, and the next one: the clock may have been ahead when a request arrived. */
  #living(now: number): number[] {
    const current = bucketAt(now)
    return this.#buckets.filter((bucket) => bucket <= current + 1 && bucket >= current - OLD_BUCKETS)
  }

  #noteBucket(bucket: number): void {
    if (this.#buckets.includes(bucket)) return
    this.#buckets.push(bucket)
    this.#buckets.sort((a, b) => b - a)
  }

  /** @param position START: reserved */
  remember(request: IdempotencyKey, position: Position, now: number, draft: Draft): void {
    const bucket = bucketAt(now)
    const key = keyAt(bucket, keyBytes(request))
    const isNew = draft.get(this.#tables.requests, key) === undefined
    draft.put(this.#tables.requests, key, formatValue(position, fingerprintBytes(request)))
    this.#noteBucket(bucket)
    this.#added++
    if (!isNew) return
    const count = Buffer.allocUnsafe(8)
    count.writeBigUInt64BE(BigInt(this.#count(bucket, request.projectId, draft) + 1))
    draft.put(this.#tables.counts, keyAt(bucket, Buffer.from(request.projectId)), count)
  }

  /** Removes expired requests: up to `limit`, or twice as many as were added since the last time. */
  forget(now: number, limit: number): void {
    const first = bucketAt(now - IDEMPOTENCY_MEMORY_MS)
    const end = bucketStart(first)
    const most = Math.max(limit, 2 * this.#added)
    this.#added = 0
    let removed = 0
    for (const key of this.#tables.requests.getKeys({ end, limit: most })) {
      this.#tables.requests.remove(key)
      removed++
    }
    if (removed < most) this.#buckets = this.#buckets.filter((bucket) => bucket >= first)
    for (const key of this.#tables.counts.getKeys({ end, limit: most })) this.#tables.counts.remove(key)
  }

  /** The requests that have not expired. @param ownId id of this journal */
  *all(ownId: number, now: number): Generator<RememberedRequest> {
    const start = bucketStart(bucketAt(now) - OLD_BUCKETS)
    for (const { key, value } of this.#tables.requests.getRange({ start })) {
      const fingerprint = value.subarray(POSITION_BYTES, VALUE_BYTES)
      const { position, journalId = ownId } = parseValue(value, fingerprint)
      const request = { position: position ?? START, journalId, fingerprint: Buffer.from(fingerprint) }
      yield { ...request, bucket: key.readUInt32BE(), key: Buffer.from(key.subarray(BUCKET_BYTES)) }
    }
    for (const key of this.#tables.expiries.getKeys({ start: positionKey(BigInt(now)) })) {
      if (key.toString('latin1', 8, 9) !== REQUEST) continue
      const name = key.subarray(9)
      const old = this.#tables.oldRequests.get(name)
      if (old) yield modernised(name, old, Number(key.readBigUInt64BE()), ownId)
    }
  }

  /** Adds a request of another journal, unless it is known here as more than reserved. @param ownId id of this journal */
  add({ bucket, key, fingerprint, position, journalId }: RememberedRequest, ownId: number): void {
    const at = keyAt(bucket, key)
    const here = this.#tables.requests.get(at)
    if (here && here.readBigUInt64BE() !== START) return
    if (position === START && here) return
    const value = formatValue(position, fingerprint)
    const id = Buffer.allocUnsafe(4)
    id.writeUInt32BE(journalId)
    this.#tables.requests.put(at, journalId === ownId ? value : Buffer.concat([value, id]))
    this.#noteBucket(bucket)
  }

  #count(bucket: number, projectId: string, draft: Draft): number {
    return Number(draft.get(this.#tables.counts, keyAt(bucket, Buffer.from(projectId)))?.readBigUInt64BE() ?? 0)
  }
}

function keyAt(bucket: number, rest: Buffer): Buffer {
  return Buffer.concat([bucketStart(bucket), rest])
}

function formatValue(position: Position, fingerprint: Buffer): Buffer {
  const value = Buffer.allocUnsafe(POSITION_BYTES)
  value.writeBigUInt64BE(position)
  return Buffer.concat([value, fingerprint])
}

function parseValue(value: Buffer, fingerprint: Buffer): Found {
  const position = value.readBigUInt64BE()
  return {
    position: position === START ? null : position,
    isSame: value.subarray(POSITION_BYTES, VALUE_BYTES).equals(fingerprint),
    ...(value.length > VALUE_BYTES && { journalId: value.readUInt32BE(VALUE_BYTES) }),
  }
}

/** A request of a version before 0.2 as it is remembered now. @param expiresAt epoch ms */
function modernised(name: Buffer, value: Buffer, expiresAt: number, journalId: number): RememberedRequest {
  return {
    bucket: bucketAt(expiresAt - IDEMPOTENCY_MEMORY_MS),
    key: Buffer.from(name.subarray(0, KEY_BYTES)),
    fingerprint: Buffer.from(value.toString('utf8', POSITION_BYTES), 'hex').subarray(0, FINGERPRINT_BYTES),
    position: value.readBigUInt64BE(),
    journalId,
  }
}

import { KEY_CLASSES } from '../../contract/key-class.js'
import { INSERT_ID_BYTES, type SentIds } from '../../model/insert-id.js'
import { parseSender, type Sender, senderName } from '../../model/sender.js'
import { type IdUse, idBucketAt, OLD_ID_BUCKETS, shortenedSince } from '../insert-id-memory.js'
import type { RememberedIds } from '../relocation.js'
import { ANY_NUMBER, type PerClass } from '../sender-limits.js'
import { bucketStart } from './buckets.js'
import { Draft } from './draft.js'
import { ID_LIMITS, type IdLimits } from './id-bucket.js'
import { dropFrom, IdSpace, type IdTime, type SpaceRecord } from './id-space.js'
import type { MemoryClock } from './memory-clock.js'
import type { LmdbTables } from './tables.js'

/**
 * Approximate size of a listed piece of ids. The caller that adds them elsewhere waits for the disk after each piece.
 */
const PIECE_BYTES = 10_000 * INSERT_ID_BYTES
/** How many senders' ids are kept open. For other senders, a look-up reads a few records first. */
const MAX_OPEN = 500
/** How many senders a sweep inspects. */
const SWEPT = 50
/** How many records and pages one step of `removeDropped` removes. */
const REMOVED = 2000
/** How many ids all open senders together may have in memory before they are merged into pages, see `IdLimits`. */
const RECENT = { min: 480_000, max: 1_920_000 }
const MIN_RECENT = 2_000

export interface InsertIdsOptions {
  /** default: see `limitsFor` */
  limits?: IdLimits | undefined
  /** the clock by which ids expire; default: the time passed to each call */
  clock?: MemoryClock | null
  max?: PerClass
  /** ids of this sender are forgotten early from now on; called again only after 7 days in which none was */
  onShortened?(sender: Sender): void
}

/** The ids of events and changes that the embedded journal remembers, separately for each sender. */
export class LmdbInsertIds {
  readonly #tables: Pick<LmdbTables, 'insertIds' | 'idSpaces'>
  readonly #options: InsertIdsOptions
  /** by sender, the most recently used at the end */
  readonly #open = new Map<string, IdSpace>()
  #lastNumber: number
  /** the last write that took ids, and their senders */
  #last: { draft: Draft; spaces: Map<string, IdSpace> } | null = null
  /** the name after which the next sweep begins */
  #sweptTo: Buffer | null = null

  constructor(tables: Pick<LmdbTables, 'insertIds' | 'idSpaces'>, options: InsertIdsOptions = {}) {
    this.#tables = tables
    this.#options = options
    const [lastKey] = tables.insertIds.getKeys({ reverse: true, limit: 1 })
    this.#lastNumber = lastKey?.readUInt32BE() ?? 0
    for (const { value } of tables.idSpaces.getRange()) {
      const { buckets, dropped } = parse(value)
      this.#lastNumber = Math.max(this.#lastNumber, ...dropped, ...buckets.map(({ number }) => number))
    }
  }

  /** The indexes of the known ids. Call it only while no write is in flight, or before the write's `record`. */
  find({ sender, digests }: SentIds, now: number, draft = new Draft()): number[] {
    this.#settle(draft)
    return this.#space(senderName(sender)).find(digests, this.#time(now))
  }

  /** Remembers ids. Call `record` once all ids of a write are taken. @returns the indexes of ids that were known */
  take({ sender, digests }: SentIds, now: number, draft: Draft, bucket = idBucketAt(now)): number[] {
    this.#settle(draft)
    const { max = ANY_NUMBER } = this.#options
    const name = senderName(sender)
    const space = this.#space(name)
    const known = space.take(digests, this.#time(now), bucket, max[sender.keyClass])
    if (known.length * INSERT_ID_BYTES === digests.length) return known
    this.#last ??= { draft, spaces: new Map() }
    this.#last.spaces.set(name, space)
    return known
  }

  /** Records the ids that a write took, if it took any. */
  record(draft: Draft): void {
    if (this.#last?.draft !== draft) return
    for (const [name, space] of this.#last.spaces) {
      space.write(draft)
      draft.put(this.#tables.idSpaces, Buffer.from(name), format(space.record))
    }
  }

  /**
   * Removes expired and dropped ids of some senders, up to `limit` records and pages. Call it within a transaction.
   */
  forget(now: number, limit: number): void {
    const { oldest } = this.#time(now)
    let left = limit
    const from = this.#sweptTo
    const some = [
      ...this.#tables.idSpaces.getRange({ ...(from && { start: from, exclusiveStart: true }), limit: SWEPT }),
    ]
    this.#sweptTo = some.length < SWEPT ? null : (some.at(-1)?.key ?? null)
    for (const { key, value } of some) {
      const space = this.#open.get(key.toString())
      const record = space?.record ?? parse(value)
      const isExpired = ({ time }: { time: number }) => time < oldest
      const isChanged = space ? space.drop(isExpired) : dropFrom(record, isExpired)
      const since = shortenedSince(record.since, now)
      if (!isChanged && record.dropped.length === 0 && record.since === since) continue
      record.since = since
      if (left > 0) left -= this.#remove(record, left)
      this.#put(key, record)
    }
  }

  /** Forgets all ids of a sender. Call it only while no write is in flight, and then `removeDropped`. */
  drop(sender: Sender, now: number): void {
    this.#settle(new Draft())
    const space = this.#space(senderName(sender))
    if (space.drop(() => true)) Object.assign(space.record, { since: now, isRequested: true })
  }

  /** Removes a sender's dropped ids from disk, in steps. @param transact executes a step in a transaction */
  async removeDropped(sender: Sender, transact: (step: () => void) => Promise<void>): Promise<void> {
    const name = senderName(sender)
    for (let isLeft = true; isLeft; ) {
      await transact(() => {
        const { record } = this.#space(name)
        isLeft = this.#remove(record, REMOVED) === REMOVED
        this.#put(Buffer.from(name), record)
      })
    }
  }

  /** The use of each sender that has ids. */
  *use(now: number, projectId?: string): Generator<IdUse> {
    const { oldest } = this.#time(now)
    const own = projectId !== undefined && KEY_CLASSES.map((keyClass) => senderName({ projectId, keyClass }))
    for (const name of own || this.#names()) {
      const { buckets, since, isRequested } = this.#open.get(name)?.record ?? this.#read(name)
      let ids = 0
      for (const bucket of buckets) if (bucket.time >= oldest) ids += bucket.ids
      if (ids > 0) yield { sender: parseSender(name), ids, since: shortenedSince(since, now), isRequested }
    }
  }

  /** The ids that have not expired, in pieces; an id may occur twice. Call it only while no write is in flight. */
  *all(now: number): Generator<RememberedIds> {
    this.#settle(new Draft())
    const { oldest } = this.#time(now)
    for (const name of this.#names()) {
      const sender = parseSender(name)
      const pages: Buffer[] = []
      let bytes = 0
      let last = 0
      const piece = () => ({ sender, bucket: last, ids: Buffer.concat(pages.splice(0)) })
      for (const { bucket, ids } of this.#space(name).all(oldest)) {
        if (pages.length > 0 && (bucket !== last || bytes >= PIECE_BYTES)) {
          yield piece()
          bytes = 0
        }
        last = bucket
        pages.push(ids)
        bytes += ids.length
      }
      if (bytes > 0) yield piece()
    }
  }

  /**
   * Removes records and pages of dropped buckets. A bucket stays listed until a later call finds it empty: the
   * transaction may fail, and an unlisted bucket would never be removed.
   * @returns how many, at most `limit`
   */
  #remove(record: SpaceRecord, limit: number): number {
    const { insertIds } = this.#tables
    let removed = 0
    record.dropped = record.dropped.filter((number) => {
      const range = { start: bucketStart(number), end: bucketStart(number + 1), limit: limit - removed }
      const keys = range.limit > 0 ? [...insertIds.getKeys(range)] : null
      for (const key of keys ?? []) insertIds.remove(key)
      removed += keys?.length ?? 0
      return keys === null || keys.length > 0
    })
    return removed
  }

  #put(key: Buffer, record: SpaceRecord): void {
    const { buckets, dropped, since } = record
    const isEmpty = buckets.length === 0 && dropped.length === 0 && since === null
    if (isEmpty) this.#tables.idSpaces.remove(key)
    else this.#tables.idSpaces.put(key, format(record))
  }

  #time(now: number): IdTime {
    return { now, oldest: idBucketAt(this.#options.clock?.at(now) ?? now) - OLD_ID_BUCKETS }
  }

  #space(name: string): IdSpace {
    let space = this.#open.get(name)
    if (space) {
      this.#open.delete(name)
    } else {
      const limits = () => this.#options.limits ?? limitsFor(this.#open.size)
      space = new IdSpace(this.#tables.insertIds, this.#read(name), { limits, nextNumber: () => ++this.#lastNumber })
    }
    this.#open.set(name, space)
    if (this.#open.size > MAX_OPEN) this.#closeOne()
    return space
  }

  *#names(): Generator<string> {
    for (const key of this.#tables.idSpaces.getKeys()) yield key.toString()
  }

  #read(name: string): SpaceRecord {
    const value = this.#tables.idSpaces.get(Buffer.from(name))
    return value ? parse(value) : { since: null, isRequested: false, buckets: [], dropped: [] }
  }

  #closeOne(): void {
    for (const name of this.#open.keys()) {
      // The ids that a write has taken are only in memory until it is committed.
      if (this.#last?.spaces.has(name)) continue
      this.#open.delete(name)
      return
    }
  }

  /** Keeps the ids of the last write if it was committed; otherwise they are read from the table again. */
  #settle(draft: Draft): void {
    if (!this.#last || this.#last.draft === draft) return
    const { spaces, draft: last } = this.#last
    this.#last = null
    for (const [name, space] of spaces) {
      if (!last.isCommitted) this.#open.delete(name)
      else if (space.keep()) this.#options.onShortened?.(parseSender(name))
    }
  }
}

/** The more senders there are, the fewer ids each may have in memory. */
function limitsFor(senders: number): IdLimits {
  const share = (of: number, max: number) => Math.max(MIN_RECENT, Math.min(max, Math.floor(of / Math.max(1, senders))))
  const { recent, page } = ID_LIMITS
  return { recent: { min: share(RECENT.min, recent.min), max: share(RECENT.max, recent.max) }, page }
}

function format(record: SpaceRecord): Buffer {
  return Buffer.from(JSON.stringify(record))
}

function parse(value: Buffer): SpaceRecord {
  return JSON.parse(value.toString()) as SpaceRecord
}

import { INSERT_ID_BYTES } from '../../model/insert-id.js'
import { BUCKET_BYTES, bucketStart } from './buckets.js'
import type { Draft } from './draft.js'
import { IdTable } from './id-table.js'
import { PageFilter } from './page-filter.js'
import type { LmdbTables } from './tables.js'

/** Sizes that decide when ids are merged. */
export interface IdLimits {
  /** ids are merged into pages when memory has an eighth of the ids in pages, but within these bounds */
  recent: { min: number; max: number }
  /** pages are split when they have this many ids on average */
  page: number
}

/**
 * A page of 160 ids fills most of an LMDB page. The recent ids, including those of the write that exceeds the maximum,
 * are fewer than 2^19: an `IdTable` of more doubles to 32 MiB, which takes the main thread 50 ms.
 */
export const ID_LIMITS: IdLimits = { recent: { min: 60_000, max: 480_000 }, page: 160 }
const RECENT_SHARE = 1 / 8
/** A merge finishes by the time that this fraction of the number of ids that it merges have arrived. */
const MERGE_SHARE = 2 / 3
/**
 * How many records of merged ids a write removes at least; it removes twice the number of its own ids if that is more.
 */
const MIN_REMOVED = 64

/** The kinds of keys, after the bucket. */
const SHAPE = 0
const LOG = 1
const PAGE = 2
/** bucket, kind, and a number of 48 bits */
const KEY_BYTES = BUCKET_BYTES + 1 + 6
/** Offsets in an id of the bytes that choose its page, and of the next ones, which distinguish most ids of a page. */
const PAGE_AT = 4
const REST_AT = 8

/** How the ids of the bucket are distributed. */
interface Shape {
  /** there are 2^bits pages */
  bits: number
  /** number of the first record of the log that is not merged, or being merged */
  merged: number
  /** ids in pages, without those that are being merged */
  count: number
  /** the current merge: how many pages it has rewritten, and the `bits` after it */
  merge: { done: number; bits: number } | null
}

const NO_IDS = Buffer.alloc(0)

const EMPTY: Shape = { bits: 1, merged: 0, count: 0, merge: null }

/** Ids that are being merged into pages. */
interface Merging {
  table: IdTable
  /** filter of the pages that are rewritten */
  filter: PageFilter
}

/**
 * Ids of one sender that arrived in one bucket of time. New ids are appended to a log, one record for each write, and
 * kept in memory. When there are many, they are merged into pages, some pages with each write: a write of 1000 random
 * ids into a tree would rewrite 1000 of its pages. After a write that took ids, call `keep` if it was committed;
 * otherwise reopen the bucket.
 *
 * Keys are its number, then
 *   SHAPE                           → `Shape` as JSON
 *   LOG and the number of a record  → ids
 *   PAGE and the first id of a page → ids in any order; a page that is split leaves its key to its first part
 */
export class IdBucket {
  readonly #table: LmdbTables['insertIds']
  readonly #number: number
  readonly #limits: () => IdLimits
  #shape: Shape
  /** the ids that are not in pages, except those of `#merging` */
  #recent = new IdTable()
  /** ids that the current write has taken */
  #taken = new IdTable()
  #merging: Merging | null = null
  #filter: PageFilter
  #nextRecord: number
  /** whether the log may have records whose ids are merged */
  #hasMerged = true
  /** how many pages the merge still has to rewrite to be on schedule */
  #due = 0

  /** Reads a bucket from the table. */
  constructor(table: LmdbTables['insertIds'], number: number, limits = () => ID_LIMITS) {
    this.#table = table
    this.#number = number
    this.#limits = limits
    const shape = table.get(this.#key(SHAPE))
    this.#shape = shape ? (JSON.parse(shape.toString()) as Shape) : EMPTY
    const { bits, merged, merge } = this.#shape
    this.#filter = new PageFilter(2 ** bits)
    this.#nextRecord = merged
    const mergingIds = new IdTable()
    const start = this.#key(LOG, merge ? 0 : merged)
    for (const { key, value } of table.getRange({ start, end: this.#key(PAGE) })) {
      const record = key.readUIntBE(BUCKET_BYTES + 1, 6)
      const to = record < merged ? mergingIds : this.#recent
      for (let at = 0; at < value.length; at += INSERT_ID_BYTES) to.add(value, at)
      this.#nextRecord = Math.max(this.#nextRecord, record + 1)
    }
    if (merge) this.#merging = this.#startMerging(mergingIds, merge.bits)
  }

  get size(): number {
    return this.#shape.count + (this.#merging?.table.size ?? 0) + this.#recent.size + this.#taken.size
  }

  has(ids: Buffer, at: number): boolean {
    return this.#taken.has(ids, at) || this.#recent.has(ids, at) || this.#hasMergedId(ids, at)
  }

  /** Remembers an id, which must be recorded by the end of its write. @returns false if it was known */
  take(ids: Buffer, at: number): boolean {
    return !this.#recent.has(ids, at) && !this.#hasMergedId(ids, at) && this.#taken.add(ids, at)
  }

  /**
   * Records the ids that were taken. Call it once for a write, after its last `take`: a record for each request would
   * add more records than are removed.
   */
  record(draft: Draft): void {
    // Do this before adding the new record, because #recent still has the ids of all records in the log.
    if (this.#hasMerged && !this.#merging) this.#removeMerged(draft)
    else this.#merge(draft)
    draft.put(this.#table, this.#key(LOG, this.#nextRecord++), this.#taken.all())
  }

  /** Call it when the write is committed. */
  keep(): void {
    this.#addRecent(this.#taken.all())
    this.#taken = new IdTable()
  }

  /** All ids, in pieces; an id may occur twice. */
  *all(): Generator<Buffer> {
    for (const { value } of this.#table.getRange({ start: this.#key(PAGE), end: bucketStart(this.#number + 1) })) {
      yield value
    }
    for (const table of [this.#merging?.table, this.#recent]) if (table && table.size > 0) yield table.all()
  }

  #hasMergedId(ids: Buffer, at: number): boolean {
    if (this.#merging?.table.has(ids, at)) return true
    const { bits, merge } = this.#shape
    const word = ids.readUInt32BE(at + PAGE_AT)
    const isDone = merge !== null && findPageNumber(word, bits) < merge.done
    const pageBits = isDone ? merge.bits : bits
    const filter = (isDone && this.#merging?.filter) || this.#filter
    const number = findPageNumber(word, pageBits)
    if (!filter.mayHave(number, ids, at)) return false
    const page = this.#table.get(this.#key(PAGE, firstWordOfPage(number, pageBits))) ?? NO_IDS
    if (!filter.isNoted(number)) filter.note(number, page)
    return isIn(page, ids, at)
  }

  #removeMerged(draft: Draft): void {
    const limit = Math.max(MIN_REMOVED, 2 * this.#taken.size)
    let removed = 0
    for (const key of this.#table.getKeys({ start: this.#key(LOG), end: this.#key(LOG, this.#shape.merged), limit })) {
      draft.remove(this.#table, key)
      removed++
    }
    this.#hasMerged = removed === limit
  }

  #addRecent(ids: Buffer): void {
    for (let at = 0; at < ids.length; at += INSERT_ID_BYTES) this.#recent.add(ids, at)
    const { merge } = this.#shape
    if (!merge || !this.#merging) return
    this.#due += ((ids.length / INSERT_ID_BYTES) * 2 ** merge.bits) / (this.#merging.table.size * MERGE_SHARE)
  }

  #merge(draft: Draft): void {
    if (!this.#merging && !this.#start()) return
    const { bits, merge } = this.#shape
    if (!merge) return
    const pages = 2 ** (merge.bits - bits)
    for (; this.#due >= pages && this.#merging; this.#due -= pages) this.#mergePage(draft)
    draft.put(this.#table, this.#key(SHAPE), Buffer.from(JSON.stringify(this.#shape)))
  }

  /** Begins to merge the recent ids. @returns false if there are too few */
  #start(): boolean {
    const { recent, page } = this.#limits()
    const { bits, count } = this.#shape
    const { size } = this.#recent
    if (size < Math.min(recent.max, Math.max(recent.min, count * RECENT_SHARE))) return false
    let nextBits = bits
    while ((count + size) / 2 ** nextBits > page) nextBits++
    this.#shape = { bits, count, merged: this.#nextRecord, merge: { done: 0, bits: nextBits } }
    this.#merging = this.#startMerging(this.#recent, nextBits)
    this.#recent = new IdTable()
    this.#due = 0
    return true
  }

  #mergePage(draft: Draft): void {
    const { bits, merged, count, merge } = this.#shape
    if (!merge || !this.#merging) return
    const { table, filter } = this.#merging
    const number = merge.done
    const ids = table.withPrefix(number, bits)
    const before = this.#table.get(this.#key(PAGE, firstWordOfPage(number, bits)))
    if (merge.bits > bits || ids.length > 0) {
      const parts = splitPage(before ? Buffer.concat([before, ids]) : ids, merge.bits, 2 ** (merge.bits - bits))
      parts.forEach((part, i) => {
        const page = number * parts.length + i
        const key = this.#key(PAGE, firstWordOfPage(page, merge.bits))
        filter.note(page, part)
        if (part.length > 0) draft.put(this.#table, key, part)
        else if (i === 0 && before) draft.remove(this.#table, key)
      })
    }
    const done = number + 1
    if (done < 2 ** bits) {
      this.#shape = { bits, merged, count, merge: { ...merge, done } }
      return
    }
    this.#shape = { bits: merge.bits, merged, count: count + table.size, merge: null }
    this.#filter = filter
    this.#merging = null
    this.#hasMerged = true
  }

  #startMerging(table: IdTable, bits: number): Merging {
    return { table, filter: bits === this.#shape.bits ? this.#filter : new PageFilter(2 ** bits) }
  }

  #key(kind: number, number = 0): Buffer {
    const key = Buffer.allocUnsafe(KEY_BYTES)
    key.writeUInt32BE(this.#number)
    key.writeUInt8(kind, BUCKET_BYTES)
    key.writeUIntBE(number, BUCKET_BYTES + 1, 6)
    return key
  }
}

/** The number of the page for ids that begin with `word`. @param bits at least 1 */
function findPageNumber(word: number, bits: number): number {
  return word >>> (32 - bits)
}

function firstWordOfPage(number: number, bits: number): number {
  return number * 2 ** (32 - bits)
}

function isIn(page: Buffer, ids: Buffer, at: number): boolean {
  const rest = ids.readInt32LE(at + REST_AT)
  for (let from = 0; from < page.length; from += INSERT_ID_BYTES) {
    if (page.readInt32LE(from + REST_AT) !== rest) continue
    if (ids.compare(page, from, from + INSERT_ID_BYTES, at, at + INSERT_ID_BYTES) === 0) return true
  }
  return false
}

/** Splits a page. @param bits the bits that choose a page afterwards @param pages into how many, a power of two */
function splitPage(ids: Buffer, bits: number, pages: number): Buffer[] {
  if (pages === 1) return [ids]
  const parts: Buffer[][] = Array.from({ length: pages }, () => [])
  for (let at = 0; at < ids.length; at += INSERT_ID_BYTES) {
    const number = findPageNumber(ids.readUInt32BE(at + PAGE_AT), bits)
    parts[number % pages]?.push(ids.subarray(at, at + INSERT_ID_BYTES))
  }
  return parts.map((part) => Buffer.concat(part))
}

import { setTimeout as wait } from 'node:timers/promises'
import { classifyStoreFailure, isDataError, isMemoryError, StoreUnreachableError } from '../clickhouse/errors.js'
import type { Block, Entry, EntryKind, Journal } from '../journal/journal.js'
import { type Backoff, backoffMs } from '../lib/backoff.js'
import type { Log } from '../lib/log.js'
import { formatPosition, maxPosition, type Position, START } from '../model/position.js'
import { EntryError, eraseSkipped, rewriteEntry } from '../model/verbatim.js'
import type { Tables } from '../store/tables.js'
import { WriterMetrics } from './writer-metrics.js'

export interface WriterOptions {
  journal: Journal
  tables: Tables
  log: Pick<Log, 'info' | 'warn' | 'error'>
  /** pause after a block that was not full, ms, which a waiting reader ends */
  pauseMs?: number
  /** journal bytes of a block */
  maxBlockBytes?: number
  /** how long a block that another writer froze is not shrunk, ms */
  foreignMs?: number
}

/**
 * Events after rows: rows have versions, so those stored from a refused block may be stored again after it shrank.
 * Rejected entries come last, and are looked up before they are stored.
 */
const KINDS: EntryKind[] = ['profiles', 'sessions', 'aliases', 'events', 'rejected']
/**
 * An INSERT costs ClickHouse about 5 ms of CPU however small it is, and makes a part to be merged. At 1000 single
 * events a second it takes half as much CPU per event as with 200 ms, and writes half as much. Without a waiting
 * reader, data is still stored within a second.
 */
const PAUSE_MS = 500
const MAX_BLOCK_BYTES = 32 * 1024 * 1024
/** A refused block is rewritten in pieces, because each one blocks this thread for some 20 ms. */
const PIECE_BYTES = 2 * 1024 * 1024
/** ClickHouse does not run out of memory because of a block this small, so it is not shrunk further. */
const MIN_BLOCK_BYTES = 256 * 1024
/** Blocks that must fit before one of twice the size is attempted: a failed attempt costs as much as a block. */
const FITTING_BLOCKS = 64
/** Several times the duration of an INSERT, a lease and a restart together. */
const FOREIGN_MS = 10 * 60 * 1000
const BACKOFF: Backoff = { firstMs: 100, maxMs: 5_000 }

/**
 * Stores the journal block by block. A block is frozen before the first attempt and acknowledged once its INSERT has
 * succeeded; every retry in between sends the same bytes with the same token. journal.ts draws the life of a block.
 */
export class Writer {
  readonly metrics = new WriterMetrics()
  readonly #journal: Journal
  readonly #tables: Tables
  readonly #log: WriterOptions['log']
  readonly #pauseMs: number
  readonly #maxBlockBytes: number
  readonly #foreignMs: number
  readonly #stop = new AbortController()
  readonly #stopListening: () => void
  /** limit of the next block: less than usual after a refusal, so that a bad entry is found soon */
  #blockBytes: number
  /** largest block known to fit the memory of ClickHouse; `maxBlockBytes` at first */
  #fittingBytes: number
  #fittingBlocks = 0
  /** the block that did not fit, since when, and when an INSERT of it last got no response (`performance.now()`) */
  #oversized: { first: Position; since: number; lostAt: number } | null = null
  /** the first position of the block that this writer froze itself and that no other one can have claimed since */
  #frozenHere: Position | null = null
  #isWoken = false
  #wake: (() => void) | null = null
  #running: Promise<void> | null = null
  #failures = 0
  /** whether this writer let another one have its block, and has neither reached ClickHouse nor claimed one since */
  #hasYielded = false
  /** whether the store may have more than the journal knows of: after a start and after a failure */
  #isInDoubt = true
  /** up to `last`, entries of the journal may be stored; if the journal lost steps, as parts of other blocks */
  #doubt = { last: START, hasLost: false }
  /** era of the journal when the last doubt was resolved */
  #era = 0
  #acknowledged = START

  constructor(options: WriterOptions) {
    const {
      journal,
      tables,
      log,
      pauseMs = PAUSE_MS,
      maxBlockBytes = MAX_BLOCK_BYTES,
      foreignMs = FOREIGN_MS,
    } = options
    this.#journal = journal
    this.#tables = tables
    this.#log = log
    this.#pauseMs = pauseMs
    this.#maxBlockBytes = maxBlockBytes
    this.#foreignMs = foreignMs
    this.#blockBytes = maxBlockBytes
    this.#fittingBytes = maxBlockBytes
    this.#stopListening = journal.listen({
      onWake: () => {
        this.#isWoken = true
        if (this.#failures === 0) this.#wake?.()
      },
    })
  }

  start(): void {
    this.#running ??= this.#run()
  }

  /** Stores what the journal holds, for up to `limitMs`. The rest stays in the journal. */
  async close(limitMs = 0): Promise<void> {
    const deadline = Date.now() + limitMs
    while (this.#running && Date.now() < deadline && (await this.#isBehind())) {
      this.#journal.wakeWriter()
      await wait(10)
    }
    this.#stop.abort()
    this.#wake?.()
    await this.#running
    this.#stopListening()
  }

  /** Whether waiting makes sense: there is something to store, and the last attempt succeeded. */
  async #isBehind(): Promise<boolean> {
    if (this.#failures > 0) return false
    try {
      const { appended, stored } = await this.#journal.progress()
      return stored < appended
    } catch {
      return false
    }
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        const isFull = await this.#storeNext()
        if (this.#failures > 0 && isFull !== null) this.#log.info({ failures: this.#failures }, 'the writer recovered')
        this.#failures = 0
        if (!isFull) await this.#pause(this.#pauseMs)
      } catch (error) {
        this.#failures++
        this.#isInDoubt = true
        if (this.#stop.signal.aborted) return
        this.metrics.countRetry(error)
        const hasYielded = await this.#yieldAfter(error)
        this.#hasYielded = hasYielded
        const minMs = hasYielded ? 2 * this.#pauseMs : 0
        const retryMs = Math.max(backoffMs(BACKOFF, this.#failures), minMs)
        const details = { err: error, retryMs, failures: this.#failures, hasYielded }
        this.#log.warn(details, 'insert failed, retrying the block')
        this.#isWoken = false
        await this.#pause(retryMs)
      }
    }
  }

  /**
   * Lets a waiting writer take over after a failure of ClickHouse, because only the path from this process may have
   * failed. A block that exceeds ClickHouse's memory fails everywhere, and its own writer can shrink it sooner.
   * @returns whether another writer may have the block from now on
   */
  async #yieldAfter(error: unknown): Promise<boolean> {
    const failure = classifyStoreFailure(error)
    if (failure === null || failure === 'memory') return false
    const hasYielded = await this.#journal.yieldLease()
    if (hasYielded) this.#frozenHere = null
    return hasYielded
  }

  /** @returns whether the next block is probably waiting already; null if there was none to claim */
  async #storeNext(): Promise<boolean | null> {
    this.#isWoken = false
    const limit = this.#blockBytes
    // It would keep a writer that can reach ClickHouse from storing until it fails again.
    if (this.#hasYielded && (await this.#canReachStore())) this.#hasYielded = false
    if (this.#stop.signal.aborted) return null
    const claimed = await this.#journal.claim(limit, this.#hasYielded)
    if (!claimed) return null
    this.#hasYielded = false
    if (!claimed.isRepeated) this.#frozenHere = claimed.first
    await this.#resolveDoubt(claimed)
    const rest = claimed.first <= this.#doubt.last ? await this.#skipStored(claimed) : claimed
    if (!rest) return true
    const block = await this.#shrinkToMemory(rest)
    try {
      await this.#insert(block)
    } catch (error) {
      if (isMemoryError(error)) this.#noteOversized(block)
      if (!isDataError(error)) throw error
      await this.#storeRefused(block)
      return true
    }
    await this.#acknowledge(block)
    if (++this.#fittingBlocks % FITTING_BLOCKS === 0)
      this.#fittingBytes = Math.min(2 * this.#fittingBytes, this.#maxBlockBytes)
    this.#blockBytes = Math.min(Math.max(2 * limit, PIECE_BYTES), this.#fittingBytes)
    return sumBytes(block.entries) >= limit
  }

  async #canReachStore(): Promise<boolean> {
    return await this.#tables.ping().then(
      () => true,
      () => false,
    )
  }

  /**
   * The journal may have lost the record that it froze or acknowledged a block: Redis can lose that at a power cut, and
   * a replica that becomes the master may never have received it. Asks the store up to which position it has entries of
   * this journal, and advances the journal past it.
   */
  async #resolveDoubt({ first, last }: Block): Promise<void> {
    const { era } = this.#journal
    const hasLost = era !== this.#era || first <= this.#acknowledged
    if (!hasLost && !this.#isInDoubt) return
    // The doubt remains if the store is unavailable.
    this.#isInDoubt = true
    const lastStored = await this.#tables.lastStored(first)
    if (lastStored !== null && lastStored > last) await this.#journal.advancePast(lastStored)
    const stillLost = this.#doubt.hasLost && first <= this.#doubt.last
    this.#doubt = { last: lastStored ?? START, hasLost: hasLost || stillLost }
    this.#era = era
    this.#acknowledged = START
    this.#isInDoubt = false
  }

  /**
   * Keeps events of a doubtful block that are stored already from being stored again under another token.
   * @returns the block, shrunk to a first part that is not stored at all; null if its first part was stored and is now
   *   acknowledged. The rest becomes the journal's next block
   */
  async #skipStored(block: Block): Promise<Block | null> {
    const stored = await this.#tables.storedPositions(block)
    const isStored = ({ position }: Entry) => stored.has(position)
    const events = block.entries.filter(({ kind }) => kind === 'events')
    const known = events.filter(isStored).length
    if (known === 0) return block
    // A repeated block that is only partly stored, for example because it spans two months, is completed under its own
    // token.
    if (known < events.length && block.isRepeated && !this.#doubt.hasLost) return block
    const isKnown = events[0] !== undefined && isStored(events[0])
    const end = block.entries.findIndex((entry) => entry.kind === 'events' && isStored(entry) !== isKnown)
    const part = end === -1 ? block : await this.#shrink(block, end)
    if (!isKnown) return part
    await this.#insert({ ...part, entries: part.entries.filter(({ kind }) => kind !== 'events') })
    await this.#acknowledge(part)
    return null
  }

  async #insert(block: Omit<Block, 'entries'> & { entries: Entry[] }): Promise<void> {
    for (const kind of KINDS) {
      const entries = block.entries.filter((entry) => entry.kind === kind)
      if (entries.length === 0) continue
      const startedAt = performance.now()
      await this.#tables.insert(kind, entries, this.#token(block), this.#stop.signal).catch((error) => {
        const isLost = error instanceof StoreUnreachableError
        if (isLost && this.#oversized?.first === block.first) this.#oversized.lostAt = performance.now()
        throw error
      })
      this.metrics.countInsert(kind, startedAt)
      if (kind === 'rejected') for (const entry of entries) this.metrics.noteDead(entry)
    }
  }

  async #acknowledge(block: Block, states = this.#tables.statesIn(block.entries)): Promise<void> {
    await this.#journal.acknowledge(block, states)
    this.#acknowledged = maxPosition(this.#acknowledged, block.last)
    this.metrics.countAcknowledged(block)
  }

  /**
   * Rewrites entries that ClickHouse cannot read, together with their neighbours, so that many such entries cost hardly
   * more than one. A block that is still refused is bisected until the bad entry is found, which becomes a dead letter.
   * On return a first part of the block is acknowledged; the rest becomes the journal's next block.
   */
  async #storeRefused(block: Block): Promise<void> {
    this.#blockBytes = Math.min(PIECE_BYTES, this.#maxBlockBytes)
    const { entries, fault } = rewrite(block.entries, PIECE_BYTES)
    let part = await this.#shrink(block, Math.max(1, entries.length))
    if (fault && entries.length === 0) return await this.#deadLetter(part, fault)
    for (;;) {
      const { length } = part.entries
      try {
        await this.#insert({ ...part, entries: entries.slice(0, length) })
      } catch (error) {
        if (!isDataError(error)) throw error
        if (length === 1) return await this.#deadLetter(part, error)
        const before = part
        part = await this.#shrink(part, length >> 1)
        // The other half is then next, and should be a separate block.
        this.#blockBytes = Math.max(1, sumBytes(before.entries) - sumBytes(part.entries))
        continue
      }
      this.metrics.rewritten += part.entries.filter(({ kind }) => kind === 'events').length
      this.#log.info({ entries: length, first: formatPosition(part.first) }, 'entries were rewritten and stored')
      return await this.#acknowledge(part)
    }
  }

  /**
   * A block that does not fit the memory of ClickHouse would fail forever, so half of it is attempted next. A server
   * that is short of memory altogether gets blocks of MIN_BLOCK_BYTES until it recovers.
   *
   * A block that does not fit the disk is not halved. A part of it may fit, but would take the space that merges need
   * to free more, and at most one block would be stored this way. The journal keeps the block until there is space.
   */
  #noteOversized({ first, entries }: Block): void {
    const now = performance.now()
    if (this.#oversized?.first !== first) this.#oversized = { first, since: now, lostAt: now }
    this.#fittingBlocks = 0
    this.#fittingBytes = Math.max(Math.min(sumBytes(entries) >> 1, this.#fittingBytes), MIN_BLOCK_BYTES)
    this.#blockBytes = Math.min(this.#blockBytes, this.#fittingBytes)
  }

  /**
   * Shrinks a claimed block that did not fit, unless a part of it is stored or may still be: that part would be stored
   * again under another token. A block that another writer froze may still be in flight there, and one that was sent to
   * a replica that does not respond may still be stored by it, so they stay whole for as long as a late INSERT of them
   * is possible. Not covered: a writer that is suspended for longer and then resumes.
   */
  async #shrinkToMemory(block: Block): Promise<Block> {
    if (this.#oversized?.first !== block.first) return block
    const bytes = sumBytes(block.entries)
    const { length } = block.entries
    if (bytes <= this.#fittingBytes || length === 1) return block
    const isOwn = this.#frozenHere === block.first
    const isRecent = (time: number) => performance.now() - time < this.#foreignMs
    if (!isOwn && isRecent(this.#oversized.since)) return block
    // In this order: the second check sees an INSERT that ends between the two.
    const isInserting = await this.#tables.isInserting(this.#token(block))
    if (isInserting ?? isRecent(this.#oversized.lostAt)) return block
    if ((await this.#tables.storedPositions(block)).size > 0) return block
    this.#log.warn({ bytes, entries: length }, 'a block exceeded the memory of ClickHouse, retrying half of it')
    return await this.#shrink(block, length >> 1)
  }

  /** Shrinks a block to its first `count` entries. */
  async #shrink(block: Block, count: number): Promise<Block> {
    if (count >= block.entries.length) return block
    const entries = block.entries.slice(0, count)
    const last = entries.at(-1)?.position ?? block.last
    await this.#journal.shrink(block, last)
    return { ...block, last, entries }
  }

  /** Stores a block's only entry as a dead letter. */
  async #deadLetter(block: Block, fault: Error & { reason: string }): Promise<void> {
    for (const entry of block.entries) {
      this.#log.error({ err: fault, position: formatPosition(entry.position) }, 'an entry was stored as a dead letter')
      const body = entry.skip ? eraseSkipped(entry.body, entry.skip) : entry.body
      await this.#tables.insertDeadLetter({ ...entry, body }, fault.reason, this.#token(block))
      this.metrics.noteDead(entry)
    }
    // Pass no states: the journal has to keep them, because the store does not have them.
    await this.#acknowledge(block, [])
  }

  #token({ first, last }: Pick<Block, 'first' | 'last'>): string {
    return `${this.#journal.id}:${formatPosition(first)}:${formatPosition(last)}`
  }

  async #pause(limitMs: number): Promise<void> {
    if (this.#isWoken || this.#stop.signal.aborted) return
    const woken = new AbortController()
    this.#wake = () => woken.abort()
    await wait(limitMs, undefined, { signal: woken.signal }).catch(() => undefined)
    this.#wake = null
  }
}

function sumBytes(entries: Entry[]): number {
  return entries.reduce((bytes, { body }) => bytes + body.length, 0)
}

/** Rewrites entries up to `maxBytes`, at least one, or up to the first that cannot be rewritten. */
function rewrite(entries: Entry[], maxBytes: number): { entries: Entry[]; fault: EntryError | null } {
  const rewritten: Entry[] = []
  let bytes = 0
  for (const entry of entries) {
    if (bytes >= maxBytes) break
    bytes += entry.body.length
    try {
      rewritten.push(entry.kind === 'events' ? { ...entry, body: rewriteEntry(entry.body) } : entry)
    } catch (error) {
      if (!(error instanceof EntryError)) throw error
      return { entries: rewritten, fault: error }
    }
  }
  return { entries: rewritten, fault: null }
}

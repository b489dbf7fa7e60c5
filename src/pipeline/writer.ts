import { setTimeout as wait } from 'node:timers/promises'
import { isDataError, isMemoryError } from '../clickhouse/errors.js'
import type { Block, Entry, EntryKind, Journal } from '../journal/journal.js'
import { type Backoff, backoffMs } from '../lib/backoff.js'
import type { Log } from '../lib/log.js'
import { formatPosition, laterOf, type Position, START } from '../model/position.js'
import { EntryError, rewriteEntry } from '../model/verbatim.js'
import type { Tables } from '../store/tables.js'
import { WriterMetrics } from './writer-metrics.js'

export interface WriterOptions {
  journal: Journal
  tables: Tables
  log: Pick<Log, 'info' | 'warn' | 'error'>
  /** between blocks that were not full, ms: an INSERT costs about 5 ms of CPU however small it is */
  pauseMs?: number
  /** journal bytes of a block */
  maxBlockBytes?: number
  /** how long a block that another writer froze is not cut, ms */
  foreignMs?: number
}

/** Events last: rows are stored by their version, so what went in before a refused block is cut may go in again. */
const KINDS: EntryKind[] = ['profiles', 'sessions', 'events']
const PAUSE_MS = 200
const MAX_BLOCK_BYTES = 32 * 1024 * 1024
/** A refused block is gone through in pieces: rewriting one holds this thread for some 20 ms. */
const PIECE_BYTES = 2 * 1024 * 1024
/** A smaller block that does not fit ClickHouse's memory is not what is wrong there. */
const MIN_BLOCK_BYTES = 256 * 1024
/** Blocks that have to fit before one of twice the size is tried again: a try in vain costs as much as a block. */
const FITTING_BLOCKS = 64
/** Several times what an INSERT, a lease and a restart take. */
const FOREIGN_MS = 10 * 60 * 1000
const BACKOFF: Backoff = { firstMs: 100, maxMs: 5_000 }

/**
 * Takes block after block from the journal to the store. A block is frozen before its first try and forgotten after its
 * INSERT was answered; whoever repeats it in between repeats the same bytes with the same token.
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
  /** of the next block: less than usual after a refusal, so that what is refused again is found soon */
  #blockBytes: number
  /** what ClickHouse's memory has room for, as far as is known: `maxBlockBytes` until it says otherwise */
  #roomBytes: number
  #fitting = 0
  /** the block that it had no room for, and since when (`performance.now()`) */
  #misfit: { first: Position; since: number } | null = null
  /** the first position of the block that this writer froze itself */
  #frozenHere: Position | null = null
  #hurried = false
  #wake: (() => void) | null = null
  #running: Promise<void> | null = null
  #failures = 0
  /** whether what is in the store may be more than what the journal knows of: after a start and after a failure */
  #isInDoubt = true
  /** up to `last`, the store may have what the journal holds; after it went back, by other blocks than it now says */
  #doubt = { last: START, wentBack: false }
  /** of the journal when the last doubt was settled */
  #era = 0
  #settled = START

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
    this.#roomBytes = maxBlockBytes
    this.#stopListening = journal.listen({
      onWake: () => {
        this.#hurried = true
        if (this.#failures === 0) this.#wake?.()
      },
    })
  }

  start(): void {
    this.#running ??= this.#run()
  }

  /** Stores what the journal holds now if that takes less than `limitMs`; what is left stays in the journal. */
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

  /** Whether waiting makes sense: there is something to store, and nothing stands in the way. */
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
        if (this.#failures > 0) this.#log.info({ failures: this.#failures }, 'the writer stores again')
        this.#failures = 0
        if (!isFull) await this.#pause(this.#pauseMs)
      } catch (error) {
        this.#failures++
        this.#isInDoubt = true
        const retryMs = backoffMs(BACKOFF, this.#failures)
        if (this.#stop.signal.aborted) return
        this.metrics.countRetry(error)
        this.#log.warn(
          { err: error, retryMs, failures: this.#failures },
          'the block could not be stored; it goes again',
        )
        this.#hurried = false
        await this.#pause(retryMs)
      }
    }
  }

  /** @returns whether there is probably more to do at once */
  async #storeNext(): Promise<boolean> {
    this.#hurried = false
    const limit = this.#blockBytes
    const claimed = await this.#journal.claim(limit)
    if (!claimed) return false
    if (!claimed.isRepeated) this.#frozenHere = claimed.first
    await this.#settleDoubt(claimed)
    const rest = claimed.first <= this.#doubt.last ? await this.#storedApart(claimed) : claimed
    if (!rest) return true
    const block = await this.#withinMemory(rest)
    try {
      await this.#insert(block)
    } catch (error) {
      if (isMemoryError(error)) this.#noteMisfit(block)
      if (!isDataError(error)) throw error
      await this.#storeRefused(block)
      return true
    }
    await this.#acknowledge(block)
    if (++this.#fitting % FITTING_BLOCKS === 0) this.#roomBytes = Math.min(2 * this.#roomBytes, this.#maxBlockBytes)
    this.#blockBytes = Math.min(Math.max(2 * limit, PIECE_BYTES), this.#roomBytes)
    return bytesOf(block.entries) >= limit
  }

  /**
   * The journal may have lost that it froze or settled a block: Redis can at a power cut, and a replica that becomes the
   * master may never have heard of it. Finds out up to where what it holds may be in the store already, and has the journal
   * go on behind that.
   */
  async #settleDoubt({ first, last }: Block): Promise<void> {
    const { era } = this.#journal
    const wentBack = era !== this.#era || first <= this.#settled
    if (!wentBack && !this.#isInDoubt) return
    // It stays where the store does not answer.
    this.#isInDoubt = true
    const lastStored = await this.#tables.lastStored(first)
    if (lastStored !== null && lastStored > last) await this.#journal.advancePast(lastStored)
    const isGoingOn = this.#doubt.wentBack && first <= this.#doubt.last
    this.#doubt = { last: lastStored ?? START, wentBack: wentBack || isGoingOn }
    this.#era = era
    this.#settled = START
    this.#isInDoubt = false
  }

  /**
   * Of a doubtful block, those events that are in the store are not to go there under another token.
   * @returns what is to be stored of it; null where the block, or a first part of it, was and is settled. The rest is the
   *   journal's next block
   */
  async #storedApart(block: Block): Promise<Block | null> {
    const stored = await this.#tables.storedPositions(block)
    const isStored = ({ position }: Entry) => stored.has(position)
    const events = block.entries.filter(({ kind }) => kind === 'events')
    const known = events.filter(isStored).length
    if (known === 0) return block
    // A repeated block of which a part is there, as at the turn of a month, is completed by its own token.
    if (known < events.length && block.isRepeated && !this.#doubt.wentBack) return block
    const isKnown = events[0] !== undefined && isStored(events[0])
    const end = block.entries.findIndex((entry) => entry.kind === 'events' && isStored(entry) !== isKnown)
    const part = end === -1 ? block : await this.#cut(block, end)
    if (!isKnown) return part
    await this.#insert({ ...part, entries: part.entries.filter(({ kind }) => kind !== 'events') })
    await this.#acknowledge(part)
    return null
  }

  async #insert(block: Block): Promise<void> {
    for (const kind of KINDS) {
      const entries = block.entries.filter((entry) => entry.kind === kind)
      if (entries.length === 0) continue
      const startedAt = performance.now()
      await this.#tables.insert(kind, entries, this.#token(block), this.#stop.signal)
      this.metrics.countInsert(kind, startedAt)
    }
  }

  async #acknowledge(block: Block, states = this.#tables.statesIn(block.entries)): Promise<void> {
    await this.#journal.acknowledge(block, states)
    this.#settled = laterOf(this.#settled, block.last)
    this.metrics.countSettled(block)
  }

  /**
   * What ClickHouse cannot read goes in another spelling, together with what is around it: so any number of such entries
   * costs hardly more than one. What is refused even so is halved until the entry is found, which becomes a dead letter.
   * A first part of the block is settled by then; the rest is the journal's next block.
   */
  async #storeRefused(block: Block): Promise<void> {
    this.#blockBytes = Math.min(PIECE_BYTES, this.#maxBlockBytes)
    const { entries, fault } = rewrite(block.entries, PIECE_BYTES)
    let part = await this.#cut(block, Math.max(1, entries.length))
    if (fault && entries.length === 0) return await this.#deadLetter(part, fault)
    for (;;) {
      const { length } = part.entries
      try {
        await this.#insert({ ...part, entries: entries.slice(0, length) })
      } catch (error) {
        if (!isDataError(error)) throw error
        if (length === 1) return await this.#deadLetter(part, error)
        const before = part
        part = await this.#cut(part, length >> 1)
        // The other half, which is then next, should be alone.
        this.#blockBytes = Math.max(1, bytesOf(before.entries) - bytesOf(part.entries))
        continue
      }
      this.metrics.rewritten += part.entries.filter(({ kind }) => kind === 'events').length
      this.#log.info({ entries: length, first: formatPosition(part.first) }, 'entries were stored in another spelling')
      return await this.#acknowledge(part)
    }
  }

  /**
   * A block that ClickHouse's memory has no room for would fail for ever, so half of it is next. A server that is short of
   * memory for everything gets blocks of MIN_BLOCK_BYTES until it has some again.
   */
  #noteMisfit({ first, entries }: Block): void {
    if (this.#misfit?.first !== first) this.#misfit = { first, since: performance.now() }
    this.#fitting = 0
    this.#roomBytes = Math.max(Math.min(bytesOf(entries) >> 1, this.#roomBytes), MIN_BLOCK_BYTES)
    this.#blockBytes = Math.min(this.#blockBytes, this.#roomBytes)
  }

  /**
   * Cuts a claimed block that did not fit, where nothing of it is in the store or may still get there: that would be
   * stored under another token too. What another writer froze may be in the hands of that one, so it is left whole for
   * as long as an INSERT of it could come late. Not promised: that nobody stands still for longer and then goes on.
   */
  async #withinMemory(block: Block): Promise<Block> {
    if (this.#misfit?.first !== block.first) return block
    const bytes = bytesOf(block.entries)
    const { length } = block.entries
    if (bytes <= this.#roomBytes || length === 1) return block
    const isOwn = this.#frozenHere === block.first
    if (!isOwn && performance.now() - this.#misfit.since < this.#foreignMs) return block
    // In this order: what ends between the two is seen by the second.
    if (await this.#tables.isInserting(this.#token(block))) return block
    if ((await this.#tables.storedPositions(block)).size > 0) return block
    this.#log.warn({ bytes, entries: length }, 'a block did not fit the memory of ClickHouse; half of it is next')
    return await this.#cut(block, length >> 1)
  }

  /** Ends a block after some of its entries. */
  async #cut(block: Block, count: number): Promise<Block> {
    if (count >= block.entries.length) return block
    const entries = block.entries.slice(0, count)
    const last = entries.at(-1)?.position ?? block.last
    await this.#journal.shrink(block, last)
    return { ...block, last, entries }
  }

  /** Keeps a block's only entry as a dead letter. */
  async #deadLetter(block: Block, fault: Error & { reason: string }): Promise<void> {
    for (const entry of block.entries) {
      this.#log.error({ err: fault, position: formatPosition(entry.position) }, 'an entry went to the dead letters')
      await this.#tables.insertDeadLetter(entry, fault.reason, this.#token(block))
      this.metrics.noteDead(entry)
    }
    // No states: the journal has to keep what the store does not have.
    await this.#acknowledge(block, [])
  }

  #token({ first, last }: Block): string {
    return `${this.#journal.id}:${formatPosition(first)}:${formatPosition(last)}`
  }

  async #pause(limitMs: number): Promise<void> {
    if (this.#hurried || this.#stop.signal.aborted) return
    const woken = new AbortController()
    this.#wake = () => woken.abort()
    await wait(limitMs, undefined, { signal: woken.signal }).catch(() => undefined)
    this.#wake = null
  }
}

function bytesOf(entries: Entry[]): number {
  return entries.reduce((bytes, { body }) => bytes + body.length, 0)
}

/** The entries in another spelling, up to `maxBytes` but one at least, or up to one of which nothing can be made. */
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

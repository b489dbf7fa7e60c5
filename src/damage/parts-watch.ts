import { setTimeout as wait } from 'node:timers/promises'
import {
  findUnreadablePart,
  isStoreError,
  isTimeout,
  StoreUnreachableError,
  type UnreadablePart,
} from '../clickhouse/errors.js'
import type { Shard, Shards } from '../clickhouse/shards.js'
import { inTime } from '../lib/in-time.js'
import type { Log } from '../lib/log.js'
import { checkPart, listPartsToCheck } from '../store/check-parts.js'
import type { KnownPart } from '../store/part-notes.js'
import { findLaggingTables, listParts, type PartList } from '../store/parts.js'
import { lookForLost } from './look.js'
import { describeLoss, type Loss, WHAT_TO_DO } from './loss.js'
import { noteParts } from './note-parts.js'
import { PartMap, sumRows } from './part-map.js'

export interface PartsWatchOptions {
  shards: Shards
  log: Pick<Log, 'warn' | 'error'>
  /** whether this process notes which parts there are; at least those that write do */
  isNoting: boolean
  /** how often to look, ms */
  everyMs?: number
  /** how soon new parts are noted, ms */
  noteMs?: number
}

const EVERY_MS = 60_000
const NOTE_MS = 5_000
/** Of one look at a shard, ms; the first may count all rows by project. */
const LIMIT_MS = 5 * 60_000
/** How long the start of the service waits for the first look, ms. */
const START_LIMIT_MS = 5_000
/** Of the last notes, when the service ends, ms. */
const CLOSE_LIMIT_MS = 1_500
/**
 * A damaged block costs ClickHouse up to a minute before it says so, as it tries whether a single bit was flipped. So reads
 * that take too long may be due to damage, and the checksums of files are compared, which is fast: for this long, and not
 * again for the next while, ms.
 */
const SUSPICION_MS = 30_000
const TRUST_MS = 10 * 60_000
/** Reads that have to take too long within that time: one or two may just have asked for too much. */
const SUSPICIOUS = 3
/** Losses that are logged one by one. */
const MAX_LOGGED = 100

/** What is known of a shard. */
interface Watched {
  shard: Shard
  known: KnownPart[]
  lost: Loss[]
  /** parts that are in use, but a read found them damaged; by table and name */
  unreadable: Map<string, Loss>
  /** keys of the losses that were logged */
  logged: Set<string>
  hasLooked: boolean
}

/**
 * Looks at the start and then each minute whether the store has lost parts: ClickHouse starts without those that are
 * damaged or gone, and answers as if they had never been there. For that, the parts that there are are noted in the store,
 * within seconds of an INSERT and once more at the end. What vanishes before it is noted is not noticed, except where
 * ClickHouse itself has put it aside.
 */
export class PartsWatch {
  readonly #options: PartsWatchOptions
  readonly #shards: Watched[]
  readonly #stop = new AbortController()
  #stored: () => number = () => 0
  #storedAtNote = 0
  #running: Promise<void> | null = null
  #isChecking = false
  #isDenied = false
  #trustedUntil = 0
  /** when the latest reads took too long */
  #timeouts: number[] = []

  constructor(options: PartsWatchOptions) {
    this.#options = options
    this.#shards = options.shards.all.map((shard) => {
      return { shard, known: [], lost: [], unreadable: new Map(), logged: new Set(), hasLooked: false }
    })
  }

  /** What is lost or unreadable, as far as is known. */
  get losses(): Loss[] {
    return this.#shards.flatMap(listLosses)
  }

  /** The same by the number of the shard; null of one that was not looked at yet. */
  byShard(): (Loss[] | null)[] {
    return this.#shards.map((watched) => (watched.hasLooked ? listLosses(watched) : null))
  }

  /**
   * Resolves after the first look, or after 5 s; then looks again and again. Never rejects.
   * @param stored rows that this process has stored, from which it sees that there are new parts
   */
  async start(stored: () => number): Promise<void> {
    if (this.#running) return
    this.#stored = stored
    const first = this.#lookAtAll()
    this.#running = first.then(() => this.#watch())
    await inTime(first, START_LIMIT_MS).catch(() => undefined)
  }

  /** A part that is in use and damaged, if there is one: reads of it fail, or take too long. */
  get unreadable(): UnreadablePart | null {
    for (const { unreadable } of this.#shards) for (const loss of unreadable.values()) return loss
    return null
  }

  /** Takes note of a failed read: a part that is damaged in its middle is only found by reading it. */
  noteError(error: unknown): void {
    const causes = error instanceof Error ? [error, error.cause] : [error]
    const found = causes.map(findUnreadablePart).find((part) => part !== null)
    if (found) this.#noteUnreadable(found, this.#shards)
    else if (causes.some(isTimeout)) this.#suspect()
  }

  #suspect(): void {
    const now = performance.now()
    if (this.#isChecking || now < this.#trustedUntil) return
    this.#timeouts = [...this.#timeouts.filter((at) => now - at < TRUST_MS), now]
    if (this.#timeouts.length < SUSPICIOUS) return
    this.#timeouts = []
    this.#isChecking = true
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(SUSPICION_MS)])
    const checks = this.#shards.map((watched) => this.#check(watched, signal))
    Promise.all(checks).finally(() => {
      this.#isChecking = false
      this.#trustedUntil = performance.now() + TRUST_MS
    })
  }

  /** Compares checksums until the time is over. Never rejects. */
  async #check(watched: Watched, signal: AbortSignal): Promise<void> {
    const { clickhouse } = watched.shard
    try {
      for (const { table, name } of await listPartsToCheck(clickhouse)) {
        if (signal.aborted) return
        const fault = await checkPart(clickhouse, { table, name }, signal)
        if (fault !== null) this.#noteUnreadable({ table, part: name }, [watched])
      }
    } catch (error) {
      if (!signal.aborted) this.#warn(watched.shard.name, error)
    }
  }

  #noteUnreadable(found: UnreadablePart, shards: readonly Watched[]): void {
    const { part } = found
    for (const watched of shards) {
      const known = watched.known.find(({ name, table }) => name === part && (found.table ?? table) === table)
      if (!known && shards.length > 1) continue
      const table = found.table ?? known?.table ?? 'events'
      const key = `${table}/${part}`
      if (watched.unreadable.has(key)) continue
      const { rows = null, projects = {}, partition = part.split('_')[0] ?? '' } = known ?? {}
      const { number: shard } = watched.shard
      watched.unreadable.set(key, { shard, table, part, partition, state: 'unreadable', reason: '', rows, projects })
      this.#logNew(watched)
    }
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await inTime(this.#running ?? Promise.resolve(), CLOSE_LIMIT_MS).catch(() => undefined)
    // Whether anything was stored or not: what was edited and deleted since the last look makes parts, too.
    if (this.#options.isNoting) await inTime(this.#noteAll(), CLOSE_LIMIT_MS).catch(() => undefined)
  }

  async #watch(): Promise<void> {
    const { everyMs = EVERY_MS, noteMs = NOTE_MS } = this.#options
    const { signal } = this.#stop
    let lookedAt = Date.now()
    while (!signal.aborted) {
      await wait(Math.min(everyMs, noteMs), undefined, { signal, ref: false }).catch(() => undefined)
      if (signal.aborted) return
      if (Date.now() - lookedAt >= everyMs) {
        lookedAt = Date.now()
        await this.#lookAtAll()
      } else if (this.#hasNew()) await this.#noteAll()
    }
  }

  #hasNew(): boolean {
    return this.#options.isNoting && this.#stored() !== this.#storedAtNote
  }

  /** Compares what there is with what was noted. */
  async #lookAtAll(): Promise<void> {
    await this.#onEach((watched) => this.#look(watched))
  }

  async #look(watched: Watched): Promise<void> {
    const { number: shard, clickhouse } = watched.shard
    const { list, known, lagging, lost } = await lookForLost(clickhouse)
    watched.lost = lost.map(({ isSettled: _, ...loss }) => ({ ...loss, shard }))
    watched.known = known
    watched.hasLooked = true
    forgetReplaced(watched, list)
    this.#logNew(watched)
    if (this.#options.isNoting) watched.known = await noteParts(clickhouse, list, known, lagging)
  }

  /** Notes the parts that are new, of shards that were looked at. What is lost must not be replaced in the notes. */
  async #noteAll(): Promise<void> {
    await this.#onEach(async (watched) => {
      const { clickhouse } = watched.shard
      if (!watched.hasLooked) return
      const lagging = await findLaggingTables(clickhouse)
      const list = await listParts(clickhouse)
      if (mayLack(list, watched.known)) return await this.#look(watched)
      watched.known = await noteParts(clickhouse, list, watched.known, lagging)
    })
  }

  /** One shard that does not respond does not stop the others; it keeps what was known of it. */
  async #onEach(act: (watched: Watched) => Promise<void>): Promise<void> {
    const stored = this.#stored()
    const results = await Promise.allSettled(this.#shards.map((watched) => inTime(act(watched), LIMIT_MS)))
    if (results.every(({ status }) => status === 'fulfilled')) this.#storedAtNote = stored
    for (const [i, result] of results.entries()) {
      if (result.status === 'rejected') this.#warn(this.#shards[i]?.shard.name ?? '', result.reason)
    }
  }

  #warn(shard: string, err: unknown): void {
    // That a shard is down is told by others.
    if (err instanceof StoreUnreachableError || this.#stop.signal.aborted) return
    const isDenied = isStoreError(err, 'ACCESS_DENIED')
    // That lasts until an operator acts, so it is said once.
    if (isDenied && this.#isDenied) return
    this.#isDenied ||= isDenied
    const reason = isDenied
      ? 'lost parts cannot be noticed: grant the user of CLICKHOUSE_URL SELECT ON system.parts, system.detached_parts'
      : 'the parts of the store cannot be checked; retrying in a minute'
    this.#options.log.warn({ err, shard }, reason)
  }

  #logNew(watched: Watched): void {
    const { shard, logged } = watched
    const all = listLosses(watched)
    const fresh = all.filter((loss) => !logged.has(toLossKey(loss)))
    watched.logged = new Set(all.map(toLossKey))
    for (const loss of fresh.slice(0, MAX_LOGGED)) {
      const { table, partition, part, state, rows, projects } = loss
      const facts = { table, partition, part, state, rows, projects }
      const where = this.#shards.length > 1 ? { shard: shard.name } : {}
      this.#options.log.error({ ...where, ...facts }, `${describeLoss(loss)} ${WHAT_TO_DO}`)
    }
    if (fresh.length > MAX_LOGGED) {
      this.#options.log.error({ losses: fresh.length }, 'more parts are lost; `tallyhouse verify` lists them all')
    }
  }
}

function listLosses({ lost, unreadable }: Watched): Loss[] {
  return [...lost, ...unreadable.values()]
}

/** Whether parts or rows are fewer than before, as after a loss or a deletion. */
function mayLack({ active }: PartList, known: readonly KnownPart[]): boolean {
  const [now, before] = [new PartMap(active), new PartMap(known)]
  if (known.some((part) => !now.around(part))) return true
  return active.some((part) => sumRows(before.within(part)) > part.rows)
}

/** A damaged part that is no longer in use was merged after all, or is among the lost ones now. */
function forgetReplaced({ unreadable }: Watched, { active }: PartList): void {
  const inUse = new Set(active.map(({ table, name }) => `${table}/${name}`))
  for (const key of unreadable.keys()) if (!inUse.has(key)) unreadable.delete(key)
}

function toLossKey({ table, part, state }: Loss): string {
  return `${state} ${table}/${part}`
}

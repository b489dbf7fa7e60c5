import {
  findUnreadablePart,
  isStoreError,
  isTimeout,
  StoreUnreachableError,
  type UnreadablePart,
} from '../clickhouse/errors.js'
import type { Shard, Shards } from '../clickhouse/shards.js'
import type { Log } from '../lib/log.js'
import { pause } from '../lib/pause.js'
import { withTimeout } from '../lib/with-timeout.js'
import { checkPart, listPartsToCheck } from '../store/check-parts.js'
import { FactRepairs } from '../store/fact-repairs.js'
import type { KnownPart } from '../store/part-notes.js'
import { FACT_TABLES, findLaggingTables, listParts, type PartList } from '../store/parts.js'
import { lookForLost } from './look-for-lost.js'
import { describeLoss, type Loss, WHAT_TO_DO } from './loss.js'
import { noteParts } from './note-parts.js'
import { PartMap, sumRows } from './part-map.js'

export interface PartsWatchOptions {
  shards: Shards
  log: Pick<Log, 'warn' | 'error'>
  /** whether this process records the existing parts; every process that writes must */
  isNoting: boolean
  /** replaces damaged parts of facts; default: its own */
  repairs?: Pick<FactRepairs, 'repair'>
  /** interval of the checks, ms */
  everyMs?: number
}

const EVERY_MS = 60_000
/** Delay until new parts are recorded, ms. */
const NOTE_MS = 5_000
/** Time limit of one check of a shard, ms; the first may count all rows by project. */
const LIMIT_MS = 5 * 60_000
/** How long the start of the service waits for the first check, ms. */
const START_LIMIT_MS = 5_000
/** Time limit for recording parts when the service stops, ms. */
const CLOSE_LIMIT_MS = 1_500
/**
 * ClickHouse may take a minute to report a damaged block, because it first tries to find a single flipped bit. So reads
 * that time out may be due to damage. Comparing the checksums of files is fast: it is done for up to this long, ms, and
 * not again for TRUST_MS.
 */
const SUSPICION_MS = 30_000
const TRUST_MS = 10 * 60_000
/** Number of timeouts within TRUST_MS that trigger a check: one or two may just be queries that are too large. */
const SUSPICIOUS = 3
/** Maximum number of losses that are logged one by one. */
const MAX_LOGGED = 100

/** A shard and its known parts and losses. */
interface Watched {
  shard: Shard
  known: KnownPart[]
  lost: Loss[]
  /** active parts that a read found damaged, by table and name */
  unreadable: Map<string, Loss>
  /** keys of the logged losses */
  logged: Set<string>
  hasLooked: boolean
}

/**
 * Checks at the start and then every minute whether the store has lost parts: ClickHouse starts without those that are
 * damaged or missing, and answers as if they had never existed. To notice that, the existing parts are recorded in the
 * store within seconds of an INSERT, and at shutdown. A part that vanishes before it is recorded goes unnoticed, unless
 * ClickHouse itself detached it.
 */
export class PartsWatch {
  readonly #options: PartsWatchOptions
  readonly #repairs: Pick<FactRepairs, 'repair'>
  readonly #shards: Watched[]
  readonly #stop = new AbortController()
  #stored: () => number = () => 0
  #storedAtNote = 0
  #running: Promise<void> | null = null
  #isDenied = false
  #trustedUntil = 0
  /** times of the latest timeouts */
  #timeouts: number[] = []

  constructor(options: PartsWatchOptions) {
    this.#options = options
    this.#repairs = options.repairs ?? new FactRepairs(options.log)
    this.#shards = options.shards.all.map((shard) => {
      return { shard, known: [], lost: [], unreadable: new Map(), logged: new Set(), hasLooked: false }
    })
  }

  /** All known losses. */
  get losses(): Loss[] {
    return this.#shards.flatMap(listLosses)
  }

  /** The losses by shard number; null for a shard that was not checked yet. */
  byShard(): (Loss[] | null)[] {
    return this.#shards.map((watched) => (watched.hasLooked ? listLosses(watched) : null))
  }

  /**
   * Resolves after the first check, or after 5 s; checks periodically from then on. Never rejects.
   * @param stored number of rows that this process has stored; there are new parts if it has changed
   */
  async start(stored: () => number): Promise<void> {
    if (this.#running) return
    this.#stored = stored
    const first = this.#lookAtAll()
    this.#running = first.then(() => this.#watch())
    await withTimeout(first, START_LIMIT_MS).catch(() => undefined)
  }

  /** A damaged active part, if there is one: reading it fails or times out. */
  get unreadable(): UnreadablePart | null {
    for (const { unreadable } of this.#shards) for (const loss of unreadable.values()) return loss
    return null
  }

  /** Call it for each failed read: damage in the middle of a part is only found by reading it. */
  noteError(error: unknown): void {
    const causes = error instanceof Error ? [error, error.cause] : [error]
    const found = causes.map(findUnreadablePart).find((part) => part !== null)
    if (found) this.#noteUnreadable(found, this.#shards)
    else if (causes.some(isTimeout)) this.#suspect()
  }

  #suspect(): void {
    const now = performance.now()
    if (now < this.#trustedUntil) return
    this.#timeouts = [...this.#timeouts.filter((at) => now - at < TRUST_MS), now]
    if (this.#timeouts.length < SUSPICIOUS) return
    this.#timeouts = []
    // Until the check is over, no other one begins.
    this.#trustedUntil = Number.POSITIVE_INFINITY
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(SUSPICION_MS)])
    const checks = this.#shards.map((watched) => this.#check(watched, signal))
    Promise.all(checks).finally(() => {
      this.#trustedUntil = performance.now() + TRUST_MS
    })
  }

  /** Compares checksums until the signal aborts. Never rejects. */
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
      if (FACT_TABLES.includes(table)) {
        void this.#repairs.repair(watched.shard, { table, part }, { isSure: true })
        continue
      }
      if (watched.unreadable.has(key)) continue
      const { rows = null, projects = {}, partition = part.split('_')[0] ?? '' } = known ?? {}
      const { number: shard } = watched.shard
      watched.unreadable.set(key, { shard, table, part, partition, state: 'unreadable', reason: '', rows, projects })
      this.#logNew(watched)
    }
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await withTimeout(this.#running ?? Promise.resolve(), CLOSE_LIMIT_MS).catch(() => undefined)
    // Do this even if nothing was stored, because edits and deletes create parts, too.
    if (this.#options.isNoting) await withTimeout(this.#noteAll(), CLOSE_LIMIT_MS).catch(() => undefined)
  }

  async #watch(): Promise<void> {
    const { everyMs = EVERY_MS } = this.#options
    const { signal } = this.#stop
    let lookedAt = Date.now()
    while (await pause(Math.min(everyMs, NOTE_MS), signal)) {
      if (Date.now() - lookedAt >= everyMs) {
        lookedAt = Date.now()
        await this.#lookAtAll()
      } else if (this.#hasNew()) await this.#noteAll()
    }
  }

  #hasNew(): boolean {
    return this.#options.isNoting && this.#stored() !== this.#storedAtNote
  }

  /** Compares the existing parts of all shards with the recorded ones. */
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

  /** Records new parts of shards that were checked before: a loss must be found before its record is replaced. */
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

  /** A shard that does not respond keeps its last state, and does not stop the others. */
  async #onEach(act: (watched: Watched) => Promise<void>): Promise<void> {
    const stored = this.#stored()
    const results = await Promise.allSettled(this.#shards.map((watched) => withTimeout(act(watched), LIMIT_MS)))
    if (results.every(({ status }) => status === 'fulfilled')) this.#storedAtNote = stored
    for (const [i, result] of results.entries()) {
      if (result.status === 'rejected') this.#warn(this.#shards[i]?.shard.name ?? '', result.reason)
    }
  }

  #warn(shard: string, err: unknown): void {
    // An unavailable shard is logged elsewhere.
    if (err instanceof StoreUnreachableError || this.#stop.signal.aborted) return
    const isDenied = isStoreError(err, 'ACCESS_DENIED')
    // Missing rights last until an operator acts, so log them once.
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

/** Whether there are fewer parts or rows than before, which means a loss or a deletion. */
function mayLack({ active }: PartList, known: readonly KnownPart[]): boolean {
  const [now, before] = [new PartMap(active), new PartMap(known)]
  if (known.some((part) => !now.around(part))) return true
  return active.some((part) => sumRows(before.within(part)) > part.rows)
}

/** A damaged part that is no longer active was either merged after all or is now lost. */
function forgetReplaced({ unreadable }: Watched, { active }: PartList): void {
  const inUse = new Set(active.map(({ table, name }) => `${table}/${name}`))
  for (const key of unreadable.keys()) if (!inUse.has(key)) unreadable.delete(key)
}

function toLossKey({ table, part, state }: Loss): string {
  return `${state} ${table}/${part}`
}

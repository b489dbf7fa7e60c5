import { setTimeout as wait } from 'node:timers/promises'
import { Connection, WITHOUT_DATABASE } from './connection.js'
import { isFatal, isStoreError, StoreUnreachableError } from './errors.js'
import type { ClickHouseSettings, Parameters } from './parameters.js'

/**
 * Settings of a shard with replicas. An INSERT succeeds only when most replicas have it, because the journal then drops
 * the block. INSERTs into a table are ordered, so that every replica knows which blocks a read must see, and no read
 * sees data that could still be lost.
 */
const buildWriteSettings = (replicas: number): ClickHouseSettings => ({
  // Do not use 'auto': while the Keeper knows of only one replica, an INSERT with it waits until its timeout (26.8).
  insert_quorum: String((replicas >> 1) + 1),
  insert_quorum_parallel: 0,
  // less than the time limit of an INSERT
  insert_quorum_timeout: 60_000,
  // A purge waits for the replicas that are up.
  alter_sync: '2',
  replication_wait_for_inactive_replica_timeout: '0',
  // An edit applies to everything that was acknowledged before, on any replica.
  update_sequential_consistency: 1,
})
/**
 * A replica that lacks a block which others have, or has lost its Keeper, refuses the read. When reading from another
 * shard, the server uses the first replica that responds, as we do.
 */
const READ_SETTINGS: ClickHouseSettings = { select_sequential_consistency: '1', load_balancing: 'in_order' }

/** How long a replica may take to respond to a probe, ms. */
const PROBE_LIMIT_MS = 2_000
/** How long a replica may take to fetch missing blocks, ms. */
const SYNC_LIMIT_MS = 10_000
/** How long an edit waits for all replicas before a majority suffices, ms. */
const ALL_LIMIT_MS = 1_000
/**
 * Interval of probes of the server in use, ms. Without them, only a timeout would reveal a server that drops every
 * packet.
 */
const BEAT_MS = 3_000
/** Number of beats between attempts to prepare servers that were down. */
const LATE_BEATS = 10

/** Prepares a server, for example by creating its tables. @param model an already prepared server, if there is one */
export type Preparation = (server: Connection, model: Connection | null) => Promise<void>

export interface ReplicasOptions {
  /** called for each switch with the previous and the new host */
  onSwitch?: ((from: string, to: string) => void) | undefined
  /** ms between two probes */
  beatMs?: number | undefined
}

/**
 * The servers of a shard, one of which is in use: the first in the list that responds. If it fails, the next writable
 * one fetches missing blocks and takes over, and all requests in flight on the previous one are aborted. The new one
 * stays in use until it fails or the process ends, even if the previous one recovers.
 *
 * Two processes may use different replicas. The settings above make that harmless.
 */
export class Replicas {
  readonly #urls: readonly string[]
  readonly #options: ReplicasOptions
  #current: Connection
  #choosing: Promise<void> | null = null
  /** by URL: connections to the servers that are not in use */
  readonly #peers = new Map<string, Connection>()
  readonly #preparations = new Map<string, Preparation>()
  /** by URL: the preparations that have run on the server */
  readonly #prepared = new Map<string, Set<Preparation>>()
  readonly #timer: NodeJS.Timeout | null
  #beats = 0
  #isBeating = false
  #isClosed = false

  /** @param urls at least one */
  constructor(urls: readonly string[], options: ReplicasOptions = {}) {
    this.#urls = urls
    this.#options = options
    this.#current = this.#open(urls[0] ?? '')
    this.#timer = this.areSeveral ? setInterval(() => void this.#beat(), options.beatMs ?? BEAT_MS) : null
    this.#timer?.unref()
  }

  get areSeveral(): boolean {
    return this.#urls.length > 1
  }

  /** The server in use, even while another one is being chosen. */
  get current(): Connection {
    return this.#current
  }

  /** Settles when the current choice is made; null if none is in progress. */
  get choosing(): Promise<void> | null {
    return this.#choosing
  }

  /** Call it when a request to the server in use failed: chooses another one if it no longer responds. */
  suspect(error: unknown): void {
    if (isAboutServer(error)) this.#startChoosing()
  }

  /** @param isUnfit whether the server in use must be replaced although it responds */
  #startChoosing(isUnfit = false): void {
    if (!this.areSeveral || this.#isClosed) return
    this.#choosing ??= this.#choose(isUnfit).finally(() => {
      this.#choosing = null
    })
  }

  /**
   * Prepares the server in use, then the others. One that is down is prepared when it responds, and not used before
   * that.
   * @throws the error of the server in use; errors of others only if a retry cannot help
   */
  async prepare(name: string, run: Preparation): Promise<void> {
    await this.#choosing
    const first = this.#current
    try {
      await run(first, null)
    } catch (error) {
      // The server may have been down when the tables were created, and then it can only copy them from another.
      if (!isFatal(error)) this.#startChoosing(true)
      throw error
    }
    this.#preparations.set(name, run)
    this.#noteDone(first, run)
    for (const url of this.#urls) {
      if (url === first.url) continue
      await this.#complete(this.#peer(url)).catch((error: unknown) => {
        if (isFatal(error)) throw error
      })
    }
  }

  /** Makes a server, by default the one in use, fetch everything that other replicas have. */
  async catchUp(connection = this.#current): Promise<void> {
    const tables = await ask<{ table: string }>(
      connection,
      'SELECT table FROM system.replicas WHERE database = currentDatabase()',
    )
    await Promise.all(tables.map(({ table }) => sync(connection, table)))
  }

  /**
   * Resolves when all replicas have an edit that the server in use has executed, or after a second when a majority has
   * it. ClickHouse has a quorum for INSERTs, but not for edits.
   * @throws StoreUnreachableError if too few have it in time; the edit may then be lost
   */
  async confirm(table: string): Promise<void> {
    if (!this.areSeveral) return
    const needed = this.#urls.length >> 1
    let confirmed = 0
    const noteDone = () => {
      confirmed++
    }
    const others = this.#urls.filter((url) => url !== this.#current.url).map((url) => sync(this.#peer(url), table))
    const all = Promise.all(others.map((other) => other.then(noteDone, () => undefined)))
    await Promise.race([all, wait(ALL_LIMIT_MS, undefined, { ref: false })])
    if (confirmed < needed) await all
    if (confirmed >= needed) return
    throw new StoreUnreachableError(`ClickHouse made the change, but only ${confirmed + 1} replicas have it.`)
  }

  /** Runs a short query on every server but the one in use. @returns the rows of each; null if it does not respond */
  async askOthers<Row>(query: string, parameters: Parameters): Promise<(Row[] | null)[]> {
    // A request to the server in use waits for this, too, and then goes to the one that was chosen.
    await this.#choosing
    const others = this.#urls.filter((url) => url !== this.#current.url).map((url) => this.#peer(url))
    return await Promise.all(others.map((other) => ask<Row>(other, query, parameters).catch(() => null)))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#timer) clearInterval(this.#timer)
    await Promise.all([this.#current, ...this.#peers.values()].map((connection) => connection.close()))
  }

  async #choose(isUnfit: boolean): Promise<void> {
    const previous = this.#current
    if (!isUnfit && (await isUsable(previous))) return
    for (const url of this.#urls) {
      if (url === previous.url || this.#isClosed) continue
      const candidate = this.#peer(url)
      try {
        if (!(await isUsable(candidate))) continue
        await this.#complete(candidate, null)
        await this.catchUp(candidate)
      } catch {
        continue
      }
      // It may have been closed in the meantime.
      if (this.#peers.get(url) !== candidate || this.#isClosed) return
      this.#peers.delete(url)
      this.#current = candidate
      await previous.abandon().catch(() => undefined)
      this.#options.onSwitch?.(formatHost(previous), formatHost(candidate))
      return
    }
  }

  /** Runs the preparations that have not run on a server yet. */
  async #complete(server: Connection, model: Connection | null = this.#current): Promise<void> {
    for (const run of this.#preparations.values()) {
      if (this.#prepared.get(server.url)?.has(run)) continue
      await run(server, model)
      this.#noteDone(server, run)
    }
  }

  #noteDone({ url }: Connection, run: Preparation): void {
    this.#prepared.set(url, (this.#prepared.get(url) ?? new Set()).add(run))
  }

  async #beat(): Promise<void> {
    if (this.#choosing || this.#isBeating) return
    this.#isBeating = true
    try {
      await this.#probe()
    } finally {
      this.#isBeating = false
    }
  }

  async #probe(): Promise<void> {
    if (!(await isUsable(this.#current))) return this.suspect(new StoreUnreachableError('a probe failed'))
    if (++this.#beats % LATE_BEATS !== 0) return
    for (const url of this.#urls) {
      if (url === this.#current.url) continue
      await this.#complete(this.#peer(url)).catch(() => undefined)
    }
  }

  #peer(url: string): Connection {
    const peer = this.#peers.get(url) ?? this.#open(url)
    this.#peers.set(url, peer)
    return peer
  }

  #open(url: string): Connection {
    return new Connection(url, this.areSeveral ? { ...buildWriteSettings(this.#urls.length), ...READ_SETTINGS } : {})
  }
}

/** Whether another replica might succeed: this one did not respond, or is read-only because it has lost its Keeper. */
function isAboutServer(error: unknown): boolean {
  return error instanceof StoreUnreachableError || isStoreError(error, 'TABLE_IS_READ_ONLY', 'KEEPER_EXCEPTION')
}

/** Whether a server responds, and none of its tables is read-only. */
async function isUsable(connection: Connection): Promise<boolean> {
  try {
    const [found] = await ask<{ unusable: string }>(
      connection,
      `SELECT countIf(is_readonly OR is_session_expired) AS unusable FROM system.replicas
       WHERE database = currentDatabase()`,
    )
    return Number(found?.unusable) === 0
  } catch {
    return false
  }
}

/** Runs a query even if the database does not exist. */
async function ask<Row>(connection: Connection, query: string, parameters: Parameters = {}): Promise<Row[]> {
  const { database } = connection
  const statement = {
    query: query.replaceAll('currentDatabase()', '{database:String}'),
    parameters: { ...parameters, database },
    settings: WITHOUT_DATABASE,
  }
  return await connection.run(PROBE_LIMIT_MS, (abort) => connection.rows<Row>(statement, abort))
}

/** Resolves when a replica has fetched everything that the others had of a table at the time of the call. */
async function sync(connection: Connection, table: string): Promise<void> {
  const statement = {
    query: `SYSTEM SYNC REPLICA ${table} LIGHTWEIGHT`,
    settings: { receive_timeout: SYNC_LIMIT_MS / 1000 },
  }
  await connection.run(SYNC_LIMIT_MS, (abort) => connection.command(statement, abort))
}

function formatHost({ url }: Connection): string {
  return new URL(url).host
}

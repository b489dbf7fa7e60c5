import { randomUUID } from 'node:crypto'
import { addAbortSignal, type Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import type { RecentOwners } from '../lib/recent-owners.js'
import { ThreadLoad } from '../lib/thread-load.js'
import { CONNECTIONS, type Connection, INSERT_TIMEOUT_MS, WITHOUT_DATABASE } from './connection.js'
import { isStoreError, isTimeout, type NoSlotError, StoreError, StoreUnreachableError } from './errors.js'
import { TAG_HEADER, untilException } from './exception-guard.js'
import { assertFits, type ClickHouseSettings, fitsInField, type Parameters } from './parameters.js'
import { ReadPriority } from './read-priority.js'
import { BACKGROUND, ReadSlots, type Slot, type SlotLimits } from './read-slots.js'
import { Replicas, type ReplicasOptions } from './replicas.js'
import { Spool, type SpoolLimits, SpoolMemory } from './spool.js'

export interface StoreOptions extends ReplicasOptions {
  /** http://user:password@host:8123/database; the database is created if missing. Replicas are separated by `|` */
  url: string
  /** timeout of an INSERT in ms; the block is then retried, and its token prevents duplicates */
  insertTimeoutMs?: number
  /** how streamed results share connections; default: `SLOT_LIMITS` */
  slotLimits?: SlotLimits | undefined
  /** the projects that send requests; one that reads a lot yields to the others. Default: none yields */
  owners?: Pick<RecentOwners, 'hasOthersThan'> | undefined
  /** settings of a project's own reads; default: none. It may throw to refuse them */
  settingsOfReads?: ((project: string) => ClickHouseSettings) | undefined
  /** default: the load of this thread */
  load?: Pick<ThreadLoad, 'isShort'>
}

const QUERY_TIMEOUT_MS = 30_000
const PING_TIMEOUT_MS = 2_000
/** A statement may contain a request's body in base64. */
const MAX_QUERY_BYTES = String(512 * 1024 * 1024)
/**
 * Settings for queries that may be silent for minutes: these headers keep the client and proxies from closing the
 * connection. Node reads 16 KiB of headers, enough for more than an hour.
 */
export const SIGNS_OF_LIFE: ClickHouseSettings = {
  send_progress_in_http_headers: 1,
  http_headers_progress_interval_ms: '60000',
}

/** The settings of a statement whose result is sent at its end, if that may take longer than the client waits. */
function signsOfLife(limitMs: number): ClickHouseSettings {
  return limitMs < INSERT_TIMEOUT_MS ? {} : SIGNS_OF_LIFE
}

const MIB = 1024 * 1024
/**
 * With more than four reads at a time, a project is served no faster, but takes connections, memory and threads from
 * others: thirty concurrent full exports took 6.5 GB.
 */
export const SLOT_LIMITS: SlotLimits = { slots: CONNECTIONS, perProject: 4, waitMs: 20_000, stalledMs: 3_000 }
/**
 * Slots for a project that reads a lot while others send requests. Even at the lowest priority, each running query
 * slows the others down; two still use two cores.
 */
const SLOTS_BESIDE_OTHERS = 2
/** A page of 10 000 ordinary events is 2 MB. */
const SPOOL_LIMITS: SpoolLimits = { answerBytes: 4 * MIB, totalBytes: 64 * MIB }
/** ClickHouse cancels a query when its client disconnects, but only if it is read-only. */
const READ: ClickHouseSettings = { readonly: '2', cancel_http_readonly_queries_on_client_close: 1 }

/**
 * Pause between attempts of a statement that is blocked by another INSERT with a quorum, and the number of attempts.
 */
const TURN_MS = 100
const MAX_TURNS = 50
/** First and longest pause between checks whether a query has ended, ms. */
const FIRST_LOOK_MS = 20
const MAX_LOOK_MS = 500
/** Consecutive checks that a busy server may leave unanswered before we give up; each may take two seconds. */
const MAX_FAILED_LOOKS = 20
/** Matches an edit; the group is the name of its table. */
const EDIT = /^\s*(?:UPDATE|DELETE\s+FROM)\s+(\w+)/i

/** Limits of one query. */
export interface ReadOptions {
  /** the project that reads: it has few slots, and its queries have low priority. Absent: the service itself */
  project?: string | undefined
  /** a slot that the caller already holds for the project */
  slot?: Slot | undefined
  /** an abort cancels the query and breaks the stream */
  signal?: AbortSignal | undefined
  /** timeout in ms; for a streamed result, until its first byte; default 30 s */
  limitMs?: number | undefined
  /**
   * called when the caller gets no answer although ClickHouse may still be working on it: after an abort, a timeout or
   * a lost connection. The promise resolves when no server runs the query any more
   */
  onLeft?: ((ended: Promise<void>) => void) | undefined
  /** ends a query on all servers that may be running it; default: on this one */
  end?: ((queryId: string) => Promise<void>) | undefined
}

/**
 * Queries over HTTP, for the embedded engine and a cluster alike. Every call ends in bounded time; only the stream that
 * `bytes` returns has no time limit.
 */
export class ClickHouse {
  readonly #replicas: Replicas
  readonly #slots: ReadSlots
  readonly #spooled: SpoolMemory
  readonly #insertTimeoutMs: number
  readonly #load: Pick<ThreadLoad, 'isShort'>
  readonly #priority: ReadPriority
  readonly #owners: StoreOptions['owners']
  readonly #settingsOfReads: StoreOptions['settingsOfReads']
  readonly #life: { isClosed: boolean }
  readonly #project: string | undefined
  readonly database: string

  constructor(options: StoreOptions | { of: ClickHouse; project: string }) {
    if ('of' in options) {
      const { of, project } = options
      this.#owners = of.#owners
      this.#load = of.#load
      this.#settingsOfReads = of.#settingsOfReads
      this.#slots = of.#slots
      this.#spooled = of.#spooled
      this.#insertTimeoutMs = of.#insertTimeoutMs
      this.#replicas = of.#replicas
      this.#priority = of.#priority
      this.#life = of.#life
      this.#project = project
    } else {
      const { url, insertTimeoutMs, slotLimits, owners, settingsOfReads, load, ...replicas } = options
      this.#owners = owners
      this.#load = load ?? new ThreadLoad()
      this.#settingsOfReads = settingsOfReads
      const limits = slotLimits ?? SLOT_LIMITS
      this.#slots = new ReadSlots(limits, (project) => this.#countAllowed(project, limits.perProject))
      this.#spooled = new SpoolMemory(SPOOL_LIMITS)
      this.#insertTimeoutMs = insertTimeoutMs ?? INSERT_TIMEOUT_MS
      this.#replicas = new Replicas(url.split(/\|(?=[a-z]+:\/\/)/), replicas)
      this.#priority = new ReadPriority(this)
      this.#life = { isClosed: false }
    }
    this.database = this.#replicas.current.database
  }

  /** The same server, with all queries and statements counted as the project's: `ReadOptions.project`. */
  for(project: string): ClickHouse {
    return new ClickHouse({ of: this, project })
  }

  /** Whether there are several servers, so that the tables must be replicated. */
  get hasReplicas(): boolean {
    return this.#replicas.areSeveral
  }

  /**
   * Prepares every replica, for example by creating its tables: first the one in use, then the others. Replicas that
   * are down are prepared before they are used. A preparation replaces an earlier one with the same name.
   * @param run `model` is a replica that has been prepared already; null for the first
   * @throws the error of the replica in use; errors of others only if a retry cannot help
   */
  async prepare(name: string, run: (server: ClickHouse, model: ClickHouse | null) => Promise<void>): Promise<void> {
    if (!this.hasReplicas) return await run(this, null)
    await this.#replicas.prepare(name, async (server, model) => {
      const parts = [server, model].map((one) => one && new ClickHouse({ url: one.url }))
      try {
        await run(parts[0] as ClickHouse, parts[1] ?? null)
      } finally {
        await Promise.all(parts.map((part) => part?.close()))
      }
    })
  }

  /** Runs a statement without a result. @throws StatementTooLargeError */
  async command(
    query: string,
    parameters: Parameters = {},
    settings: ClickHouseSettings = {},
    limitMs = QUERY_TIMEOUT_MS,
  ): Promise<void> {
    assertFits(query, parameters)
    const run = async (paced: ClickHouseSettings) => {
      const all = { ...paced, ...signsOfLife(limitMs), ...settings, max_query_size: MAX_QUERY_BYTES }
      const statement = { query, parameters, settings: all }
      await this.#write((connection) => connection.run(limitMs, (abort) => connection.command(statement, abort)))
    }
    if (this.#project === undefined) await run({})
    else await this.#paced({ project: this.#project }, run)
    const edited = this.hasReplicas ? EDIT.exec(query)?.[1] : undefined
    if (edited) await this.#replicas.confirm(edited)
  }

  /** Runs a statement in the database `default`, to create ours. */
  async commandWithoutDatabase(query: string): Promise<void> {
    await this.command(query, {}, WITHOUT_DATABASE)
  }

  /**
   * The rows as objects; 64-bit integers are strings. Large parameters go in the body, or a long statement, but not
   * both. An abort cancels the query.
   * @throws StatementTooLargeError
   */
  async rows<Row>(
    query: string,
    parameters: Parameters = {},
    settings: ClickHouseSettings = {},
    reading: ReadOptions = {},
  ): Promise<Row[]> {
    const { project = this.#project, slot, ...rest } = reading
    if (project === undefined) return await this.#rows(query, parameters, settings, rest)
    return await this.#paced({ project, slot, signal: reading.signal }, async (paced, onLeft) => {
      const all = { ...paced, ...this.#ofProject(project), ...settings }
      return await this.#rows<Row>(query, parameters, all, { ...rest, onLeft })
    })
  }

  /**
   * The rows of a query about the servers themselves, of each replica; null for one that is not in use and does not
   * respond.
   */
  async rowsOfReplicas<Row>(query: string, parameters: Parameters = {}): Promise<(Row[] | null)[]> {
    const [own, others] = await Promise.all([
      this.rows<Row>(query, parameters),
      this.#replicas.askOthers<Row>(query, parameters),
    ])
    return [own, ...others]
  }

  /** Runs a query of a project, within its slots and at its priority. */
  async #paced<T>(
    { project, slot: held, signal }: Pick<ReadOptions, 'slot' | 'signal'> & { project: string },
    run: (settings: ClickHouseSettings, onLeft: (ended: Promise<void>) => void) => Promise<T>,
  ): Promise<T> {
    const slot = held ?? (await this.#slots.take(project, signal).catch(throwUnreachable))
    const end = this.#priority.begin(project)
    let left: Promise<void> | undefined
    try {
      const settings = { ...(await this.#priority.settings(project)), ...this.#threads(project) }
      return await run(settings, (ended) => {
        left = ended
        slot.holdUntil(ended)
      })
    } finally {
      if (left) left.then(end, end)
      else end()
      if (!held) slot.release()
    }
  }

  async #rows<Row>(
    query: string,
    parameters: Parameters,
    settings: ClickHouseSettings,
    {
      signal,
      limitMs = QUERY_TIMEOUT_MS,
      onLeft,
      end = (id) => this.endQuery(id),
    }: Omit<ReadOptions, 'project' | 'slot'>,
  ): Promise<Row[]> {
    assertFits(query, parameters)
    const queryId = randomUUID()
    const all = {
      ...READ,
      ...signsOfLife(limitMs),
      ...settings,
      ...(!fitsInField(query) && { max_query_size: MAX_QUERY_BYTES }),
      output_format_json_quote_64bit_integers: 1,
      query_id: queryId,
    }
    const statement = { query, parameters, settings: all }
    const read = (connection: Connection) =>
      connection.run(limitMs, (abort) => connection.rows<Row>(statement, abort), signal)
    try {
      return await this.#read(read, signal)
    } catch (error) {
      if (!(error instanceof StoreError)) onLeft?.(end(queryId))
      throw error
    }
  }

  /**
   * Cancels a query, and resolves when the server no longer lists it or its queries on other servers. ClickHouse
   * notices a cancellation, or a closed connection, only between two blocks of rows. Also resolves if the server does
   * not respond. Never rejects.
   */
  async endQuery(queryId: string): Promise<void> {
    let failed = 0
    for (let pause = FIRST_LOOK_MS; !this.#life.isClosed; pause = Math.min(2 * pause, MAX_LOOK_MS)) {
      try {
        if (!(await this.#isListed(queryId))) return
        failed = 0
      } catch (error) {
        // A server that is down runs nothing; a busy one may respond late, or refuse to.
        const isBusy = isTimeout(error) || (error instanceof StoreError && !isStoreError(error, 'ACCESS_DENIED'))
        if (!isBusy || ++failed === MAX_FAILED_LOOKS) return
      }
      await wait(pause, undefined, { ref: false })
    }
  }

  async #isListed(queryId: string): Promise<boolean> {
    const limits = { limitMs: PING_TIMEOUT_MS }
    const listed = 'initial_query_id = {id:String}'
    const found = await this.rows(`SELECT 1 FROM system.processes WHERE ${listed} LIMIT 1`, { id: queryId }, {}, limits)
    if (found.length === 0) return false
    await this.command(`KILL QUERY WHERE ${listed} ASYNC`, { id: queryId }, {}, PING_TIMEOUT_MS)
    return true
  }

  /**
   * The bytes of the result in the query's format. An error in the first 2 MiB is thrown here, unless the settings have
   * a smaller buffer; a later one breaks the stream: it is complete if, and only if, it ends. `limitMs` limits the time
   * until the first byte. Unread bytes are buffered in memory within limits; beyond them, the stream is aborted if
   * another query needs its connection.
   * @throws StatementTooLargeError
   */
  async bytes(
    query: string,
    parameters: Parameters = {},
    settings: ClickHouseSettings = {},
    reading: ReadOptions = {},
  ): Promise<Readable> {
    const { signal, limitMs = QUERY_TIMEOUT_MS, project = this.#project, end = (id) => this.endQuery(id) } = reading
    assertFits(query, parameters)
    const queryId = randomUUID()
    const ofProject = project !== undefined && {
      ...(await this.#priority.settings(project)),
      ...this.#ofProject(project),
    }
    const slot = await this.#slots.take(project ?? BACKGROUND, signal).catch(throwUnreachable)
    if (project !== undefined) slot.onFree(this.#priority.begin(project))
    const paced = { ...(project !== undefined && this.#threads(project)), ...ofProject }
    const statement = { query, parameters, settings: { ...READ, ...paced, ...settings, query_id: queryId } }
    const open = (connection: Connection) =>
      connection.run(limitMs, (abort) => connection.stream(statement, abort), signal)
    const answer = await this.#read(open, signal).catch((error) => {
      if (!(error instanceof StoreError)) slot.holdUntil(end(queryId))
      slot.release()
      throw error
    })
    answer.once('end', () => slot.release())
    answer.once('close', () => {
      if (!answer.readableEnded) slot.holdUntil(end(queryId))
      slot.release()
    })
    const tag = answer.headers[TAG_HEADER]
    const isBuffered = settings.wait_end_of_query === 1
    if (!isBuffered && typeof tag !== 'string') {
      // A proxy removed the header, so it might also make a broken transfer look complete. A full disk of ClickHouse
      // then goes unnoticed.
      answer.destroy()
      return await this.bytes(query, parameters, { ...settings, wait_end_of_query: 1 }, reading)
    }
    const rows = isBuffered ? answer : untilException(answer, String(tag))
    const stream = new Spool(rows, this.#spooled, {
      onStall: (since) => slot.stalled(since),
      yields: () => project !== undefined && this.#yields(project),
    })
    slot.onCutOff(() =>
      stream.destroy(new Error('the client did not read the result, and another one needed the connection')),
    )
    return signal ? addAbortSignal(signal, stream) : stream
  }

  /** Sends rows unchanged, in the format that the INSERT names. Resolves when they are stored, throws when aborted. */
  async insert(query: string, values: Readable, settings: ClickHouseSettings, signal: AbortSignal): Promise<void> {
    const statement = { query, settings, rows: values }
    const insert = (connection: Connection) =>
      connection.run(this.#insertTimeoutMs, (abort) => connection.command(statement, abort), signal)
    await this.#onOne(insert, signal)
  }

  /** @throws if ClickHouse does not respond to a query within 2 s, or refuses the login */
  async ping(): Promise<void> {
    const statement = { query: 'SELECT 1', settings: {} }
    await this.#onOne((connection) => connection.run(PING_TIMEOUT_MS, (abort) => connection.command(statement, abort)))
  }

  async close(): Promise<void> {
    this.#life.isClosed = true
    await this.#replicas.close()
  }

  /**
   * Limits a project's read to one thread unless nothing else is running, so that a lone export is as fast as possible.
   * For a project that reads little, those that read a lot do not count: their queries have a lower priority.
   */
  #threads(project: string): ClickHouseSettings {
    const isHeavy = this.#priority.isHeavy(project)
    const held = this.#slots.countHeld((other) => isHeavy || !this.#priority.isHeavy(other))
    return held > 1 || this.#load.isShort ? { max_threads: 1 } : {}
  }

  /**
   * The settings of a project's own reads; none for erasures, from which nothing may be hidden.
   * @throws what `settingsOfReads` throws
   */
  #ofProject(name: string): ClickHouseSettings {
    return name.startsWith(ERASE) ? {} : (this.#settingsOfReads?.(toOwner(name)) ?? {})
  }

  /** How many slots a project may have: fewer if it reads a lot and there are others. */
  #countAllowed(project: string, most: number): number {
    if (!this.#disturbsOthers(project)) return most
    return Math.min(most, this.#load.isShort ? 1 : SLOTS_BESIDE_OTHERS)
  }

  /** Whether a project has to leave this busy thread to others. */
  #yields(project: string): boolean {
    return this.#load.isShort && this.#disturbsOthers(project)
  }

  /** Whether a project reads a lot while others send requests. */
  #disturbsOthers(project: string): boolean {
    return this.#priority.isHeavy(project) && this.#owners?.hasOthersThan(toOwner(project)) === true
  }

  /** Runs a read. If the replica lacks a block that others have, it fetches that first. */
  async #read<T>(read: (connection: Connection) => Promise<T>, signal?: AbortSignal): Promise<T> {
    try {
      return await this.#onOne(read, signal)
    } catch (error) {
      if (!isStoreError(error, 'REPLICA_IS_NOT_IN_QUORUM')) throw error
      await this.#replicas.catchUp()
      return await this.#onOne(read, signal)
    }
  }

  /**
   * Runs a statement. ClickHouse allows one INSERT with a quorum per table at a time and refuses another. Retrying a
   * refused statement is safe: it has stored nothing, or has a token.
   */
  async #write(run: (connection: Connection) => Promise<unknown>): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        await this.#onOne(run)
        return
      } catch (error) {
        const isTaken = isStoreError(error, 'UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE')
        if (!isTaken || tries === MAX_TURNS) throw error
        await wait(TURN_MS)
      }
    }
  }

  /**
   * Runs a request on the server in use. If it fails and there are replicas, checks whether another one must take over.
   */
  async #onOne<T>(run: (connection: Connection) => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (!this.hasReplicas) return await run(this.#replicas.current)
    await this.#replicas.choosing
    try {
      return await run(this.#replicas.current)
    } catch (error) {
      if (!signal?.aborted) this.#replicas.suspect(error)
      throw error
    }
  }
}

/** Names a separate share for a kind of read of a project. */
export function nameShare(kind: 'live' | 'erase', project: string): string {
  return `${kind}\0${project}`
}

const ERASE = nameShare('erase', '')

function toOwner(name: string): string {
  return name.slice(name.indexOf('\0') + 1)
}

function throwUnreachable(error: NoSlotError): never {
  throw new StoreUnreachableError(`The query was not sent to ClickHouse: ${error.message}`, { cause: error })
}

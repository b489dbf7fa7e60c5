import { randomUUID } from 'node:crypto'
import { addAbortSignal, type Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { type ClickHouseClient, type ClickHouseSettings, EXCEPTION_TAG_HEADER_NAME } from '@clickhouse/client'
import type { RecentOwners } from '../lib/recent-owners.js'
import { ThreadLoad } from '../lib/thread-load.js'
import { CONNECTIONS, type Connection, INSERT_TIMEOUT_MS } from './connection.js'
import {
  assertIsFromClickHouse,
  isStoreError,
  isTimeout,
  type NoSlotError,
  StoreError,
  StoreUnreachableError,
  storeError,
} from './errors.js'
import { untilException } from './exception-guard.js'
import { isLongStatement, type Parameters, type Scalars } from './parameters.js'
import { ReadPriority } from './read-priority.js'
import { BACKGROUND, ReadSlots, type Slot, type SlotLimits } from './read-slots.js'
import { READ_SETTINGS, Replicas, type ReplicasOptions } from './replicas.js'
import { Spool, type SpoolLimits, SpoolMemory } from './spool.js'

export interface StoreOptions extends ReplicasOptions {
  /** http://user:password@host:8123/database; the database is created if missing. Replicas are separated by `|` */
  url: string
  /** timeout of an INSERT in ms; the block is then retried, and its token prevents duplicates */
  insertTimeoutMs?: number
  /** how streamed results share connections; default: `SLOT_LIMITS` */
  slotLimits?: SlotLimits
  /** whose requests the service gets; a project that reads a lot yields to the others. Default: nobody's */
  owners?: Pick<RecentOwners, 'hasOthersThan'> | undefined
  /** how much may be buffered for slow clients; default: `SPOOL_LIMITS` */
  spoolLimits?: SpoolLimits
}

const QUERY_TIMEOUT_MS = 30_000
const PING_TIMEOUT_MS = 2_000
/** A statement may contain a request's body in base64. */
const MAX_QUERY_BYTES = String(512 * 1024 * 1024)
const MIB = 1024 * 1024
/**
 * A project that has four reads at a time is served no slower by one at a time, and others keep their connections, the
 * server's memory and its threads: thirty full exports at once took 6.5 GB.
 */
export const SLOT_LIMITS: SlotLimits = { slots: CONNECTIONS, perProject: 4, waitMs: 20_000, stalledMs: 3_000 }
/** A page of 10 000 ordinary events is 2 MB. */
const SPOOL_LIMITS: SpoolLimits = { answerBytes: 4 * MIB, totalBytes: 64 * MIB }
/** ClickHouse cancels a query when its client disconnects, but only if it is read-only. */
const READ: ClickHouseSettings = { readonly: '2', cancel_http_readonly_queries_on_client_close: 1 }

/** Pause between attempts of a statement that another INSERT with a quorum keeps out, and the number of attempts. */
const TURN_MS = 100
const MAX_TURNS = 50
/** Pauses between looks at whether a query has ended, ms. */
const FIRST_LOOK_MS = 20
const MAX_LOOK_MS = 500
/** Looks in a row that a busy server does not answer, after which nobody waits for it; each may take two seconds. */
const MAX_FAILED_LOOKS = 20
/** Matches an edit; the group is the name of its table. */
const EDIT = /^\s*(?:UPDATE|DELETE\s+FROM)\s+(\w+)/i

/** Limits of one query. */
export interface ReadOptions {
  /** the project that reads: it has few slots, and its queries have low priority. Absent: the service itself */
  project?: string | undefined
  /** one that the caller holds for the project already */
  slot?: Slot | undefined
  /** an abort cancels the query and breaks the stream */
  signal?: AbortSignal | undefined
  /** timeout in ms; for a streamed result, until its first byte; default 30 s */
  limitMs?: number | undefined
  /**
   * called when the caller gets no answer, although ClickHouse may still work on it: after an abort, a time limit or a lost
   * connection. The promise resolves when no server has the query any more
   */
  onLeft?: ((ended: Promise<void>) => void) | undefined
  /** ends a query on all servers that may work on it; default: on this one */
  end?: ((queryId: string) => Promise<void>) | undefined
}

/**
 * Queries over HTTP, for the embedded engine and a cluster alike. Every call ends in bounded time; only the stream that
 * `bytes` returns has no limit of its own.
 */
export class ClickHouse {
  readonly #replicas: Replicas
  readonly #slots: ReadSlots
  readonly #spooled: SpoolMemory
  readonly #insertTimeoutMs: number
  readonly #load = new ThreadLoad()
  readonly #priority: ReadPriority
  readonly #owners: StoreOptions['owners']
  readonly #life: { isClosed: boolean }
  readonly #project: string | undefined
  readonly database: string

  constructor(options: StoreOptions | { of: ClickHouse; project: string }) {
    if ('of' in options) {
      const { of, project } = options
      this.#owners = of.#owners
      this.#slots = of.#slots
      this.#spooled = of.#spooled
      this.#insertTimeoutMs = of.#insertTimeoutMs
      this.#replicas = of.#replicas
      this.#priority = of.#priority
      this.#life = of.#life
      this.#project = project
    } else {
      const { url, insertTimeoutMs, slotLimits, spoolLimits, owners, ...replicas } = options
      this.#owners = owners
      this.#slots = new ReadSlots(slotLimits ?? SLOT_LIMITS, (project) => this.#yields(project))
      this.#spooled = new SpoolMemory(spoolLimits ?? SPOOL_LIMITS)
      this.#insertTimeoutMs = insertTimeoutMs ?? INSERT_TIMEOUT_MS
      this.#replicas = new Replicas(url.split(/\|(?=[a-z]+:\/\/)/), replicas)
      this.#priority = new ReadPriority(this)
      this.#life = { isClosed: false }
    }
    this.database = this.#replicas.current.database
  }

  /** The same server, each of whose queries and statements here belongs to a project: `Reading.project`. */
  for(project: string): ClickHouse {
    return new ClickHouse({ of: this, project })
  }

  /** Whether there are several servers, so that the tables must be replicated. */
  get hasReplicas(): boolean {
    return this.#replicas.areSeveral
  }

  /**
   * Prepares every replica, for example by creating its tables: first the one in use, then the others. Replicas that are down
   * are prepared before they are used. A preparation replaces an earlier one with the same name.
   * @param run `model` is a replica that has been prepared already; null for the first
   * @throws the error of the replica in use, and errors of others that retrying does not solve
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

  /** Runs a statement without a result. Parameters go in the URL, so large values belong in the statement. */
  async command(
    query: string,
    parameters: Parameters = {},
    settings: ClickHouseSettings = {},
    limitMs = QUERY_TIMEOUT_MS,
  ): Promise<void> {
    const run = async (paced: ClickHouseSettings) => {
      await this.#write((connection) =>
        connection.run(limitMs, async (abort_signal) => {
          const { response_headers } = await connection.client.command({
            query,
            query_params: parameters,
            clickhouse_settings: { ...paced, ...settings, wait_end_of_query: 1, max_query_size: MAX_QUERY_BYTES },
            abort_signal,
          })
          assertIsFromClickHouse(response_headers)
        }),
      )
    }
    if (this.#project === undefined) await run({})
    else await this.#paced({ project: this.#project }, run)
    const edited = this.hasReplicas ? EDIT.exec(query)?.[1] : undefined
    if (edited) await this.#replicas.confirm(edited)
  }

  /** Runs a statement in the database `default`, to create ours. */
  async commandWithoutDatabase(query: string): Promise<void> {
    await this.command(query, {}, { database: 'default' } as ClickHouseSettings)
  }

  /**
   * The rows as objects; 64-bit integers are strings. Large parameters go in the body, or a long statement, but not both.
   * An abort cancels the query.
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
      return await this.#rows<Row>(query, parameters, { ...paced, ...settings }, { ...rest, onLeft })
    })
  }

  /** Runs a query of a project, within its slots and at its priority. */
  async #paced<T>(
    { project, slot: held, signal }: Pick<ReadOptions, 'slot' | 'signal'> & { project: string },
    run: (settings: ClickHouseSettings, onLeft: (ended: Promise<void>) => void) => Promise<T>,
  ): Promise<T> {
    const slot = held ?? (await this.#slots.take(project, signal).catch(unreachable))
    const end = this.#priority.begin(project)
    let left: Promise<void> | undefined
    try {
      const settings = { ...(await this.#priority.settings(project)), ...this.#threads() }
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
    const query_id = randomUUID()
    const isLong = isLongStatement(query, parameters)
    const long = isLong && { max_query_size: MAX_QUERY_BYTES }
    const all = {
      ...READ,
      ...settings,
      ...long,
      wait_end_of_query: 1,
      output_format_json_quote_64bit_integers: 1,
    } as const
    const read = (connection: Connection, abort_signal: AbortSignal) =>
      connection.rows<Row>({
        query,
        query_params: parameters,
        use_multipart_params_auto: !isLong,
        clickhouse_settings: all,
        query_id,
        abort_signal,
      })
    try {
      return await this.#read(
        (connection) => connection.run(limitMs, (abort) => read(connection, abort), signal),
        signal,
      )
    } catch (error) {
      if (!(error instanceof StoreError)) onLeft?.(end(query_id))
      throw error
    }
  }

  /**
   * Resolves when the server no longer lists a query, nor what it asks of other servers for it. A query that nobody waits for
   * is cancelled when its connection closes, or by this, but ClickHouse notices only between two blocks of rows. Resolves as
   * well if the server cannot be asked. Never rejects.
   */
  async endQuery(queryId: string): Promise<void> {
    let failed = 0
    for (let pause = FIRST_LOOK_MS; !this.#life.isClosed; pause = Math.min(2 * pause, MAX_LOOK_MS)) {
      try {
        if (!(await this.#isListed(queryId))) return
        failed = 0
      } catch (error) {
        // A server that is down works on nothing; one that is busy may be late with its answer, or refuse it.
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
   * The bytes of the result in the query's format. The server completes the result before it sends the first byte (what does
   * not fit its memory waits on its disk), so an error in the middle is thrown here and never a short stream. With
   * `wait_end_of_query: 0` the server sends rows at once, and such an error breaks the stream: it is complete if, and only
   * if, it ends. `limitMs` limits the time until the first byte. Bytes that were not read yet are buffered in memory within
   * limits; beyond them the stream is aborted if another query needs its connection.
   */
  async bytes(
    query: string,
    parameters: Scalars = {},
    settings: ClickHouseSettings = {},
    reading: ReadOptions = {},
  ): Promise<Readable> {
    const { signal, limitMs = QUERY_TIMEOUT_MS, project = this.#project, end = (id) => this.endQuery(id) } = reading
    const queryId = randomUUID()
    const consistent = this.hasReplicas ? READ_SETTINGS : {}
    const priority = project !== undefined && (await this.#priority.settings(project))
    const slot = await this.#slots.take(project ?? BACKGROUND, signal).catch(unreachable)
    if (project !== undefined) slot.onFree(this.#priority.begin(project))
    const paced = { ...priority, ...(project !== undefined && this.#threads()) }
    const all = {
      database: this.database,
      wait_end_of_query: 1,
      ...READ,
      ...consistent,
      ...paced,
      ...settings,
    } as const
    const open = (connection: Connection) => {
      const named = { ...all, query_id: queryId }
      return connection.run(limitMs, (abort) => connection.streams.open(query, parameters, named, abort), signal)
    }
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
    const tag = answer.headers[EXCEPTION_TAG_HEADER_NAME]
    if (all.wait_end_of_query === 0 && typeof tag !== 'string') {
      // A proxy removed the header, so it may also complete a transfer that ClickHouse broke.
      answer.destroy()
      return await this.bytes(query, parameters, { ...settings, wait_end_of_query: 1 }, reading)
    }
    const rows = all.wait_end_of_query === 0 ? untilException(answer, String(tag), storeError) : answer
    const stream = new Spool(rows, this.#spooled, {
      onStall: (since) => slot.stalled(since),
      yields: () => project !== undefined && this.#yields(project),
    })
    slot.onCutOff(() =>
      stream.destroy(new Error('the client did not read the result, and another one needed the connection')),
    )
    return signal ? addAbortSignal(signal, stream) : stream
  }

  /** Sends rows as they are, in the format that the INSERT names; resolves when they are stored, throws when aborted. */
  async insert(query: string, values: Readable, settings: ClickHouseSettings, signal: AbortSignal): Promise<void> {
    const insert = async (client: ClickHouseClient, abort_signal: AbortSignal) => {
      const { stream, response_headers } = await client.exec({
        query,
        values,
        clickhouse_settings: { ...settings, wait_end_of_query: 1 },
        abort_signal,
      })
      // An unread response keeps its connection.
      for await (const _ of stream);
      assertIsFromClickHouse(response_headers)
    }
    await this.#onOne(
      (connection) => connection.run(this.#insertTimeoutMs, (abort) => insert(connection.client, abort), signal),
      signal,
    )
  }

  /** @throws if ClickHouse does not respond to a query within 2 s, or refuses the login */
  async ping(): Promise<void> {
    const ping = async (client: ClickHouseClient, abort_signal: AbortSignal) => {
      const { response_headers } = await client.command({ query: 'SELECT 1', abort_signal })
      assertIsFromClickHouse(response_headers)
    }
    await this.#onOne((connection) => connection.run(PING_TIMEOUT_MS, (abort) => ping(connection.client, abort)))
  }

  async close(): Promise<void> {
    this.#life.isClosed = true
    await this.#replicas.close()
  }

  /** A project's read has one thread unless nothing else is going on, so that one export alone is as fast as it can be. */
  #threads(): ClickHouseSettings {
    return this.#slots.held > 1 || this.#load.isShort ? { max_threads: 1 } : {}
  }

  /** Whether a project that reads a lot has to leave this thread, which is short of time, to others. */
  #yields(project: string): boolean {
    return this.#load.isShort && this.#priority.isHeavy(project) && this.#owners?.hasOthersThan(project) === true
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
   * Runs a statement. ClickHouse allows one INSERT with a quorum per table at a time and refuses another. That one is retried
   * here, which is safe: it has stored nothing, or has a token.
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

  /** Runs a request on the server in use. If it fails and there are replicas, checks whether another one must take over. */
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

function unreachable(error: NoSlotError): never {
  throw new StoreUnreachableError(`The query was not sent to ClickHouse: ${error.message}`, { cause: error })
}

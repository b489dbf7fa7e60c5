import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { ApiError } from '../../contract/errors.js'
import { type Position, parsePosition } from '../../model/position.js'
import type { IdempotencyKey } from '../../model/request-ids.js'
import {
  type Block,
  bodiesToRelease,
  type Depth,
  type Journal,
  type JournalListener,
  JournalListeners,
  LARGE_PART,
  type Outcome,
  type Progress,
  type StateReading,
  type StatesMark,
  type StoredState,
  type Tally,
  type WaitingEntry,
  type Write,
} from '../journal.js'
import { FIRST_LAYOUT } from '../layout.js'
import { ANY_NUMBER } from '../sender-limits.js'
import { type Run, UnstoredEntries } from '../unstored-entries.js'
import { assertCurrent, BlockReader } from './block-reader.js'
import { CONNECTION_WAIT_MS, OPTIONS, RedisConnection } from './connection.js'
import {
  acknowledgeArguments,
  type Claimed,
  formatLimits,
  type Placed,
  parseClaimed,
  parseDepth,
  parseOutcome,
  parseTally,
  positionFields,
  requestFields,
  type StreamEntry,
  toEntries,
  toLimits,
} from './encoding.js'
import { asRefusal, describeFailedOpen, isGone, refusedAccess, unavailable } from './errors.js'
import { RedisHistory } from './history.js'
import { RedisInsertIds } from './insert-ids.js'
import { type JournalKeys, journalKeys } from './keys.js'
import { LateCheck, type LateStart, wrongRedis } from './late-start.js'
import { WriterLease } from './lease.js'
import { MemoryLimit } from './memory-limit.js'
import { openRedis } from './open.js'
import type { RedisJournalOptions } from './options.js'
import { Producer } from './producer.js'
import type { Argument, RunScript, Script } from './script.js'
import {
  ACKNOWLEDGE,
  ADVANCE_PAST,
  CLAIM,
  DEPTH,
  FIND_REQUEST,
  LEVEL,
  NOTE_DELETION,
  PROGRESS,
  SHRINK,
  TALLY,
} from './scripts.js'
import { RedisStates } from './states.js'

/**
 * A body up to this size is a part of its entry. A larger one gets a separate key, so that no script copies it. A key
 * costs Redis about as much as copying 2 KB, and the service the same again; at 8 KB, copying took Redis 40 % longer
 * than a key.
 */
const MAX_BODY_IN_ENTRY = 4 * 1024
/** Acknowledging a block removes its entries, which blocks Redis for about 5 ms with this number of entries. */
const MAX_BLOCK_ENTRIES = 20_000

/**
 * Opens the journal in Redis (7.0 or later), creating it if there is none. Waits up to 2 s for the connection. With
 * `late`, an unreachable Redis is not an error: the journal is down, with `id` 0, until Redis can be reached.
 * @throws Error that says what to do, if Redis cannot be reached or must not be used
 */
export async function openRedisJournal(options: RedisJournalOptions): Promise<Journal> {
  const journal = new RedisJournal(options)
  try {
    await journal.opened()
    await journal.watchMemory()
  } catch (error) {
    const wrong = wrongRedis(error) ?? refusedAccess(error)
    const reason = wrong ?? describeFailedOpen(error)
    if (!options.late || wrong) {
      await journal.close()
      throw reason
    }
    options.late.onDown(reason)
    await journal.openLate(options.late)
  }
  return journal
}

class RedisJournal implements Journal {
  readonly #connection: RedisConnection
  readonly #redis: Redis
  readonly #subscriber: Redis
  readonly #prefix: string
  readonly #keys: JournalKeys
  /** identifies this process as producer and writer */
  readonly #name = randomUUID()
  readonly #listeners = new JournalListeners()
  readonly #history: RedisHistory
  readonly #producer: Producer
  readonly #lease: WriterLease
  readonly #limit: MemoryLimit
  readonly ids: RedisInsertIds
  readonly #states: RedisStates
  readonly #reader: BlockReader
  readonly #late = new LateCheck(() => this.watchMemory())
  /** names of the keys that hold bodies, for entries that have one */
  readonly #bodyNames = new WeakMap<WaitingEntry, string>()
  readonly #replicas: number
  readonly #layout: string
  /** kept while this process is the writer, so that it need not read them back */
  #unstored: UnstoredEntries | null = null
  /** the era in which the unstored entries were written; entries of another era may be lost */
  #unstoredEra = 0

  constructor(options: RedisJournalOptions) {
    const {
      url,
      maxBytes,
      maxRequestKeys = ANY_NUMBER,
      maxIds = ANY_NUMBER,
      prefix = '{tallyhouse}',
      replicas = 0,
      lastStored,
      log,
    } = options
    const { otherPrefixes = [], maxBodyInEntry = MAX_BODY_IN_ENTRY } = options
    this.#replicas = replicas
    this.#layout = String(options.layout ?? FIRST_LAYOUT)
    this.#prefix = prefix
    this.#keys = journalKeys(prefix)
    this.#connection = new RedisConnection({ url, prefix, prepare: () => this.#late.after(this.#history.adopt()), log })
    const redis = this.#connection.redis
    this.#redis = redis
    const keys = this.#keys
    const run: RunScript = (script, args, rest) => this.#run(script, args, { rest })
    const others = otherPrefixes.map((other) => journalKeys(other).meta)
    const connection = this.#connection
    const history = new RedisHistory({ keys, others, layout: this.#layout, connection, lastStored, log })
    this.#history = history
    const of = { name: this.#name, prefix, keys, connection, history }
    this.#producer = new Producer({ ...of, layout: this.#layout, replicas, maxBodyInEntry })
    const place = options.isHome === undefined ? '' : options.isHome ? 'home' : 'guest'
    this.#lease = new WriterLease(this.#name, place, run)
    this.#states = new RedisStates({ prefix, keys, redis, run })
    this.#reader = new BlockReader({ prefix, keys, redis, log })
    const max = { ids: maxIds, keys: maxRequestKeys }
    this.#limit = new MemoryLimit({ redis, history, maxBytes, max, depth: () => this.#depth(), log })
    const maxmemory = () => this.#limit.maxmemory
    const call: RunScript = (script, args, rest) => this.#call(() => run(script, args, rest))
    this.ids = new RedisInsertIds({ prefix, run: call, maxmemory, log })
    this.#subscriber = openRedis(url, { ...OPTIONS, autoResubscribe: false }, prefix)
    // autoResubscribe would do the same, but without a handler for its failure, which would end the process.
    this.#subscriber.on('ready', () => {
      this.#subscriber.subscribe(`${prefix}:hurry`, `${prefix}:stored`).catch((error) => {
        log.warn({ err: error }, 'subscribing to Redis failed; readers and the writer poll instead')
      })
    })
    for (const client of [redis, this.#subscriber]) {
      client.on('error', (error) => log.warn({ err: error }, 'the connection to Redis failed'))
    }
    this.#subscriber.on('message', (channel: string, message: string) => this.#notify(channel, message))
  }

  get id(): number {
    return this.#history.id
  }

  get era(): number {
    return this.#history.era
  }

  get isUp(): boolean {
    return this.#connection.isReady
  }

  /** Waits up to 2 s for the connection. */
  async opened(): Promise<void> {
    await this.#connection.connected(CONNECTION_WAIT_MS)
  }

  async watchMemory(): Promise<void> {
    await this.#limit.watch()
    this.ids.start()
  }

  /** Defers the checks of a start until the connection is established. */
  async openLate(late: LateStart): Promise<void> {
    await this.#late.begin(late, this.isUp)
  }

  async write(writes: Write[]): Promise<Outcome[]> {
    const { era, before, outcomes, receivedAt, names, shortened } = await this.#producer
      .write(writes, this.#limit.current)
      .catch((error) => Promise.reject(this.#limit.explain(error, this.ids.bytes)))
    this.ids.warn(shortened)
    for (const outcome of outcomes) if (outcome.status === 'done') this.#history.note(outcome.position)
    const unstored = era === this.#unstoredEra ? this.#unstored : null
    const isKept = unstored?.add(before, this.#entriesIn(toEntries(writes, outcomes, receivedAt, names))) ?? false
    this.#listeners.release(bodiesToRelease(writes, outcomes, isKept))
    return outcomes
  }

  async readStates(stateKeys: string[], maxBytes: number): Promise<StateReading> {
    return await this.#call(() => this.#states.read(stateKeys, maxBytes))
  }

  async markStates(): Promise<StatesMark> {
    return await this.#call(() => this.#states.mark(this.id, this.#layout))
  }

  async findRequest(request: IdempotencyKey): Promise<Outcome | null> {
    const args = { prefix: this.#prefix, ...requestFields(request) }
    const reply = await this.#call(() => this.#run(FIND_REQUEST, args))
    return reply === null ? null : parseOutcome(String(reply))
  }

  async progress(projectId = ''): Promise<Progress> {
    const reply = await this.#call(() => this.#run(PROGRESS, { project: projectId, ...this.#identity }))
    return this.#progressIn(reply, parsePosition)
  }

  async level(position: Position, projectId = ''): Promise<Progress> {
    const reply = await this.#call(() => {
      const args = { ...positionFields(position), project: projectId, ...this.#identity }
      return this.#run(LEVEL, args, { replicas: this.#replicas })
    })
    return this.#progressIn(reply, (first, appended) => (first === '' ? appended : parsePosition(first) - 1n))
  }

  /** @param toStored computes `stored` from the second field of the reply */
  #progressIn(reply: unknown, toStored: (text: string, appended: Position) => Position): Progress {
    const [last = '', second = '', pending, deletions, isStored] = (reply as Buffer[]).map(String)
    const appended = parsePosition(last)
    this.#history.note(appended)
    return {
      appended,
      stored: toStored(second, appended),
      isStored: isStored === '1',
      pending: Number(pending),
      deletions: Number(deletions),
    }
  }

  raiseFloor(position: Position): void {
    this.#history.raiseFloor(position)
  }

  async claim(maxBytes: number, isWeak = false): Promise<Block | null> {
    this.#lease.isWeak = isWeak
    let own: Run | null = null
    let claimed = await this.#call(() => {
      own = this.#currentEntries().run(maxBytes, MAX_BLOCK_ENTRIES)
      return this.#freeze(own)
    })
    let found: StreamEntry[] | null = null
    if (claimed?.next) {
      const { stored, before } = claimed.next
      const { era } = this.#history
      found = await this.#call(() => this.#reader.next(stored, maxBytes, MAX_BLOCK_ENTRIES))
      assertCurrent(era === this.#history.era)
      const run = { before, entries: found.map(({ entry }) => entry) }
      claimed = await this.#call(() => this.#freeze(run))
      assertCurrent(!claimed?.next)
    }
    if (claimed === null) {
      // Another process is the writer, so this one does not learn which entries are stored.
      this.#listeners.release(this.#unstored?.forget() ?? [])
      this.#unstored = null
      return null
    }
    this.#lease.hold()
    const { frozen, isRepeated } = claimed
    const [first = '', last = ''] = frozen.split(' ')
    this.#history.note(parsePosition(last))
    if (isRepeated) found = await this.#call(() => this.#reader.block(frozen))
    const read = found
    if (read) await this.#call(() => this.#reader.readBodies(read, frozen))
    return {
      isRepeated,
      first: parsePosition(first),
      last: parsePosition(last),
      entries: read ? this.#entriesIn(read) : ((own as Run | null)?.entries ?? []),
    }
  }

  /** See CLAIM. @param run the entries for the block */
  async #freeze(run: Run | null): Promise<Claimed | null> {
    const args = {
      writer: this.#name,
      leaseMs: this.#lease.ms,
      ...this.#identity,
      place: this.#lease.place,
      run: run ? formatLimits(toLimits(run.entries)) : '',
      addedBefore: run ? String(run.before) : '',
    }
    return parseClaimed(await this.#run(CLAIM, args, { replicas: this.#replicas }))
  }

  /** The unstored entries of the current era: entries of another era may be lost, or replaced by others. */
  #currentEntries(): UnstoredEntries {
    if (this.#unstoredEra !== this.#history.era) {
      this.#listeners.release(this.#unstored?.forget() ?? [])
      this.#unstored = null
      this.#unstoredEra = this.#history.era
    }
    this.#unstored ??= new UnstoredEntries()
    return this.#unstored
  }

  /** Returns the entries and remembers the keys of their bodies. */
  #entriesIn(found: Placed[]): WaitingEntry[] {
    for (const { entry, at } of found) if (at !== null) this.#bodyNames.set(entry, at)
    return found.map(({ entry }) => entry)
  }

  async yieldLease(): Promise<boolean> {
    return await this.#lease.yield()
  }

  async shrink(block: Block, last: Position): Promise<void> {
    const args = { frozen: formatLimits(block), shrunk: formatLimits({ first: block.first, last }) }
    assertCurrent((await this.#call(() => this.#run(SHRINK, args, { replicas: this.#replicas }))) === 1)
  }

  async acknowledge(block: Block, states: StoredState[]): Promise<void> {
    this.#lease.rest()
    const names = block.entries.map((entry) => this.#bodyNames.get(entry)).filter((name) => name !== undefined)
    const { args, rest } = acknowledgeArguments(block, names, states)
    const all = { ...args, prefix: this.#prefix, cacheBytes: String(this.#limit.cacheBytes) }
    assertCurrent((await this.#call(() => this.#run(ACKNOWLEDGE, all, { rest }))) === 1)
    this.#listeners.release(this.#unstored?.forget(block.last) ?? [])
  }

  async advancePast(position: Position): Promise<void> {
    this.#history.liftFloor(position)
    const last = await this.#call(() => this.#run(ADVANCE_PAST, positionFields(position)))
    if (last !== null) await this.#call(() => this.#states.clear(String(last)))
  }

  async depth(): Promise<Depth> {
    return await this.#call(() => this.#depth())
  }

  async #depth(): Promise<Depth> {
    const limitBytes = this.#limit.bytes
    const args = { journalId: String(this.id), large: String(Math.floor(limitBytes * LARGE_PART)) }
    return { ...parseDepth(await this.#run(DEPTH, args)), limitBytes }
  }

  async tally(): Promise<Tally> {
    const tally = parseTally(await this.#call(() => this.#run(TALLY, {})))
    if (!tally) throw unavailable(new Error('the journal does not exist'))
    return tally
  }

  async noteDeletion(projectId: string): Promise<void> {
    await this.#call(() => this.#run(NOTE_DELETION, { project: projectId }))
  }

  wakeWriter(): void {
    this.#redis.publish(`${this.#prefix}:hurry`, '').catch(() => undefined)
  }

  listen(listener: JournalListener): () => void {
    return this.#listeners.add(listener)
  }

  async ping(): Promise<void> {
    await this.progress()
    if (this.#limit.bytes < 0)
      throw new ApiError('unavailable', 'The journal cannot be written: Redis has no memory left.')
    // Changes nothing, but fails if Redis refuses writes, for example because its disk or memory is full.
    await this.#call(() => this.#redis.xadd(`${this.#prefix}:none`, 'NOMKSTREAM', '*', '', ''))
  }

  async close(): Promise<void> {
    this.#limit.close()
    this.ids.close()
    this.#lease.rest()
    if (this.#redis.status === 'ready') await this.#lease.release()
    this.#connection.close()
    this.#subscriber.disconnect()
  }

  #notify(channel: string, message: string): void {
    if (channel.endsWith(':hurry')) this.#listeners.wake()
    else this.#listeners.noteStored(parsePosition(message))
  }

  /** For commands that may be abandoned without harm: every failure is `unavailable`. */
  async #call<T>(command: () => Promise<T>): Promise<T> {
    try {
      await this.#connection.connected(CONNECTION_WAIT_MS)
      try {
        return await command()
      } catch (error) {
        if (!isGone(error)) throw error
        await this.#history.adopt()
        return await command()
      }
    } catch (error) {
      throw asRefusal(error) ?? unavailable(error)
    }
  }

  #run<Key extends keyof JournalKeys, Arg extends string>(
    script: Script<Key, Arg>,
    args: Record<Arg, Argument>,
    options?: { rest?: readonly Argument[] | undefined; replicas?: number },
  ): Promise<unknown> {
    return this.#connection.run(script, this.#keys, args, options)
  }

  /** The arguments by which scripts refuse a process of another journal or layout. */
  get #identity() {
    return { journalId: String(this.id), layout: this.#layout }
  }
}

import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { ApiError } from '../../contract/errors.js'
import { openRedis } from '../../lib/open-redis.js'
import { formatPosition, type Position, parsePosition } from '../../model/position.js'
import {
  type Block,
  type Depth,
  type Entry,
  type IdempotencyKey,
  type Journal,
  type JournalListener,
  type Outcome,
  type Progress,
  READING_MEMORY_MS,
  STATE_MEMORY_MS,
  type StateReading,
  type StoredState,
  type Write,
} from '../journal.js'
import { OPTIONS, RedisConnection } from './connection.js'
import {
  entriesOf,
  formatLimits,
  limitsOf,
  parseEntry,
  parseOutcome,
  parseState,
  requestArguments,
  type StreamEntry,
  writeArguments,
} from './encoding.js'
import { asRefusal, isFromScript, isGone, isLost, isReply, unavailable } from './errors.js'
import { RedisHistory } from './history.js'
import { parseMemory, roomIn } from './maxmemory.js'
import { ACKNOWLEDGE, CLAIM, RELEASE, RENEW, SHRINK } from './scripts/block.js'
import { ADVANCE_PAST } from './scripts/history.js'
import { DEPTH, PROGRESS, READ_STATES } from './scripts/read.js'
import { FIND_REQUEST } from './scripts/requests.js'
import { WRITE } from './scripts/write.js'
import { SetBody } from './set-body.js'
import { type Run, UnstoredEntries } from './unstored-entries.js'

export interface RedisJournalOptions {
  /** redis://[user:password@]host:port[/database], or as `parseSentinelUrl` has it */
  url: string
  /** above this many bytes of entries and states, writes are refused */
  maxBytes: number
  /** request keys that a project may have remembered; 0, the default: any number */
  maxRequestKeys?: number
  /** of every key; the braces are a hash tag, which keeps the keys in one slot of a cluster */
  prefix?: string
  /** replicas that have to know a write before it is answered, and a block before it goes to the store; default 0 */
  replicas?: number
  /**
   * the last position from `from` on that the store has of any journal; asked where Redis may have lost what it gave out
   * @throws where the store does not answer
   */
  lastStored?(from: Position): Promise<Position>
  log: { warn(data: object, message: string): void }
}

/** How long a call waits for a connection before it is refused. */
const CONNECTION_WAIT_MS = 2_000
/** How long a write whose answer was lost asks what became of it. */
const LOST_ANSWER_WAIT_MS = 15_000
const RETRY_PAUSE_MS = 50
/** Of the arguments of WRITE that are put in when it is sent. */
const HISTORY_INDEX = 6
/** Settling a block goes over its entries while Redis does nothing else: some 20 ms for as many. */
const MAX_BLOCK_ENTRIES = 20_000
/**
 * Another writer takes over this long after the last sign of life of the one before: soon enough for a reader that waits
 * 5 s. Two writers at once do no harm, as a block has one token; they only do the work twice.
 */
const LEASE_MS = 3_000
const LEASE_RENEWAL_MS = 1_000
/** How often Redis is asked what else is in its memory. */
const MEMORY_READ_MS = 1_000

/** Redis may delete what was accepted to make room. */
class EvictionError extends Error {
  constructor(policy: string) {
    super(
      `Redis has a maxmemory and the maxmemory-policy ${policy}, by which it would delete events that were accepted. ` +
        'Set its maxmemory-policy to noeviction.',
    )
  }
}

/**
 * Opens the journal in Redis (7.0 or later), making it where there is none. Waits up to 2 s for the connection.
 * @throws Error that says what to do where Redis cannot be reached or must not be used
 */
export async function openRedisJournal(options: RedisJournalOptions): Promise<Journal> {
  const journal = new RedisJournal(options)
  try {
    await journal.opened()
    await journal.watchMemory()
  } catch (error) {
    await journal.close()
    if (error instanceof EvictionError) throw error
    throw new Error('Redis cannot be reached or used. Check REDIS_URL.', { cause: error })
  }
  return journal
}

class RedisJournal implements Journal {
  readonly #connection: RedisConnection
  readonly #redis: Redis
  readonly #subscriber: Redis
  readonly #prefix: string
  readonly #keys: Record<'stream' | 'meta' | 'pending' | 'deletions' | 'lease' | 'fading' | 'producer', string>
  readonly #log: RedisJournalOptions['log']
  readonly #maxBytes: number
  readonly #maxRequestKeys: number
  /** maxBytes, or what Redis' own limit allows where that is less */
  #limitBytes: number
  #memoryReads: NodeJS.Timeout | undefined
  readonly #name = randomUUID()
  readonly #listeners = new Set<JournalListener>()
  #sequence = 0
  #renewal: NodeJS.Timeout | undefined
  /** kept while a writer runs here that could use it */
  #unstored: UnstoredEntries | null = null
  /** the era in which the tail was written; nothing is known of another's */
  #tailEra = 0
  readonly #history: RedisHistory
  readonly #replicas: number

  constructor(options: RedisJournalOptions) {
    const { url, maxBytes, maxRequestKeys = 0, prefix = '{tallyhouse}', replicas = 0, lastStored, log } = options
    this.#replicas = replicas
    this.#prefix = prefix
    this.#log = log
    this.#maxBytes = maxBytes
    this.#maxRequestKeys = maxRequestKeys
    this.#limitBytes = maxBytes
    const key = (name: string) => `${prefix}:${name}`
    this.#keys = {
      stream: key('journal'),
      meta: key('meta'),
      pending: key('pending'),
      deletions: key('deletions'),
      lease: key('writer'),
      fading: key('state-expiries'),
      producer: key(`producer:${this.#name}`),
    }
    this.#connection = new RedisConnection(url, () => this.#history.goOn())
    this.#history = new RedisHistory({
      meta: this.#keys.meta,
      stream: this.#keys.stream,
      script: (script, keys, args) => this.#script(script, keys, args),
      lastStored,
      log,
    })
    this.#redis = this.#connection.redis
    this.#subscriber = openRedis(url, { ...OPTIONS, autoResubscribe: false })
    // ioredis would do it too, and leave the failure to nobody where that connection ends at once: the process would.
    this.#subscriber.on('ready', () => {
      this.#subscriber.subscribe(key('hurry'), key('stored')).catch(() => undefined)
    })
    for (const connection of [this.#redis, this.#subscriber]) {
      connection.on('error', (error) => log.warn({ err: error }, 'the connection to Redis failed'))
    }
    this.#subscriber.on('message', (channel: string, message: string) => this.#notify(channel, message))
  }

  get id(): number {
    return this.#history.id
  }

  get era(): number {
    return this.#history.era
  }

  async opened(): Promise<void> {
    await this.#connection.connected(CONNECTION_WAIT_MS)
  }

  async write(writes: Write[]): Promise<Outcome[]> {
    const sequence = ++this.#sequence
    const keys = [this.#keys.stream, this.#keys.meta, this.#keys.pending, this.#keys.producer]
    const args: (string | Buffer)[] = [
      this.#prefix,
      String(sequence),
      String(this.#limitBytes),
      String(this.#maxRequestKeys),
      String(this.id),
      String(READING_MEMORY_MS),
      ...['', '', ''],
    ]
    const bodies: { key: string; body: Buffer }[] = []
    writes.forEach((write, i) => {
      const name = `${this.#name}:${sequence}:${i}`
      args.push(...writeArguments(write, name))
      if (write.type === 'append') bodies.push({ key: this.#bodyKey(name), body: write.body })
    })

    let answerLostAt: number | null = null
    for (;;) {
      let bodyError: unknown
      try {
        await this.#connection.connected(CONNECTION_WAIT_MS)
        const era = this.#history.era
        args.splice(HISTORY_INDEX, 3, ...this.#history.arguments)
        const answer = this.#connection.together(() => {
          for (const { key, body } of bodies) {
            const put = new SetBody(key, body)
            put.promise.catch((error) => {
              bodyError = error
            })
            this.#redis.sendCommand(put)
          }
          return this.#script(WRITE, keys, args, this.#replicas)
        })
        const [added, outcomes = '', time] = String(await answer).split(' ')
        const parsed = outcomes.split(',').map(parseOutcome)
        for (const outcome of parsed) if (outcome.status === 'done') this.#history.note(outcome.position)
        const tail = era === this.#tailEra ? this.#unstored : null
        const isKept = tail?.add(Number(added), entriesOf(writes, parsed, Number(time))) ?? false
        writes.forEach((write, i) => {
          const isInTail = isKept && parsed[i]?.status === 'done'
          if (write.type === 'append' && !isInTail) this.#release([write])
        })
        return parsed
      } catch (failure) {
        const fault = isGone(failure) ? await this.#history.goOn().catch((error) => error) : failure
        if (!fault) continue
        // A body that was refused ends the connection where this is no master any more; its WRITE came to nothing as well.
        const isCut = answerLostAt === null && !isReply(fault) && asRefusal(bodyError) !== null
        const error = isCut || (isLost(fault) && isReply(bodyError)) ? bodyError : fault
        const refused = asRefusal(error)
        // Before any answer was lost, a refusal is the last word. After it, only those are which come from the script
        // itself, when it has looked at what this producer did before.
        if (refused && (answerLostAt === null || isFromScript(error))) throw refused
        if (!refused && isReply(error) && !isLost(error)) throw error
        if (!refused) answerLostAt ??= Date.now()
        if (answerLostAt !== null && Date.now() - answerLostAt > LOST_ANSWER_WAIT_MS) {
          throw new ApiError(
            'internal',
            'The journal did not say whether the request was stored. Repeat it with the same Idempotency-Key.',
            { cause: error },
          )
        }
        await wait(RETRY_PAUSE_MS)
      }
    }
  }

  async readStates(stateKeys: string[], maxBytes: number): Promise<StateReading> {
    const args = [this.#prefix, String(maxBytes), ...stateKeys]
    const [readAt, ...values] = (await this.#call(() =>
      this.#script(READ_STATES, [this.#keys.meta], args),
    )) as (Buffer | null)[]
    return { readAt: Number(readAt), states: values.map((value) => value && parseState(value)) }
  }

  async findRequest(request: IdempotencyKey): Promise<Outcome | null> {
    const args = [this.#prefix, ...requestArguments(request)]
    const answer = await this.#call(() => this.#script(FIND_REQUEST, [this.#keys.meta], args))
    return answer === null ? null : parseOutcome(String(answer))
  }

  async progress(projectId = ''): Promise<Progress> {
    const keys = [this.#keys.meta, this.#keys.pending, this.#keys.deletions]
    const answer = await this.#call(() => this.#script(PROGRESS, keys, [projectId, String(this.id)]))
    const [last = '', stored = '', pending, deletions] = (answer as Buffer[]).map(String)
    const appended = parsePosition(last)
    this.#history.note(appended)
    return {
      appended,
      stored: parsePosition(stored),
      pending: Number(pending),
      deletions: Number(deletions),
    }
  }

  async claim(maxBytes: number): Promise<Block | null> {
    const keys = [this.#keys.stream, this.#keys.meta, this.#keys.lease]
    let run: Run | null = null
    const answer = await this.#call(() => {
      const args = [this.#name, String(LEASE_MS), String(maxBytes), String(MAX_BLOCK_ENTRIES), String(this.id)]
      run = this.#currentTail().run(maxBytes, MAX_BLOCK_ENTRIES)
      if (run) args.push(String(run.before), formatLimits(limitsOf(run.entries)))
      return this.#script(CLAIM, keys, args, this.#replicas)
    })
    const own = run as Run | null
    if (answer === null) {
      // Where another process is the writer, nobody here would ever forget what is stored.
      this.#release(this.#unstored?.forget() ?? [])
      this.#unstored = null
      return null
    }
    this.#holdLease()
    const [frozen, isRepeated, entries] = answer as [Buffer, number, [Buffer, Buffer[]][]?]
    const [first = '', last = ''] = frozen.toString().split(' ')
    this.#history.note(parsePosition(last))
    return {
      isRepeated: isRepeated === 1,
      first: parsePosition(first),
      last: parsePosition(last),
      entries: entries ? await this.#withBodies(entries.map(parseEntry), frozen.toString()) : (own?.entries ?? []),
    }
  }

  /** What was written in another era may not be in the journal any more, or something else in its place. */
  #currentTail(): UnstoredEntries {
    if (this.#tailEra !== this.#history.era) {
      this.#release(this.#unstored?.forget() ?? [])
      this.#unstored = null
      this.#tailEra = this.#history.era
    }
    this.#unstored ??= new UnstoredEntries()
    return this.#unstored
  }

  /**
   * Reads the bodies that are not in the stream itself.
   * @throws ContractError `unavailable` where another writer has stored the block meanwhile
   */
  async #withBodies(found: StreamEntry[], frozen: string): Promise<Entry[]> {
    const apart = found.filter(({ at }) => at !== null)
    const keys = apart.map(({ at }) => this.#bodyKey(at ?? ''))
    const bodies = keys.length > 0 ? await this.#call(() => this.#redis.mgetBuffer(keys)) : []
    if (bodies.includes(null)) {
      const now = await this.#call(() => this.#redis.hget(this.#keys.meta, 'frozen'))
      assertCurrent(now === frozen ? 1 : 0)
    }
    apart.forEach(({ entry }, i) => {
      const body = bodies[i]
      if (body) entry.body = body
      else
        this.#log.warn(
          { position: formatPosition(entry.position) },
          'somebody deleted the bytes of an entry from Redis',
        )
    })
    return found.map(({ entry }) => entry)
  }

  #bodyKey(name: string): string {
    return `${this.#prefix}:body:${name}`
  }

  /** As long as this process lives and has a block, however long its INSERT takes. */
  #holdLease(): void {
    this.#renewal ??= setInterval(() => {
      this.#script(RENEW, [this.#keys.lease], [this.#name, String(LEASE_MS)]).catch(() => undefined)
    }, LEASE_RENEWAL_MS).unref()
  }

  async shrink(block: Block, last: Position): Promise<void> {
    const limits = [formatLimits(block), formatLimits({ first: block.first, last })]
    assertCurrent(await this.#call(() => this.#script(SHRINK, [this.#keys.meta], limits, this.#replicas)))
  }

  async acknowledge(block: Block, states: StoredState[]): Promise<void> {
    clearInterval(this.#renewal)
    this.#renewal = undefined
    const events = new Map<string, number>()
    for (const { kind, projectId, count } of block.entries) {
      if (kind === 'events') events.set(projectId, (events.get(projectId) ?? 0) + count)
    }
    const after = formatPosition(block.last + 1n)
    const args = [this.#prefix, formatLimits(block), after, String(STATE_MEMORY_MS), String(events.size)]
    for (const [projectId, count] of events) args.push(projectId, String(count))
    for (const { stateKey, version } of states) args.push(stateKey, formatPosition(version))
    const keys = [this.#keys.stream, this.#keys.meta, this.#keys.pending]
    assertCurrent(await this.#call(() => this.#script(ACKNOWLEDGE, keys, args)))
    this.#release(this.#unstored?.forget(block.last) ?? [])
  }

  async advancePast(position: Position): Promise<void> {
    this.#history.note(position)
    const args = formatPosition(position).split('-')
    const keys = [this.#keys.stream, this.#keys.meta, this.#keys.fading]
    const isEmpty = await this.#call(() => this.#script(ADVANCE_PAST, keys, args))
    if (isEmpty !== 1) return
    await this.#call(async () => {
      for await (const keys of this.#redis.scanStream({ match: `${this.#prefix}:state:*`, count: 1000 })) {
        if (keys.length > 0) await this.#redis.unlink(keys)
      }
    })
  }

  async depth(): Promise<Depth> {
    return await this.#call(() => this.#depth())
  }

  async #depth(): Promise<Depth> {
    const keys = [this.#keys.stream, this.#keys.meta, this.#keys.fading]
    const answer = await this.#script(DEPTH, keys, [String(this.id)])
    const [entries = 0, bytes = 0, oldestMs = 0, stateBytes = 0] = answer as number[]
    return { entries, bytes, stateBytes, oldestMs, limitBytes: this.#limitBytes }
  }

  /**
   * Keeps the limit of the journal's bytes so far below Redis' own that Redis never has to refuse. Every process comes to
   * the same limit, as bytes and memory are those of all.
   * @throws EvictionError where Redis is not to be used as it is now; a policy that is changed later is not noticed
   */
  async watchMemory(): Promise<void> {
    const read = async () => {
      if (this.#redis.status !== 'ready') return
      const [{ bytes, stateBytes }, info] = await Promise.all([
        this.#depth(),
        this.#redis.call('INFO', 'memory', 'replication').then(String),
      ])
      // As where a replica became the master on whose connections nothing was written meanwhile.
      if (this.#history.isAnother(/master_replid:(\w+)/.exec(info)?.[1])) await this.#history.goOn()
      const memory = parseMemory(info)
      this.#limitBytes = Math.min(this.#maxBytes, bytes + stateBytes + roomIn(memory))
      return memory
    }
    const memory = await read().catch((error) => {
      this.#log.warn({ err: error }, 'Redis does not tell its memory; its maxmemory is not taken into account')
    })
    if (memory && memory.limit > 0 && memory.policy !== 'noeviction') throw new EvictionError(memory.policy)
    this.#memoryReads = setInterval(() => read().catch(() => undefined), MEMORY_READ_MS).unref()
  }

  async noteDeletion(projectId: string): Promise<void> {
    await this.#call(() => this.#redis.hincrby(this.#keys.deletions, projectId, 1))
  }

  wakeWriter(): void {
    this.#redis.publish(`${this.#prefix}:hurry`, '').catch(() => undefined)
  }

  listen(listener: JournalListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async ping(): Promise<void> {
    await this.#call(() => this.#redis.ping())
  }

  async close(): Promise<void> {
    clearInterval(this.#memoryReads)
    clearInterval(this.#renewal)
    // Else another writer would have to wait until the lease has run out.
    if (this.#redis.status === 'ready') {
      await this.#script(RELEASE, [this.#keys.lease], [this.#name]).catch(() => undefined)
    }
    this.#connection.close()
    this.#subscriber.disconnect()
  }

  #release(unused: { body: Buffer }[]): void {
    for (const { onReleased } of this.#listeners) for (const { body } of unused) onReleased?.(body)
  }

  #notify(channel: string, message: string): void {
    for (const { onWake, onStored } of this.#listeners) {
      if (channel.endsWith(':hurry')) onWake?.()
      else onStored?.(parsePosition(message))
    }
  }

  /** For commands that may be given up without harm: whatever goes wrong is `unavailable`. */
  async #call<T>(command: () => Promise<T>): Promise<T> {
    try {
      await this.#connection.connected(CONNECTION_WAIT_MS)
      try {
        return await command()
      } catch (error) {
        if (!isGone(error)) throw error
        await this.#history.goOn()
        return await command()
      }
    } catch (error) {
      throw asRefusal(error) ?? unavailable(error)
    }
  }

  #script(script: string, keys: string[], args: (string | Buffer)[], replicas = 0): Promise<unknown> {
    return this.#connection.script(script, keys, args, replicas)
  }
}

/** Harmless, since the other writer's block has the same token; but this one must look again at what is frozen. */
function assertCurrent(answer: unknown): void {
  if (answer !== 1) throw new ApiError('unavailable', 'Another writer has taken over this block.')
}

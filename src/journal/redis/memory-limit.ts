import type { Redis } from 'ioredis'
import { ApiError } from '../../contract/errors.js'
import { OutageLog } from '../../lib/outage-log.js'
import { CACHE_PART, type Depth } from '../journal.js'
import type { PerClass } from '../sender-limits.js'
import type { RedisHistory, RedisJournalLog } from './history.js'
import { limitsWithin, mayEvict, parseMemory, type RedisMemory, roomIn } from './maxmemory.js'
import type { WriteLimits } from './producer.js'

/** Interval at which the memory of Redis is read, ms. */
const MEMORY_READ_MS = 1_000

const LISTPACKS = 'hash-max-listpack-entries'
/**
 * Redis' default of LISTPACKS. The hashes of idempotency keys and insert_ids have up to this many
 * fields, and need little memory only as listpacks.
 */
const LISTPACK_FIELDS = 512

/** If waiting data takes less than this part of Redis' memory, something else fills it. */
const WAITING_SHARE = 1 / 2

/** Redis may delete accepted events to make room. */
export class EvictionError extends Error {
  constructor(policy: string) {
    super(
      `Redis has a maxmemory and the maxmemory-policy ${policy}, so it would delete accepted events. ` +
        'Set its maxmemory-policy to noeviction.',
    )
  }
}

export interface MemoryLimitOptions {
  redis: Redis
  history: RedisHistory
  /** configured limit of the journal, bytes */
  maxBytes: number
  /** how many ids and idempotency keys of one sender are remembered */
  max: Record<'ids' | 'keys', PerClass>
  depth(): Promise<Depth>
  log: RedisJournalLog
}

/**
 * The limit of the journal's bytes: the configured one, or less, so that Redis never reaches its maxmemory and refuses
 * writes itself. Every process computes the same limit, because all read the same journal and memory.
 */
export class MemoryLimit {
  bytes: number
  /** maxmemory of Redis, bytes; 0: none, or not known yet */
  maxmemory = 0
  /** bytes at the last reading of the memory */
  #use = { used: 0, waiting: 0 }
  /** bytes that the cached states may take in addition */
  cacheBytes: number
  readonly #options: MemoryLimitOptions
  #reads: NodeJS.Timeout | undefined
  readonly #outage: OutageLog
  #mayEvict = false

  constructor(options: MemoryLimitOptions) {
    this.#options = options
    this.#outage = new OutageLog(options.log, {
      failed: 'the memory of Redis cannot be read; the last known limit applies',
      recovered: 'the memory of Redis was read again',
    })
    this.bytes = options.maxBytes
    this.cacheBytes = Math.floor(options.maxBytes * CACHE_PART)
  }

  /** The limits of the next write. */
  get current(): WriteLimits {
    return { bytes: this.bytes, ...limitsWithin(this.maxmemory, this.#options.max) }
  }

  /**
   * Reads the memory of Redis now and every second from now on.
   * @throws EvictionError if Redis may delete accepted events; if that changes later, it is only logged
   */
  async watch(): Promise<void> {
    const memory = await this.#tryRead()
    if (memory && mayEvict(memory)) throw new EvictionError(memory.policy)
    await this.#warnOfSettings()
    this.#reads = setInterval(() => this.#tryRead(), MEMORY_READ_MS).unref()
  }

  /**
   * Returns the refusal of a write, with a message about what fills Redis if it is not waiting data.
   * @param ids bytes of the remembered ids
   */
  explain(refusal: unknown, ids: number): unknown {
    const { used, waiting } = this.#use
    const isOther = this.maxmemory > 0 && waiting < used * WAITING_SHARE
    if (!isOther || !(refusal instanceof ApiError) || refusal.code !== 'overloaded') return refusal
    const share = (bytes: number) => `${Math.round((100 * bytes) / used)} %`
    const message = `Redis has no memory left. Data waiting to be stored takes ${share(waiting)} of it, and remembered insert_ids about ${share(ids)}: an operator has to raise its maxmemory, or forget ids (tallyhouse ids).`
    return new ApiError('overloaded', message, { cause: refusal, retryAfter: refusal.retryAfter })
  }

  /** Warns of settings that cost events or memory. Some providers refuse CONFIG; then nothing is checked. */
  async #warnOfSettings(): Promise<void> {
    const { redis, log } = this.#options
    const reply = (await redis.config('GET', 'appendonly', LISTPACKS).catch(() => [])) as string[]
    const readSetting = (setting: string) => (reply.includes(setting) ? reply[reply.indexOf(setting) + 1] : undefined)
    const appendonly = readSetting('appendonly')
    if (appendonly === 'no') {
      log.warn({ appendonly }, 'Redis loses accepted events when it ends: set its appendonly to yes')
    }
    const fields = Number(readSetting(LISTPACKS) ?? LISTPACK_FIELDS)
    if (fields >= LISTPACK_FIELDS) return
    const message = `Redis needs several times the memory for idempotency keys and insert_ids: set its ${LISTPACKS} to ${LISTPACK_FIELDS}`
    log.warn({ [LISTPACKS]: fields }, message)
  }

  close(): void {
    clearInterval(this.#reads)
  }

  async #tryRead(): Promise<RedisMemory | undefined> {
    try {
      const memory = await this.#read()
      this.#outage.noteSuccess()
      return memory
    } catch (error) {
      this.#outage.noteFailure(error)
      return undefined
    }
  }

  async #read(): Promise<RedisMemory | undefined> {
    const { redis, history, maxBytes, depth, log } = this.#options
    if (redis.status !== 'ready') return undefined
    const [{ bytes, stateBytes, cachedBytes }, info] = await Promise.all([
      depth(),
      redis.call('INFO', 'memory', 'replication').then(String),
    ])
    // A replica may have become the master while nothing was written, so WRITE has not noticed.
    if (history.isAnother(/master_replid:(\w+)/.exec(info)?.[1])) await history.adopt()
    const memory = parseMemory(info)
    this.maxmemory = memory.limit
    this.#use = { used: memory.used, waiting: bytes + stateBytes }
    const room = bytes + stateBytes + roomIn(memory)
    this.bytes = Math.min(maxBytes, room)
    // Without the cache, there would be this much more room.
    this.cacheBytes = Math.max(0, Math.floor(Math.min(maxBytes, room + cachedBytes) * CACHE_PART))
    const before = this.#mayEvict
    this.#mayEvict = mayEvict(memory)
    if (this.#reads && this.#mayEvict && !before) {
      // A start fails instead. Later it is logged once per change, for example of the settings or the master.
      log.error({ err: new EvictionError(memory.policy) }, 'Redis may delete accepted events')
    }
    return memory
  }
}

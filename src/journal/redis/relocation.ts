import type { Redis } from 'ioredis'
import { INSERT_ID_BYTES } from '../../model/insert-id.js'
import { formatPosition, type Position, parsePosition, START } from '../../model/position.js'
import { parseSender, senderName } from '../../model/sender.js'
import {
  bucketAt,
  FINGERPRINT_BYTES,
  formatRequest,
  IDEMPOTENCY_BUCKET_MS,
  IDEMPOTENCY_MEMORY_MS,
  KEY_BYTES,
  parseRequest,
} from '../idempotency-memory.js'
import { idBucketAt, OLD_ID_BUCKETS } from '../insert-id-memory.js'
import type { Tally } from '../journal.js'
import { parseGuard } from '../layout.js'
import type { JournalLook, KeptState, Relocation, RememberedIds, RememberedRequest } from '../relocation.js'
import { CONNECTION_WAIT_MS, RedisConnection } from './connection.js'
import { parseState, parseTally, TALLY_KEYS } from './encoding.js'
import { asRefusal, unavailable } from './errors.js'
import { RedisHistory } from './history.js'
import type { RedisJournalOptions } from './options.js'
import { ADD_INSERT_IDS } from './scripts/insert-ids.js'
import { DEPTH, TALLY } from './scripts/read.js'
import {
  ADD_REQUESTS,
  ADD_STATES,
  LOOK_AT_LAYOUT,
  RAISE,
  READ_HASHES,
  REMOVE_STATES,
  SET_LAYOUT,
} from './scripts/relocation.js'
import { SHARD_BYTES } from './scripts/requests.js'
import { STATES_MARK } from './scripts/shared.js'

/** The key of the mark of the states. */
const MARK = `state:${STATES_MARK}`
/** Keys of one SCAN step, and requests or states of one script call. */
const PIECE = 500

/**
 * Opens the Redis journal of a lane to inspect it or to change the layout. Creates nothing before `create`. Waits up to 2 s
 * for the connection.
 */
export async function openRedisRelocation(
  options: Pick<RedisJournalOptions, 'url' | 'prefix' | 'replicas' | 'log'>,
): Promise<Relocation> {
  const relocation = new RedisRelocation(options)
  try {
    await relocation.opened()
  } catch (error) {
    await relocation.close()
    throw error
  }
  return relocation
}

class RedisRelocation implements Relocation {
  readonly #prefix: string
  readonly #replicas: number
  readonly #connection: RedisConnection
  readonly #redis: Redis
  readonly #history: RedisHistory

  constructor({ url, prefix = '{tallyhouse}', replicas = 0, log }: Parameters<typeof openRedisRelocation>[0]) {
    this.#prefix = prefix
    this.#replicas = replicas
    this.#connection = new RedisConnection({ url, prefix, prepare: async () => undefined, log })
    this.#redis = this.#connection.redis
    this.#redis.on('error', (error) => log.warn({ err: error }, 'the connection to Redis failed'))
    this.#history = new RedisHistory({
      meta: this.#key('meta'),
      stream: this.#key('journal'),
      others: [],
      // A new journal belongs to no layout yet.
      layout: '0',
      script: (script, keys, args) => this.#connection.script(script, keys, args),
      lastStored: undefined,
      log,
    })
  }

  async opened(): Promise<void> {
    await this.#connection.connected(CONNECTION_WAIT_MS)
  }

  async look(): Promise<JournalLook | null> {
    const reply = await this.#script(LOOK_AT_LAYOUT, ['meta'], [])
    const [id, layout, last] = (reply as (Buffer | null)[]).map((text) => text && String(text))
    if (!id) return null
    const { version, closedFor } = parseGuard(layout)
    const keys = ['journal', 'meta', 'state-expiries', 'held']
    const depth = (await this.#script(DEPTH, keys, [id, String(Number.MAX_SAFE_INTEGER)])) as number[]
    const [entries = 0, bytes = 0, oldestMs = 0, stateBytes = 0] = depth
    return {
      id: Number(id),
      layout: version,
      closedFor,
      appended: parsePosition(last ?? '0-0'),
      depth: { entries, bytes, oldestMs, stateBytes },
    }
  }

  async tally(): Promise<Tally | null> {
    return parseTally(await this.#script(TALLY, [...TALLY_KEYS], []))
  }

  async create(): Promise<void> {
    await this.#call(() => this.#history.adopt())
  }

  async closeIntake(version: number): Promise<void> {
    await this.#setLayout('', String(version))
  }

  async raise(position: Position): Promise<void> {
    await this.#script(RAISE, ['journal', 'meta'], formatPosition(position).split('-'))
  }

  async *requests(): AsyncGenerator<RememberedRequest[]> {
    const ownId = (await this.look())?.id ?? 0
    for await (const keys of this.#scan('requests:')) {
      const hashes = (await this.#call(() => this.#connection.script(READ_HASHES, keys, []))) as Buffer[][]
      const found = keys.flatMap((key, i) => requestsIn(key, hashes[i] ?? [], ownId))
      if (found.length > 0) yield found
    }
    for await (const keys of this.#scan('request:')) {
      const read = (key: string) => Promise.all([this.#redis.get(key), this.#redis.pexpiretime(key)])
      const values = await this.#call(() => Promise.all(keys.map(read)))
      const found = keys.flatMap((key, i) => oldRequest(key, values[i] ?? [null, 0], ownId))
      if (found.length > 0) yield found
    }
  }

  async addRequests(requests: RememberedRequest[]): Promise<void> {
    const ownId = (await this.look())?.id ?? 0
    for (const piece of pieces(requests)) {
      const args = piece.flatMap((request) => {
        const { bucket, key } = request
        return [
          this.#key(`requests:${bucket}:${key.toString('hex', 0, SHARD_BYTES)}`),
          Buffer.concat([key.subarray(SHARD_BYTES), formatRequest(request, ownId)]),
          String((bucket + 1) * IDEMPOTENCY_BUCKET_MS + IDEMPOTENCY_MEMORY_MS),
        ]
      })
      await this.#script(ADD_REQUESTS, ['meta'], args)
    }
  }

  async *insertIds(): AsyncGenerator<RememberedIds> {
    // By the clock by which the journal forgets, see REMEMBERED.
    const remembered = await this.#call(() => this.#redis.hget(this.#key('meta'), 'remembered'))
    const first = idBucketAt(Number(remembered ?? Date.now())) - OLD_ID_BUCKETS
    const index = await this.#call(() => this.#redis.hgetall(this.#key('ids')))
    for (const [name, text] of Object.entries(index)) {
      for (const { bucket, hashes } of tiersIn(text)) {
        if (bucket < first) continue
        for (const piece of pieces(hashes)) {
          const keys = piece.map((hash) => this.#key(`ids:${name}:${hash}`))
          const found = await this.#call(() => Promise.all(keys.map((key) => this.#redis.hkeysBuffer(key))))
          const ids = Buffer.concat(found.flat())
          if (ids.length > 0) yield { sender: parseSender(name), bucket, ids }
        }
      }
    }
  }

  async addInsertIds({ sender, bucket, ids }: RememberedIds): Promise<void> {
    const step = PIECE * INSERT_ID_BYTES
    for (let at = 0; at < ids.length; at += step) {
      const args = [this.#prefix, senderName(sender), String(bucket), ids.subarray(at, at + step)]
      await this.#script(ADD_INSERT_IDS, ['meta'], args)
    }
  }

  async *states(): AsyncGenerator<KeptState[]> {
    for await (const keys of this.#stateKeys(false)) {
      const values = await this.#call(() => this.#redis.mgetBuffer(keys))
      const found = keys.flatMap((key, i): KeptState[] => {
        const value = values[i]
        const { version, state } = value ? parseState(value) : { version: START, state: null }
        return state === null ? [] : [{ stateKey: lastPart(key), version, state }]
      })
      if (found.length > 0) yield found
    }
  }

  async addStates(states: KeptState[]): Promise<void> {
    for (const piece of pieces(states)) {
      const args = piece.flatMap(({ stateKey, version, state }) => [stateKey, formatPosition(version), state])
      await this.#script(ADD_STATES, ['meta'], [this.#prefix, ...args])
    }
  }

  async keepStates(isOwn: (stateKey: string) => boolean): Promise<void> {
    const remove = (stateKeys: string[]) => this.#script(REMOVE_STATES, ['meta'], [this.#prefix, ...stateKeys])
    for await (const keys of this.#stateKeys(true)) await remove(keys.map(lastPart))
    for await (const keys of this.#stateKeys(false)) {
      const foreign = keys.map(lastPart).filter((stateKey) => !isOwn(stateKey))
      if (foreign.length > 0) await remove(foreign)
    }
  }

  async open(version: number): Promise<void> {
    await this.#setLayout(String(version), '')
  }

  async close(): Promise<void> {
    this.#connection.close()
  }

  async #setLayout(version: string, closedFor: string): Promise<void> {
    if ((await this.#script(SET_LAYOUT, ['meta', MARK], [version, closedFor])) === 1) return
    throw new Error('there is no journal in this Redis; create it first')
  }

  /** The keys of the states that expire, or of those that do not. */
  async *#stateKeys(doExpire: boolean): AsyncGenerator<string[]> {
    for await (const found of this.#scan('state:')) {
      const keys = found.filter((key) => key !== this.#key(MARK))
      const times = await this.#call(() => Promise.all(keys.map((key) => this.#redis.pexpiretime(key))))
      // -1: does not expire; -2: has expired
      const wanted = keys.filter((_, i) => (doExpire ? (times[i] ?? 0) >= 0 : times[i] === -1))
      if (wanted.length > 0) yield wanted
    }
  }

  /** The keys that begin with a name. A key that exists during the whole scan is found, possibly twice. */
  async *#scan(name: string): AsyncGenerator<string[]> {
    let cursor = '0'
    do {
      const [next, keys] = await this.#call(() =>
        this.#redis.scan(cursor, 'MATCH', `${this.#key(name)}*`, 'COUNT', PIECE),
      )
      if (keys.length > 0) yield keys
      cursor = next
    } while (cursor !== '0')
  }

  #key(name: string): string {
    return `${this.#prefix}:${name}`
  }

  async #script(script: string, keys: string[], args: (string | Buffer)[]): Promise<unknown> {
    const names = keys.map((name) => this.#key(name))
    return await this.#call(() => this.#connection.script(script, names, args, this.#replicas))
  }

  async #call<T>(command: () => Promise<T>): Promise<T> {
    try {
      await this.#connection.connected(CONNECTION_WAIT_MS)
      return await command()
    } catch (error) {
      throw asRefusal(error) ?? unavailable(error)
    }
  }
}

const NOTHING = Buffer.alloc(0)

function lastPart(key: string): string {
  return key.slice(key.lastIndexOf(':') + 1)
}

/** @param key `<prefix>:requests:<bucket>:<first bytes of the keys>` */
function requestsIn(key: string, hash: Buffer[], ownId: number): RememberedRequest[] {
  const [bucket, shard = ''] = key.split(':').slice(-2)
  const requests: RememberedRequest[] = []
  for (let i = 0; i < hash.length; i += 2) {
    const [field = NOTHING, value = NOTHING] = hash.slice(i, i + 2)
    const name = Buffer.concat([Buffer.from(shard, 'hex'), field])
    requests.push({ bucket: Number(bucket), key: name, ...parseRequest(value, ownId) })
  }
  return requests
}

/** A request of a version before 0.2, at `<prefix>:request:<key>`: its position and fingerprint, and when it expires. */
function oldRequest(key: string, [value, expiresAt]: [string | null, number], ownId: number): RememberedRequest[] {
  if (value === null || expiresAt <= 0) return []
  const [position = '', fingerprint = ''] = value.split(' ')
  return [
    {
      bucket: bucketAt(expiresAt - IDEMPOTENCY_MEMORY_MS),
      key: Buffer.from(lastPart(key), 'hex').subarray(0, KEY_BYTES),
      fingerprint: Buffer.from(fingerprint, 'hex').subarray(0, FINGERPRINT_BYTES),
      position: parsePosition(position),
      index: 0,
      journalId: ownId,
    },
  ]
}

/** The tiers of a sender's ids that are kept, as INSERT_IDS records them: their buckets, and the names of their hashes. */
function tiersIn(text: string): { bucket: number; hashes: string[] }[] {
  return text
    .split(' ')
    .slice(1)
    .flatMap((tier) => {
      const [name, bucket, , bits, , removed, isDead] = tier.split(':')
      if (isDead === '1') return []
      const hashes = Array.from({ length: 2 ** Number(bits) }, (_, number) => `${name}:${number}`)
      return { bucket: Number(bucket), hashes: hashes.slice(Number(removed)) }
    })
}

function* pieces<T>(all: T[]): Generator<T[]> {
  for (let at = 0; at < all.length; at += PIECE) yield all.slice(at, at + PIECE)
}

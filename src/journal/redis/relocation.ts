import type { Redis } from 'ioredis'
import { OtherVersionError } from '../../contract/errors.js'
import { pieces } from '../../lib/pieces.js'
import { INSERT_ID_BYTES } from '../../model/insert-id.js'
import { formatPosition, type Position, parsePosition, START } from '../../model/position.js'
import { parseSender, senderName } from '../../model/sender.js'
import { formatRequest, parseRequest } from '../idempotency-memory.js'
import { idBucketAt, OLD_ID_BUCKETS } from '../insert-id-memory.js'
import type { Tally } from '../journal.js'
import { parseGuard } from '../layout.js'
import type { JournalStatus, KeptState, Relocation, RememberedIds, RememberedRequest } from '../relocation.js'
import { CONNECTION_WAIT_MS, RedisConnection } from './connection.js'
import { parseState, parseTally, positionFields } from './encoding.js'
import { asRefusal, describeFailedOpen, refusedAccess, unavailable } from './errors.js'
import { RedisHistory } from './history.js'
import { FORMAT, type JournalKeys, journalKeys } from './keys.js'
import type { RedisJournalOptions } from './options.js'
import { type Argument, recordArguments, type Script } from './script.js'
import {
  ADD_INSERT_IDS,
  ADD_REQUESTS,
  ADD_STATES,
  DEPTH,
  KEPT_REQUEST,
  KEPT_STATE,
  LOOK_AT_LAYOUT,
  RAISE,
  READ_HASH,
  REMOVE_STATES,
  SET_LAYOUT,
  SHARD_BYTES,
  TALLY,
} from './scripts.js'

/** How many keys one SCAN step returns, and how many requests or states one script call processes. */
const PIECE = 500

/**
 * Opens the Redis journal of a lane to inspect it or to change the layout. Creates nothing before `create`. Waits up to
 * 2 s for the connection.
 * @throws Error that says what to do, if Redis cannot be reached or used
 */
export async function openRedisRelocation(
  options: Pick<RedisJournalOptions, 'url' | 'prefix' | 'replicas' | 'log'>,
): Promise<Relocation> {
  const relocation = new RedisRelocation(options)
  try {
    await relocation.opened()
  } catch (error) {
    await relocation.close()
    throw describeFailedOpen(error)
  }
  return relocation
}

class RedisRelocation implements Relocation {
  readonly #prefix: string
  readonly #keys: JournalKeys
  readonly #replicas: number
  readonly #connection: RedisConnection
  readonly #redis: Redis
  readonly #history: RedisHistory

  constructor({ url, prefix = '{tallyhouse}', replicas = 0, log }: Parameters<typeof openRedisRelocation>[0]) {
    this.#prefix = prefix
    this.#keys = journalKeys(prefix)
    this.#replicas = replicas
    this.#connection = new RedisConnection({ url, prefix, prepare: async () => undefined, log })
    this.#redis = this.#connection.redis
    this.#redis.on('error', (error) => log.warn({ err: error }, 'the connection to Redis failed'))
    this.#history = new RedisHistory({
      keys: this.#keys,
      others: [],
      // A new journal belongs to no layout yet.
      layout: '0',
      connection: this.#connection,
      lastStored: undefined,
      log,
    })
  }

  async opened(): Promise<void> {
    await this.#connection.connected(CONNECTION_WAIT_MS)
  }

  async readStatus(): Promise<JournalStatus | null> {
    const reply = await this.#run(LOOK_AT_LAYOUT, {})
    const [id, layout, last, format] = (reply as (Buffer | null)[]).map((text) => text && String(text))
    if (!id) return null
    if (format !== FORMAT) throw new OtherVersionError('The journal in Redis', Number(format) > Number(FORMAT))
    const { version, closedFor } = parseGuard(layout)
    const args = { journalId: id, large: String(Number.MAX_SAFE_INTEGER) }
    const depth = (await this.#run(DEPTH, args)) as number[]
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
    return parseTally(await this.#run(TALLY, {}))
  }

  async create(): Promise<void> {
    await this.#call(() => this.#history.adopt())
  }

  async closeIntake(version: number): Promise<void> {
    await this.#setLayout('', String(version))
  }

  async raise(position: Position): Promise<void> {
    await this.#run(RAISE, positionFields(position))
  }

  async *requests(): AsyncGenerator<RememberedRequest[]> {
    const ownId = (await this.readStatus())?.id ?? 0
    for await (const keys of this.#scan('requests:')) {
      const read = (hash: string) => this.#connection.run(READ_HASH, { hash }, {})
      const hashes = (await this.#call(() => Promise.all(keys.map(read)))) as Buffer[][]
      const found = keys.flatMap((key, i) => requestsIn(key, hashes[i] ?? [], ownId))
      if (found.length > 0) yield found
    }
  }

  async addRequests(requests: RememberedRequest[]): Promise<void> {
    const ownId = (await this.readStatus())?.id ?? 0
    for (const piece of pieces(requests, PIECE)) {
      const args = piece.flatMap((request) => {
        const { bucket, key } = request
        return recordArguments(KEPT_REQUEST, {
          bucket: String(bucket),
          shard: key.toString('hex', 0, SHARD_BYTES),
          fieldAndValue: Buffer.concat([key.subarray(SHARD_BYTES), formatRequest(request, ownId)]),
        })
      })
      await this.#run(ADD_REQUESTS, { prefix: this.#prefix }, args)
    }
  }

  async *insertIds(): AsyncGenerator<RememberedIds> {
    // The clock by which the journal forgets, see remembered.lua.
    const remembered = await this.#call(() => this.#redis.hget(this.#key('meta'), 'remembered'))
    const first = idBucketAt(Number(remembered ?? Date.now())) - OLD_ID_BUCKETS
    const index = await this.#call(() => this.#redis.hgetall(this.#key('ids')))
    for (const [name, text] of Object.entries(index)) {
      for (const { bucket, hashes } of tiersIn(text)) {
        if (bucket < first) continue
        for (const piece of pieces(hashes, PIECE)) {
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
      const fields = { sender: senderName(sender), bucket: String(bucket), ids: ids.subarray(at, at + step) }
      await this.#run(ADD_INSERT_IDS, { prefix: this.#prefix, ...fields })
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
    for (const piece of pieces(states, PIECE)) {
      const args = piece.flatMap(({ stateKey, version, state }) =>
        recordArguments(KEPT_STATE, { stateKey, version: formatPosition(version), state }),
      )
      await this.#run(ADD_STATES, { prefix: this.#prefix }, args)
    }
  }

  async keepStates(isOwn: (stateKey: string) => boolean): Promise<void> {
    const remove = (stateKeys: string[]) => this.#run(REMOVE_STATES, { prefix: this.#prefix, last: '' }, stateKeys)
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
    if ((await this.#run(SET_LAYOUT, { version, closedFor })) === 1) return
    throw new Error('there is no journal in this Redis; create it first')
  }

  /** The keys of the states that expire, or of those that do not. */
  async *#stateKeys(doExpire: boolean): AsyncGenerator<string[]> {
    for await (const found of this.#scan('state:')) {
      const keys = found.filter((key) => key !== this.#keys.mark)
      const times = await this.#call(() => Promise.all(keys.map((key) => this.#redis.pexpiretime(key))))
      // -1: does not expire; -2: has expired
      const wanted = keys.filter((_, i) => (doExpire ? (times[i] ?? 0) >= 0 : times[i] === -1))
      if (wanted.length > 0) yield wanted
    }
  }

  /** Lists the keys that begin with a name. A key that exists during the whole scan is found, possibly twice. */
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

  #run<Key extends keyof JournalKeys, Arg extends string>(
    script: Script<Key, Arg>,
    args: Record<Arg, Argument>,
    rest?: readonly Argument[],
  ): Promise<unknown> {
    const options = { rest, replicas: this.#replicas }
    return this.#call(() => this.#connection.run(script, this.#keys, args, options))
  }

  async #call<T>(command: () => Promise<T>): Promise<T> {
    try {
      await this.#connection.connected(CONNECTION_WAIT_MS)
      return await command()
    } catch (error) {
      throw refusedAccess(error) ?? asRefusal(error) ?? unavailable(error)
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

/** The buckets, and the names of the hashes, of a sender's living tiers: see shared/insert-ids.lua. */
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

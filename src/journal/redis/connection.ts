import { createHash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Redis, RedisOptions } from 'ioredis'
import { backoffMs } from '../../lib/backoff.js'
import { BinaryCommand } from './binary-command.js'
import { isReply, refusedAccess, unavailable } from './errors.js'
import { openRedis } from './open.js'

/** How long a call waits for a connection before it is refused, ms. */
export const CONNECTION_WAIT_MS = 2_000
const COMMAND_TIMEOUT_MS = 5_000
const RETRY_PAUSE_MS = 50
/** How long a script waits until enough replicas have its writes, ms. */
const REPLICAS_WAIT_MS = 1_000

export const OPTIONS = {
  // After a lost connection, ioredis would resend commands by itself and so write twice; the journal knows how to resend.
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  enableOfflineQueue: false,
  commandTimeout: COMMAND_TIMEOUT_MS,
  // A connection that a firewall has silently dropped would otherwise accept commands forever.
  socketTimeout: COMMAND_TIMEOUT_MS,
  connectTimeout: COMMAND_TIMEOUT_MS,
  keepAlive: 30_000,
  retryStrategy: (times: number) => backoffMs({ firstMs: 100, maxMs: 1_000 }, times),
} satisfies RedisOptions

/** Too few replicas confirmed a script in time; whether it survives the loss of its master is open. */
class ReplicasError extends Error {
  override readonly name = 'ReplicasError'
}

export interface ConnectionOptions {
  /** see RedisJournalOptions */
  url: string | readonly string[]
  prefix: string
  /** checks whether the Redis behind a new connection may be used; retried while it throws */
  prepare(): Promise<void>
  log: { warn(data: object, message: string): void }
}

/** A connection that is used only after `prepare` has checked the Redis behind it, each time that it is established. */
export class RedisConnection {
  readonly redis: Redis
  readonly #prepare: () => Promise<void>
  #isReady = false
  /** called when the connection can be used */
  readonly #waiting = new Set<() => void>()
  #lastError: unknown = null
  readonly #log: ConnectionOptions['log']
  readonly #isCluster: boolean

  constructor({ url, prefix, prepare, log }: ConnectionOptions) {
    this.#prepare = prepare
    this.#log = log
    this.#isCluster = typeof url !== 'string'
    this.redis = openRedis(url, OPTIONS, prefix)
    this.redis.on('ready', () => this.#begin())
    // With a refused login the connection is closed before it is ready, so this is the only place to learn the reason.
    this.redis.on('error', (error) => {
      if (refusedAccess(error)) this.#lastError = error
    })
    this.redis.on('close', () => {
      this.#isReady = false
    })
  }

  get isReady(): boolean {
    return this.#isReady
  }

  async #begin(): Promise<void> {
    const { stream } = this.redis
    const isCurrent = () => this.redis.status === 'ready' && this.redis.stream === stream
    while (isCurrent()) {
      try {
        await this.#prepare()
        // If the connection was replaced meanwhile, its own 'ready' event prepares the new one.
        if (!isCurrent()) return
        this.#isReady = true
        this.#lastError = null
        for (const told of this.#waiting) told()
        return
      } catch (error) {
        if (this.#lastError === null) this.#log.warn({ err: error }, 'Redis cannot be used yet, retrying')
        this.#lastError = error
        await wait(RETRY_PAUSE_MS, undefined, { ref: false })
      }
    }
  }

  /** @throws ApiError `unavailable` if no usable connection is established within `limitMs` */
  async connected(limitMs: number): Promise<void> {
    if (this.#isReady) return
    await new Promise<void>((resolve, reject) => {
      const told = () => {
        clearTimeout(timer)
        this.#waiting.delete(told)
        resolve()
      }
      const timer = setTimeout(() => {
        this.#waiting.delete(told)
        reject(unavailable(this.#lastError ?? new Error(`no connection to Redis within ${limitMs} ms`)))
      }, limitMs)
      this.#waiting.add(told)
    })
  }

  /** Sends commands in one system call, and at once: the caller has more to do in this turn of the event loop. */
  cork<T>(send: () => T): T {
    const { stream } = this.redis
    stream.cork()
    try {
      return send()
    } finally {
      stream.uncork()
    }
  }

  /**
   * Runs a script by its digest, or by its text if Redis does not have it yet.
   * @param replicas how many must have its writes before this resolves; with 0, no WAIT is sent
   * @throws ReplicasError if too few confirmed it in time
   */
  async script(script: string, keys: string[], args: (string | Buffer)[], replicas = 0): Promise<unknown> {
    const text = this.#isCluster ? inCluster(script) : script
    const rest = [String(keys.length), ...keys, ...args]
    try {
      return await this.#send('EVALSHA', [digest(text), ...rest], replicas)
    } catch (error) {
      if (!(isReply(error) && error.message.startsWith('NOSCRIPT'))) throw error
      return await this.#send('EVAL', [text, ...rest], replicas)
    }
  }

  #send(command: string, args: (string | Buffer)[], replicas: number): Promise<unknown> {
    return this.cork(() => {
      const sent = new BinaryCommand(command, args)
      const reply = this.redis.sendCommand(sent) as Promise<unknown>
      if (replicas === 0) return reply
      // Right behind it on the same connection: WAIT covers what was written there before.
      const known = this.redis.call('WAIT', String(replicas), String(REPLICAS_WAIT_MS))
      known.catch(() => undefined)
      return reply.then(async (value) => {
        const count = Number(await known)
        if (count >= replicas) return value
        throw new ReplicasError(`${count} of ${replicas} replicas know of the write after ${REPLICAS_WAIT_MS} ms`)
      })
    })
  }

  close(): void {
    this.redis.disconnect()
  }
}

/** Lua: refuses to begin while the slot moves to another node. KEYS[1] is any key of the slot. */
const WHOLE_SLOT = `local probe = redis.pcall('EXISTS', KEYS[1] .. ':none')
if type(probe) == 'table' then return redis.error_reply('TRYAGAIN the slot is being moved: ' .. probe.err) end
`

/**
 * A script for a Redis Cluster. The scripts build most key names themselves, so Redis does not know in advance which keys a
 * script needs: while a slot is being moved, it would stop the script at the first key that it does not have, and what was
 * written so far would stay. Looking for a key that does not exist shows at the start whether the slot is being moved.
 */
function inCluster(script: string): string {
  const line = script.startsWith('#!') ? script.indexOf('\n') + 1 : 0
  return script.slice(0, line) + WHOLE_SLOT + script.slice(line)
}

const digests = new Map<string, string>()

/** The name of a script for EVALSHA: SHA-1 of its text. */
function digest(script: string): string {
  let known = digests.get(script)
  if (known === undefined) {
    known = createHash('sha1').update(script).digest('hex')
    digests.set(script, known)
  }
  return known
}

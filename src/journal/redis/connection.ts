import { setTimeout as wait } from 'node:timers/promises'
import type { Redis, RedisOptions } from 'ioredis'
import { backoffMs } from '../../lib/backoff.js'
import { BinaryCommand } from './binary-command.js'
import { isReply, refusedAccess, unavailable } from './errors.js'
import { openRedis } from './open.js'
import type { Argument, Script } from './script.js'

/** How long a call waits for a connection before it is refused, ms. */
export const CONNECTION_WAIT_MS = 2_000
const COMMAND_TIMEOUT_MS = 5_000
const RETRY_PAUSE_MS = 50
/** How long a script waits until enough replicas have its writes, ms. */
const REPLICAS_WAIT_MS = 1_000

export const OPTIONS = {
  // After a lost connection, ioredis would resend commands and so write twice. The journal resends them itself, safely.
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

/** Too few replicas confirmed a script in time; whether it survives the loss of its master is unknown. */
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
    // After a refused login the connection is closed before it is ready, so only this event has the reason.
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
        // If the connection was replaced in the meantime, the new one is prepared by its own 'ready' event.
        if (!isCurrent()) return
        this.#isReady = true
        this.#lastError = null
        for (const onReady of this.#waiting) onReady()
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
      const onReady = () => {
        clearTimeout(timer)
        this.#waiting.delete(onReady)
        resolve()
      }
      const timer = setTimeout(() => {
        this.#waiting.delete(onReady)
        reject(unavailable(this.#lastError ?? new Error(`no connection to Redis within ${limitMs} ms`)))
      }, limitMs)
      this.#waiting.add(onReady)
    })
  }

  /** Sends commands in one system call, and immediately: the caller has more to do in this turn of the event loop. */
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
   * @param keys at least those that the script names
   * @param args the named arguments of the script
   * @param rest the arguments after the named ones
   * @param replicas how many must have its writes before this resolves; with 0, no WAIT is sent
   * @throws ReplicasError if too few confirmed it in time
   */
  async run<Key extends string, Arg extends string>(
    script: Script<Key, Arg>,
    keys: Record<Key, string>,
    args: Record<Arg, Argument>,
    { rest = [], replicas = 0 }: { rest?: readonly Argument[] | undefined; replicas?: number } = {},
  ): Promise<unknown> {
    const { text, digest } = this.#isCluster ? script.cluster : script.single
    const sent: Argument[] = [digest, String(script.keys.length)]
    for (const name of script.keys) sent.push(keys[name])
    for (const name of script.args) sent.push(args[name])
    for (const argument of rest) sent.push(argument)
    try {
      return await this.#send('EVALSHA', sent, replicas)
    } catch (error) {
      if (!(isReply(error) && error.message.startsWith('NOSCRIPT'))) throw error
      return await this.#send('EVAL', sent.with(0, text), replicas)
    }
  }

  #send(command: string, args: Argument[], replicas: number): Promise<unknown> {
    return this.cork(() => {
      const sent = new BinaryCommand(command, args)
      const reply = this.redis.sendCommand(sent) as Promise<unknown>
      if (replicas === 0) return reply
      // Sent right after it on the same connection, because WAIT covers earlier writes of its connection.
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

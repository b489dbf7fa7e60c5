import { createHash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Redis, RedisOptions } from 'ioredis'
import { backoffMs } from '../../lib/backoff.js'
import { openRedis } from '../../lib/open-redis.js'
import { isReply, unavailable } from './errors.js'

const COMMAND_TIMEOUT_MS = 5_000
const RETRY_PAUSE_MS = 50
/** How long a step waits for the replicas that have to know of it. */
const REPLICAS_WAIT_MS = 1_000

export const OPTIONS = {
  // ioredis would repeat commands by itself after a lost connection, and so write twice; the journal does it knowingly.
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  enableOfflineQueue: false,
  commandTimeout: COMMAND_TIMEOUT_MS,
  // A connection on which nothing comes back any more, as behind a firewall that forgot it, would take commands for ever.
  socketTimeout: COMMAND_TIMEOUT_MS,
  connectTimeout: COMMAND_TIMEOUT_MS,
  keepAlive: 30_000,
  retryStrategy: (times: number) => backoffMs({ firstMs: 100, maxMs: 1_000 }, times),
} satisfies RedisOptions

/** Fewer replicas than wanted said in time that they know of a step; whether it will outlive its master is open. */
export class ReplicasError extends Error {
  override readonly name = 'ReplicasError'
}

/** A connection that is used only after `join` has looked at what is behind it, each time that it is made anew. */
export class RedisConnection {
  readonly redis: Redis
  readonly #join: () => Promise<void>
  #isJoined = false
  /** told when the connection can be used */
  readonly #waiting = new Set<() => void>()
  #lastError: unknown = null

  /** @param join decides whether the Redis behind a new connection may be used; where it throws, it is asked again */
  constructor(url: string, join: () => Promise<void>) {
    this.#join = join
    this.redis = openRedis(url, OPTIONS)
    this.redis.on('ready', () => this.#begin())
    this.redis.on('close', () => {
      this.#isJoined = false
    })
  }

  async #begin(): Promise<void> {
    const { stream } = this.redis
    const isCurrent = () => this.redis.status === 'ready' && this.redis.stream === stream
    while (isCurrent()) {
      try {
        await this.#join()
        // Else the next connection begins anew.
        if (!isCurrent()) return
        this.#isJoined = true
        this.#lastError = null
        for (const told of this.#waiting) told()
        return
      } catch (error) {
        this.#lastError = error
        await wait(RETRY_PAUSE_MS, undefined, { ref: false })
      }
    }
  }

  /** @throws ContractError `unavailable` where there is no connection that can be used within `limitMs` */
  async connected(limitMs: number): Promise<void> {
    if (this.#isJoined) return
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

  /** Sends commands in one system call, and at once: whoever writes has more to do in this turn of the event loop. */
  together<T>(send: () => T): T {
    const { stream } = this.redis
    stream.cork()
    try {
      return send()
    } finally {
      stream.uncork()
    }
  }

  /**
   * Runs a script by its digest, or by its text where Redis does not know it yet.
   * @param replicas that have to know what it wrote before this resolves; 0 sends nothing more
   * @throws ReplicasError where too few did in time
   */
  async script(script: string, keys: string[], args: (string | Buffer)[], replicas = 0): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...args]
    try {
      return await this.#send('EVALSHA', [digest(script), ...rest], replicas)
    } catch (error) {
      if (!(isReply(error) && error.message.startsWith('NOSCRIPT'))) throw error
      return await this.#send('EVAL', [script, ...rest], replicas)
    }
  }

  #send(command: string, args: (string | Buffer)[], replicas: number): Promise<unknown> {
    if (replicas === 0) return this.redis.callBuffer(command, args)
    return this.together(() => {
      const answer = this.redis.callBuffer(command, args)
      // Right behind it on the same connection: WAIT is about all that was written there before.
      const known = this.redis.call('WAIT', String(replicas), String(REPLICAS_WAIT_MS))
      known.catch(() => undefined)
      return answer.then(async (value) => {
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

const digests = new Map<string, string>()

/** As EVALSHA names a script: SHA-1 of its text. */
function digest(script: string): string {
  let known = digests.get(script)
  if (known === undefined) {
    known = createHash('sha1').update(script).digest('hex')
    digests.set(script, known)
  }
  return known
}

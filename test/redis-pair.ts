import { Redis } from 'ioredis'
import { TcpProxy } from './delivery/tcp-proxy.js'
import { type RedisServer, type Scope, startRedis, until } from './helper.js'

/** So that a replica does not wait 5 s for others that could share its first copy. */
const AT_ONCE = ['--repl-diskless-sync-delay', '0']

/** A Redis with a replica, behind one address that leads to the master. */
export class RedisPair {
  master: RedisServer
  replica: RedisServer
  readonly proxy: TcpProxy
  readonly #t: Scope

  readonly #lagMs: number

  private constructor(t: Scope, master: RedisServer, replica: RedisServer, proxy: TcpProxy, lagMs: number) {
    this.#t = t
    this.#lagMs = lagMs
    this.master = master
    this.replica = replica
    this.proxy = proxy
  }

  /** @param lagMs how far the replica lags behind, ms */
  static async start(t: Scope, lagMs = 0): Promise<RedisPair> {
    const master = await startRedis(t, AT_ONCE)
    const replica = await startReplica(t, master, lagMs)
    const pair = new RedisPair(t, master, replica, await TcpProxy.open(t, master.url), lagMs)
    await pair.synchronise()
    return pair
  }

  get url(): string {
    return this.proxy.url
  }

  /** Waits until the replica has everything that the master has. */
  async synchronise(): Promise<void> {
    await asked(this.master, async (redis) => {
      await until('the replica', async () => {
        // A write of this connection, because WAIT covers only those.
        await redis.publish('synchronise', '')
        return (await redis.wait(1, 2_000)) === 1
      })
    })
  }

  /** From now on, the replica receives nothing: it lags. It is already a master, but nobody uses it. */
  async detach(): Promise<void> {
    await this.synchronise()
    await asked(this.replica, (redis) => redis.replicaof('NO', 'ONE'))
  }

  /** Lets the master assign positions as if its clock showed this time, epoch ms. */
  async setClock(ms: number): Promise<void> {
    await asked(this.master, (redis) => redis.hset('{tallyhouse}:meta', 'ms', ms))
  }

  /** Makes the detached server a replica again, which copies the data of the master. */
  async attach(): Promise<void> {
    const { hostname, port } = new URL(this.master.url)
    await asked(this.replica, (redis) => redis.replicaof(hostname, Number(port)))
  }

  /** Kills the master, and lets the replica replace it with the data that it has received. */
  async failOver(): Promise<void> {
    this.proxy.cut()
    await this.master.kill()
    await asked(this.replica, (redis) => redis.replicaof('NO', 'ONE'))
    this.master = this.replica
    this.proxy.moveTo(this.master.url)
  }

  /** Adds a replica in place of the one that became the master. */
  async addReplica(): Promise<void> {
    this.replica = await startReplica(this.#t, this.master, this.#lagMs)
    await this.synchronise()
  }
}

async function startReplica(t: Scope, master: RedisServer, lagMs: number): Promise<RedisServer> {
  const link = lagMs > 0 ? await TcpProxy.open(t, master.url) : null
  if (link) link.delayMs = lagMs
  const { hostname, port } = new URL(link?.url ?? master.url)
  return await startRedis(t, [...AT_ONCE, '--replicaof', hostname, port])
}

async function asked<T>({ url }: RedisServer, ask: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(url)
  try {
    return await ask(redis)
  } finally {
    redis.disconnect()
  }
}

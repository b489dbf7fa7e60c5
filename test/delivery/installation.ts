import {
  PUBLIC_KEY,
  type RedisServer,
  type Scope,
  SECRET_KEY,
  type Service,
  startRedis,
  startService,
  temporaryFolder,
  until,
} from '../helper.js'
import { type Node, startNodes } from '../nodes.js'
import { clockOffset } from './clock-offset.js'
import { enginePid } from './servers.js'
import { TcpProxy } from './tcp-proxy.js'

/** Offsets of the clocks of the Redis servers of the lanes, seconds. */
const CLOCKS = [0, 5, -5]

export type Kind = 'service' | 'redis' | 'clickhouse'

/** A process that can be killed at any time, and is restarted. */
export interface Victim {
  kind: Kind
  /** such as `redis 1` */
  name: string
  /** undefined while there is no process */
  pid(): number | undefined
  /** SIGKILL; resolves when it serves again */
  kill(): Promise<void>
}

/** A Redis or a ClickHouse, and the link through which the services reach it. */
export interface Backend<Server> {
  server: Server
  link: TcpProxy
}

export interface Shape {
  /** number of lanes, each on a separate Redis; 0: a single service with embedded storage */
  lanes: number
  /** ClickHouse servers; default: one per lane */
  shards?: number
  /** processes; default 1 */
  services?: number
  /** further settings of a service, by its number */
  env?: (service: number) => Record<string, string>
}

/**
 * The parts of an installation as separate processes, with links between them that can be cut and slowed down. The
 * clocks of the Redis servers differ by some seconds if `faketime` is installed.
 */
export class Installation {
  readonly redis: Backend<RedisServer>[]
  readonly clickhouse: Backend<Node>[]
  readonly victims: Victim[]
  readonly #services: Service[] = []
  /** the logs of killed services */
  #log = ''

  private constructor(redis: Backend<RedisServer>[], clickhouse: Backend<Node>[], victims: Victim[]) {
    this.redis = redis
    this.clickhouse = clickhouse
    this.victims = victims
  }

  static async start(t: Scope, { lanes, shards = lanes, services = 1, env }: Shape): Promise<Installation> {
    const [nodes, redises] = await Promise.all([
      startNodes(t, shards),
      Promise.all(Array.from({ length: lanes }, (_, i) => startRedis(t, [], '', clockOffset(CLOCKS[i % 3] ?? 0)))),
    ])
    const redis = await Promise.all(redises.map((server) => linked(t, server)))
    const clickhouse = await Promise.all(nodes.map((node) => linked(t, node)))
    const installation = new Installation(redis, clickhouse, [])
    const dataDir = await temporaryFolder(t)
    const start = async (number: number) => {
      const settings = {
        PUBLIC_API_KEY: PUBLIC_KEY,
        SECRET_KEY,
        LOG_LEVEL: 'error',
        DATA_DIR: dataDir,
        ...(lanes > 0 && { REDIS_URL: urls(redis), CLICKHOUSE_URL: urls(clickhouse) }),
        ...env?.(number),
      }
      installation.#services[number] = await startService(t, settings)
    }
    // The first one creates the store.
    await start(0)
    await Promise.all(Array.from({ length: services - 1 }, (_, i) => start(i + 1)))
    installation.#addVictims(start)
    if (lanes === 0) installation.#addEmbedded(dataDir)
    return installation
  }

  /** The number of services. */
  get services(): number {
    return this.#services.length
  }

  service(number = 0): Service {
    const service = this.#services[number]
    if (!service) throw new Error(`there is no service ${number}`)
    return service
  }

  /** The URL of a service, which changes with each restart. */
  url(service = 0): string {
    return this.service(service).url
  }

  /** The logs of all services so far. */
  get log(): string {
    return this.#log + this.#services.map((service) => service.output()).join('')
  }

  #addVictims(start: (service: number) => Promise<void>): void {
    for (const number of this.#services.keys()) {
      const kill = async () => {
        const { process, ended, output } = this.service(number)
        process.kill('SIGKILL')
        await ended
        this.#log += output()
        // It may give up before a Redis or a ClickHouse that was killed, too, is back.
        let failure: unknown
        const isStarted = () =>
          start(number).then(
            () => true,
            (error) => {
              failure = error
              return false
            },
          )
        await until(`service ${number} to start again`, isStarted).catch((error: Error) => {
          throw new Error(error.message, { cause: failure })
        })
      }
      const pid = () => this.service(number).process.pid
      this.victims.push({ kind: 'service', name: `service ${number}`, pid, kill })
    }
    for (const [number, { server }] of this.redis.entries()) {
      const kill = async () => {
        await server.kill()
        await server.restart()
      }
      this.victims.push({ kind: 'redis', name: `redis ${number}`, pid: () => server.process.pid, kill })
    }
    for (const [number, { server }] of this.clickhouse.entries()) {
      const { pid, crash: kill } = server
      this.victims.push({ kind: 'clickhouse', name: `clickhouse ${number}`, pid, kill })
    }
  }

  /** Adds the embedded engine, a child of the service, which restarts it. */
  #addEmbedded(dataDir: string): void {
    const kill = async () => {
      try {
        process.kill(await enginePid(dataDir), 'SIGKILL')
      } catch {
        // It is just being started.
      }
    }
    this.victims.push({ kind: 'clickhouse', name: 'clickhouse', pid: () => undefined, kill })
  }
}

async function linked<Server extends { url: string }>(t: Scope, server: Server): Promise<Backend<Server>> {
  return { server, link: await TcpProxy.open(t, server.url) }
}

function urls(backends: Backend<unknown>[]): string {
  return backends.map(({ link }) => link.url).join(',')
}

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { startEmbeddedClickHouse } from '../src/clickhouse/embedded/engine.js'
import { USER } from '../src/clickhouse/embedded/engine-config.js'
import { freePort } from '../src/lib/free-port.js'
import { type Scope, silent, temporaryFolder, until } from './helper.js'

/** One ClickHouse of several, which the others reach by its native port. */
export interface Node {
  /** of its HTTP interface, with the password, as for CLICKHOUSE_URL */
  url: string
  /** its folder, which stays when it is restarted */
  path: string
  nativePort: number
  pid(): number | undefined
  /** Stops it; it is not restarted automatically. */
  stop(): Promise<void>
  /** Starts it again, on the same ports, with its data. */
  start(): Promise<void>
  /** Kills its process; it is restarted automatically, as after a crash. Resolves when it answers again. */
  crash(): Promise<void>
  /** Resolves when it answers, by HTTP and to other nodes. */
  untilUp(): Promise<void>
}

export interface NodeOptions {
  /** the password of all shards of a store */
  password?: string
  /** whether its users may read other servers, as shards need it; default true */
  mayReadRemote?: boolean
  /** the rights of its users in SQL; default: those that `mayReadRemote` implies */
  grants?: string[]
  /** whether it listens on its native port; default true */
  isNative?: boolean
  /** folder of the data; default: one that is removed at the end */
  path?: string
}

/**
 * Real ClickHouses that can be the shards of one store: engines with a native port. They are supervised, because
 * libchdb aborts when a peer of its native protocol resets a connection; half a second later they are up again.
 */
export async function startNodes(t: Scope, count: number, options: NodeOptions = {}): Promise<Node[]> {
  return await Promise.all(Array.from({ length: count }, () => startNode(t, options)))
}

/** The value of CLICKHOUSE_URL for a store of these shards. */
export function shardsUrl(nodes: Node[]): string {
  return nodes.map(({ url }) => url).join(',')
}

/** Number of free ports to try: another process may take one before the engine listens on it. */
const MAX_PORTS = 5

/** Starts one such ClickHouse. */
export async function startNode(t: Scope, options: NodeOptions = {}): Promise<Node> {
  for (let attempts = 1; ; attempts++) {
    try {
      return await startOnFreePorts(t, options)
    } catch (error) {
      const isPortTaken = (error as { failure?: unknown }).failure === 'port'
      if (!isPortTaken || attempts === MAX_PORTS) throw error
    }
  }
}

async function startOnFreePorts(t: Scope, options: NodeOptions): Promise<Node> {
  const { password = 'of-all-nodes', mayReadRemote = true, isNative = true } = options
  const path = options.path ?? (await temporaryFolder(t))
  const [port, nativePort] = await Promise.all([freePort(), freePort()])
  const grants = options.grants ?? [
    'GRANT ALL ON *.*',
    'REVOKE SOURCES ON *.*',
    ...(mayReadRemote ? ['GRANT REMOTE ON *.*'] : []),
  ]
  await configure(path, isNative ? nativePort : null, grants)
  const url = `http://${USER}:${password}@127.0.0.1:${port}/analytics`
  /** After a restart it may not listen on the native port. */
  const isUp = async () => {
    const canRead = await canBeRead(url, isNative && mayReadRemote ? `127.0.0.1:${nativePort}` : null, password).catch(
      () => false,
    )
    if (isNative && !(canRead && mayReadRemote)) await ask(url, 'SYSTEM START LISTEN TCP').catch(() => undefined)
    return canRead
  }
  const untilUp = async () => {
    await until('the node to answer', isUp)
  }
  const log = {
    ...silent,
    info: (_details: unknown, message?: string) => {
      if (message?.endsWith('up again')) untilUp().catch(() => undefined)
    },
  }
  const launch = () => startEmbeddedClickHouse({ path, port, password, log })
  let engine = await launch()
  t.teardown(() => engine.close())
  await untilUp()
  return {
    url,
    path,
    nativePort,
    pid: () => engine.pid(),
    stop: () => engine.close(),
    start: async () => {
      engine = await launch()
      await untilUp()
    },
    crash: async () => {
      const pid = engine.pid()
      if (pid !== undefined) process.kill(pid, 'SIGKILL')
      await until(
        'another process',
        () => engine.pid() !== pid && engine.pid() !== undefined && engine.state() === 'up',
      )
      await untilUp()
    },
    untilUp,
  }
}

/**
 * ClickHouse merges the files of `conf.d` into the configuration that the service writes. Like the configuration of a
 * server, and unlike that of the library, it requires grants for most system tables.
 */
async function configure(path: string, nativePort: number | null, grants: string[]): Promise<void> {
  await mkdir(join(path, 'conf.d'), { recursive: true })
  const port = nativePort === null ? '' : `<tcp_port>${nativePort}</tcp_port>`
  const access =
    '<access_control_improvements><select_from_system_db_requires_grant>true</select_from_system_db_requires_grant></access_control_improvements>'
  const queries = grants.map((grant) => `<query>${grant}</query>`).join('')
  const users = `<users><${USER}><grants replace="replace">${queries}</grants></${USER}></users>`
  await writeFile(join(path, 'conf.d', 'node.xml'), `<clickhouse>${access}${port}${users}</clickhouse>`)
}

/** Whether it answers, also on its native port, unless it may not read from itself. */
async function canBeRead(url: string, address: string | null, password: string): Promise<boolean> {
  if (address === null) return (await ask(url, 'SELECT 1')) === '1\n'
  const answer = await ask(url, `SELECT 1 FROM remote('${address}', system.one, '${USER}', '${password}')`)
  return answer === '1\n'
}

async function ask(url: string, query: string): Promise<string> {
  const { origin, username, password } = new URL(url)
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
  const options = { method: 'POST', body: query, headers: { authorization, connection: 'close' } }
  const response = await fetch(origin, { ...options, signal: AbortSignal.timeout(60_000) })
  return await response.text()
}

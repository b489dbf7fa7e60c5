import { Redis } from 'ioredis'
import { freePort, type RedisServer, randomName, type Scope, startRedis, until } from './helper.js'

const SLOTS = 16384
/** How long a node may be silent before the others consider it dead. */
const NODE_TIMEOUT_MS = 1_000

interface Node {
  server: RedisServer
  admin: Redis
  id: string
  port: number
  clusterPort: number
}

/** Real nodes of a Redis Cluster on this machine, each with an equal number of slots. */
export class RedisCluster {
  readonly nodes: readonly Node[]
  readonly #t: Scope

  private constructor(t: Scope, nodes: Node[]) {
    this.#t = t
    this.nodes = nodes
  }

  static async start(t: Scope, count: number): Promise<RedisCluster> {
    const nodes = await Promise.all(Array.from({ length: count }, () => startNode(t)))
    const share = Math.ceil(SLOTS / count)
    await Promise.all(
      nodes.map(async ({ admin }, i) => {
        await admin.call('CLUSTER', 'ADDSLOTSRANGE', i * share, Math.min(SLOTS, (i + 1) * share) - 1)
        await admin.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1)
      }),
    )
    const cluster = new RedisCluster(t, nodes)
    for (const node of nodes.slice(1)) await cluster.#join(node)
    await cluster.#isWhole()
    return cluster
  }

  get urls(): string[] {
    return this.nodes.map(({ server }) => server.url)
  }

  node(i: number): Node {
    const node = this.nodes[i]
    if (!node) throw new Error(`there is no node ${i}`)
    return node
  }

  /** A prefix of keys whose slot is on a node, as long as no slot was moved. */
  async prefixOn(i: number): Promise<string> {
    const share = Math.ceil(SLOTS / this.nodes.length)
    for (;;) {
      const prefix = `{${randomName('lane')}}`
      if (Math.floor((await this.#slot(prefix)) / share) === i) return prefix
    }
  }

  /** Moves the slot of a key and everything in it, some keys at a time. */
  async moveSlot(key: string, from: number, to: number, betweenSteps = async () => {}): Promise<void> {
    const slot = await this.#slot(key)
    const [source, target] = [this.node(from), this.node(to)]
    await target.admin.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', source.id)
    await source.admin.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', target.id)
    await betweenSteps()
    for (;;) {
      const keys = (await source.admin.call('CLUSTER', 'GETKEYSINSLOT', slot, 3)) as string[]
      if (keys.length === 0) break
      await source.admin.call('MIGRATE', '127.0.0.1', target.port, '', 0, 5000, 'KEYS', ...keys)
      await betweenSteps()
    }
    for (const { admin } of [target, source]) await admin.call('CLUSTER', 'SETSLOT', slot, 'NODE', target.id)
  }

  /** Adds replicas of a node, one of which replaces it if it dies. */
  async addReplicas(of: number, count: number): Promise<void> {
    const master = this.node(of)
    for (let i = 0; i < count; i++) {
      const { admin } = await this.#join(await startNode(this.#t))
      await until('the replica to know its master', async () => {
        return (await admin.call('CLUSTER', 'REPLICATE', master.id).catch(() => null)) === 'OK'
      })
    }
    await until('the replicas', async () => {
      // A write on this connection, because WAIT covers only those.
      await master.admin.publish('synchronise', '')
      return (await master.admin.wait(count, 500)) === count
    })
    await until('the others to know the replicas', async () => {
      const known = await Promise.all(this.nodes.map(({ admin }) => admin.call('CLUSTER', 'REPLICAS', master.id)))
      return known.every((replicas) => (replicas as string[]).length === count)
    })
  }

  async #slot(key: string): Promise<number> {
    return Number(await this.node(0).admin.call('CLUSTER', 'KEYSLOT', key))
  }

  async #join(node: Node): Promise<Node> {
    const { port, clusterPort } = this.node(0)
    await node.admin.call('CLUSTER', 'MEET', '127.0.0.1', port, clusterPort)
    return node
  }

  /** Waits until every node serves, and knows all nodes with slots. */
  async #isWhole(): Promise<void> {
    await until('the cluster', async () => {
      const infos = await Promise.all(this.nodes.map(({ admin }) => admin.call('CLUSTER', 'INFO').then(String)))
      return infos.every((info) => info.includes('state:ok') && info.includes(`cluster_size:${this.nodes.length}`))
    })
  }
}

async function startNode(t: Scope): Promise<Node> {
  const clusterPort = await freePort()
  const options = ['--cluster-enabled', 'yes', '--cluster-port', clusterPort, '--cluster-node-timeout', NODE_TIMEOUT_MS]
  const server = await startRedis(t, [...options, '--repl-diskless-sync-delay', 0].map(String))
  const admin = new Redis(server.url)
  admin.on('error', () => undefined)
  t.teardown(() => admin.disconnect())
  return {
    server,
    admin,
    id: String(await admin.call('CLUSTER', 'MYID')),
    port: Number(new URL(server.url).port),
    clusterPort,
  }
}

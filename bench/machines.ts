import { readFile } from 'node:fs/promises'
import { setTimeout as wait } from 'node:timers/promises'
import { type MachineUse, untilVisible } from './benchmark.js'
import type { Servers } from './servers.js'
import type { CpuGroup } from './shares.js'
import { Store } from './store.js'

/** The unit of /proc/PID/stat, which is the same on every Linux. */
const TICKS_PER_SECOND = 100
/** attempts at a measurement, which a restart would distort */
const ATTEMPTS = 4
const READY_LIMIT_MS = 30_000
const READY_POLL_MS = 200

export const PARTS = ['service', 'redis', 'clickhouse'] as const
export type Part = (typeof PARTS)[number]

/**
 * A simulated small machine: Redis, the service and ClickHouse of one lane, which together may use a share of a core.
 */
interface Machine {
  url: string
  /** the process of each part; an aborted ClickHouse is restarted */
  pid: Record<Part, () => number | undefined>
  store: Store
  group: CpuGroup
}

/** Machines that are under load at the same time. */
export class Machines {
  readonly all: readonly Machine[]
  readonly #layout: MachineUse

  constructor(all: Machine[], layout: MachineUse) {
    this.all = all
    this.#layout = layout
  }

  get urls(): string[] {
    return this.all.map(({ url }) => url)
  }

  /** The URLs at which a reader finds all events, one for each store. */
  get readers(): string[] {
    return this.#layout === 'cells' ? this.urls : this.urls.slice(0, 1)
  }

  /** @param share of one core, for each machine; null for no limit */
  limit(share: number | null): void {
    for (const { group } of this.all) group.limit(share)
  }

  async untilVisible(): Promise<void> {
    await Promise.all(this.readers.map((url) => untilVisible(url)))
  }

  async quiet(): Promise<void> {
    await Promise.all(this.all.map(({ store }) => store.quiet()))
  }

  async count(): Promise<number> {
    const counts = await Promise.all(this.all.map(({ store }) => store.count()))
    return counts.reduce((sum, count) => sum + count, 0)
  }

  /**
   * Repeats a measurement during which a process was restarted, because libchdb as a server aborts when a peer resets
   * its connection. @throws Error if that happens again and again, and whatever `measure` throws if no process was
   * restarted
   */
  async steadily<Result>(measure: () => Promise<Result>): Promise<Result> {
    for (let attempt = 1; ; attempt++) {
      const before = this.#adopt()
      try {
        const result = await measure()
        if (this.#adopt() === before) return result
      } catch (error) {
        if (this.#adopt() === before) throw error
      }
      if (attempt === ATTEMPTS) throw new Error(`a process was restarted in each of ${ATTEMPTS} measurements`)
      await Promise.all(this.urls.map(untilReady))
    }
  }

  /** Puts each process into the group of its machine. @returns an identifier of the set of processes */
  #adopt(): string {
    const pids = this.all.flatMap(({ group, pid }) =>
      PARTS.map((part) => {
        const id = pid[part]()
        if (id !== undefined) group.add(id)
        return id
      }),
    )
    return pids.join()
  }

  /**
   * CPU time of all machines so far, by part, µs.
   * @throws Error if a process has ended
   */
  async cpu(): Promise<Record<Part, number>> {
    const used = { service: 0, redis: 0, clickhouse: 0 }
    for (const { pid } of this.all) {
      for (const part of PARTS) used[part] += await cpuOf(pid[part]())
    }
    return used
  }
}

/** Starts machines, without a limit so that they start quickly; `servers` ends them. */
export async function openMachines(
  servers: Servers,
  cpu: CpuGroup,
  count: number,
  layout: MachineUse,
): Promise<Machines> {
  const groups = Array.from({ length: count }, (_, i) => cpu.group(String(i)))
  for (const group of groups) servers.onClose(() => group.close())
  const redis = await Promise.all(groups.map(() => servers.redis()))
  const engines = await Promise.all(groups.map(() => servers.node()))
  const open = async (group: CpuGroup, i: number): Promise<Machine> => {
    const [ownRedis, engine] = [itemOf(redis, i), itemOf(engines, i)]
    const isAlone = layout === 'cells' || count === 1
    const service = isAlone
      ? await servers.tallyhouse(engine.url, { REDIS_URL: ownRedis.url })
      : await servers.tallyhouse(engines.map(({ url }) => url).join(','), {
          REDIS_URL: redis.map(({ url }) => url).join(','),
          LANES: String(count),
          HOME_LANE: String(i),
        })
    const pid = {
      service: () => service.process.pid,
      redis: () => ownRedis.process.pid,
      clickhouse: () => engine.pid(),
    }
    return { url: service.url, pid, store: new Store(engine.url), group }
  }
  // The first one creates the tables.
  const [first, ...others] = groups
  const one = first ? [await open(first, 0)] : []
  return new Machines([...one, ...(await Promise.all(others.map((group, i) => open(group, i + 1))))], layout)
}

function itemOf<Item>(list: Item[], i: number): Item {
  const item = list[i]
  if (item === undefined) throw new RangeError(`there is no item ${i}`)
  return item
}

/** Resolves when a service reaches every part of its store. */
async function untilReady(url: string): Promise<void> {
  const deadline = Date.now() + READY_LIMIT_MS
  for (;;) {
    const { ok } = await fetch(`${url}/health/ready`)
    if (ok) return
    if (Date.now() > deadline) throw new Error(`${url} did not become ready again`)
    await wait(READY_POLL_MS)
  }
}

/** CPU time of a process with all its threads, µs. */
export async function cpuOf(pid: number | undefined): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  // The second field, the name in brackets, may contain spaces.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return ((Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND) * 1e6
}

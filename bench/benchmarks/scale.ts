import { type Bench, type Benchmark, get, WARM_UP_SECONDS } from '../benchmark.js'
import { spreadOf } from '../figures.js'
import { load } from '../load.js'
import { type Machines, openMachines, PARTS, type Part } from '../machines.js'
import { PAGE, servicePageAt } from '../pages.js'
import { BATCH, batches, type HttpRequest, type RequestList, singles, writeRequests } from '../requests.js'
import { fitRounds, type Point } from '../scalability.js'
import { programFile, type Servers } from '../servers.js'
import { type CpuGroup, openCpuGroup } from '../shares.js'

/** Blocks hold the events of several seconds, so a measurement lasts several times the usual seconds. */
const STRETCHES = 6
/** per second, at each machine */
const EDITS = 1
/** If the machines used less than this part of their shares, something else was the limit. */
const LEAST_USE = 0.95
const GOALS: Record<number, { target: number; stretch: number }> = {
  2: { target: 1.85, stretch: 1.95 },
  4: { target: 3.5, stretch: 3.8 },
  6: { target: 5, stretch: 5.6 },
}
const PAGE_GOAL = { of: 'ratio', target: 1.6, stretch: 1.2 } as const
/** A single machine is measured too, for comparison. */
const ONE = 1

/** One kind of load. */
interface Kind {
  name: string
  requests(): Promise<HttpRequest[]>
  events: number
  /** for each machine */
  connections: number
  /**
   * Requests to each machine before the measurement: machines that start together get less of the cores each, and code
   * that is not compiled yet takes twice as long.
   */
  warmUp: number
}

const KINDS: Kind[] = [
  { name: 'batches', requests: batches, events: BATCH, connections: 4, warmUp: 150 },
  { name: 'single events', requests: singles, events: 1, connections: 64, warmUp: 30_000 },
]

/** The results of a number of machines in one round. */
interface Result {
  perSecond: number
  /** µs per event */
  cpu: Record<Part, number>
  /** the part of their shares that they used under load */
  use: number
  /** ms */
  followed: Followed
}

/** The output of programs/follow.ts. */
interface Followed {
  pages: number
  edits: number
  pageMs: number | null
  editMs: number | null
}

/** How much more several machines accept than one, if each may use a fixed share of a core. */
export const scale: Benchmark = async (bench) => {
  const { servers, rounds, machines: plan } = bench
  const cpu = openCpuGroup()
  if (!cpu) return bench.note('scale: left out, as this process may not make cgroups that limit the CPU.')
  servers.onClose(() => cpu.close())
  const tables = await Promise.all(KINDS.map((kind) => tableOf(bench, kind)))
  const pages = pageTable(bench)
  for (let round = 0; round < rounds; round++) {
    bench.round(round + 1)
    // Back and forth, so that slow changes of this machine affect all sizes alike.
    const counts = round % 2 === 0 ? plan.counts : plan.counts.toReversed()
    for (const count of counts) {
      await withMachines(bench, cpu, count, async (inner, machines) => {
        for (const table of tables) await table.measure(inner, machines)
        if (plan.layout === 'lanes') await pages.measure(inner, machines)
      })
    }
    for (const table of tables) table.endRound()
    pages.endRound()
  }
  for (const table of tables) table.conclude()
}

async function withMachines(
  { servers, machines: { layout } }: Bench,
  cpu: CpuGroup,
  count: number,
  run: (inner: Servers, machines: Machines) => Promise<void>,
): Promise<void> {
  const inner = await servers.inner()
  try {
    await run(inner, await openMachines(inner, cpu, count, layout))
  } finally {
    await inner.close()
  }
}

/** The rows of one kind of load. */
async function tableOf(bench: Bench, kind: Kind) {
  const { servers, machines: plan } = bench
  const requests = await writeRequests(servers.folder, await kind.requests())
  const rates = rowsOf(bench, (count) => ({
    name: `${kind.name} visible, ${named(count)}`,
    unit: 'events/s',
    goal: GOALS[count] && { of: 'ratio', ...GOALS[count] },
  }))
  const costs = rowsOf(bench, (count) => ({ name: `${kind.name}, CPU of an event, ${named(count)}`, unit: 'µs' }))
  const rounds: Map<number, Result>[] = []
  let results = new Map<number, Result>()
  return {
    async measure(inner: Servers, machines: Machines) {
      const stretch = { ...kind, requests, seconds: bench.seconds * STRETCHES, share: plan.share }
      const result = await machines.steadily(() => measure(inner, machines, stretch))
      results.set(machines.all.length, result)
    },
    endRound() {
      rates(new Map([...results].map(([count, { perSecond }]) => [count, perSecond])))
      costs(new Map([...results].map(([count, { cpu }]) => [count, sumOf(cpu)])))
      rounds.push(results)
      results = new Map()
    },
    conclude() {
      bench.note(describe(kind.name, plan.counts, rounds))
      bench.note(describeFit(kind.name, rounds))
    },
  }
}

/** Reads pages one after another, from machines with the same shares. */
function pageTable(bench: Bench) {
  const { machines: plan, seconds } = bench
  const times = new Map<number, number>()
  const rows =
    plan.layout === 'lanes' &&
    rowsOf(bench, (count) => ({
      name: `page of ${PAGE}, ${count === ONE ? 'one shard' : `${count} shards`}`,
      unit: 'ms',
      goal: count === 4 ? PAGE_GOAL : undefined,
    }))
  return {
    async measure(inner: Servers, machines: Machines) {
      const [url = ''] = machines.readers
      const { p50 } = await machines.steadily(async () => {
        machines.limit(null)
        await machines.quiet()
        const { next } = await get<{ next: string }>(`${url}/public/events?limit=${PAGE}&page=5`)
        const requests = await writeRequests(inner.folder, [servicePageAt(next)])
        const stretch = { url, requests, connections: 1 }
        await load(inner, { ...stretch, seconds: WARM_UP_SECONDS })
        machines.limit(plan.share)
        return await load(inner, { ...stretch, seconds: seconds * STRETCHES })
      })
      machines.limit(null)
      times.set(machines.all.length, p50)
    },
    endRound() {
      if (rows) rows(times)
      times.clear()
    },
  }
}

/** A row for each number of machines; all are compared with one machine. */
function rowsOf(
  { figure, machines: { counts } }: Bench,
  options: (count: number) => Parameters<Bench['figure']>[1] & { name: string },
): (values: Map<number, number>) => void {
  const rows = counts.map((count) => {
    const { name, ...rest } = options(count)
    return { count, add: figure(name, count === ONE ? rest : { ...rest, over: 'one machine' }) }
  })
  return (values) => {
    for (const { count, add } of rows) {
      const value = values.get(count)
      if (value !== undefined) add(value, count === ONE ? undefined : values.get(ONE))
    }
  }
}

interface Stretch extends Omit<Kind, 'requests'> {
  requests: RequestList
  seconds: number
  share: number
}

/** Full load on each machine, while one reader walks through the events and some are edited. */
async function measure(servers: Servers, machines: Machines, stretch: Stretch): Promise<Result> {
  const { requests, connections, share, events } = stretch
  const loads = (seconds: number) =>
    Promise.all(machines.urls.map((url) => load(servers, { url, requests, connections, seconds })))
  machines.limit(null)
  const warmed = machines.all.map(() => 0)
  while (Math.min(...warmed) < stretch.warmUp) {
    for (const [i, { requests: sent }] of (await loads(WARM_UP_SECONDS)).entries()) warmed[i] = (warmed[i] ?? 0) + sent
  }
  await machines.untilVisible()
  await machines.quiet()
  const stored = await machines.count()

  machines.limit(share)
  const [before, startedAt] = [await machines.cpu(), performance.now()]
  const following = follow(servers, machines, stretch.seconds)
  // Awaited below; an earlier failure must not end this process.
  following.catch(() => undefined)
  const results = await loads(stretch.seconds)
  const loaded = sumOf(await machines.cpu()) - sumOf(before)
  const loadedUs = (performance.now() - startedAt) * 1000
  await machines.untilVisible()
  const visibleSeconds = (performance.now() - Math.min(...results.map((result) => result.startedAt))) / 1000
  const after = await machines.cpu()
  const followed = await following
  machines.limit(null)

  const arrived = (await machines.count()) - stored
  const accepted = results.reduce((sum, result) => sum + result.requests, 0) * events
  if (arrived < accepted) throw new Error(`${accepted} were accepted, ${arrived} arrived`)
  const cpu = { service: 0, redis: 0, clickhouse: 0 }
  for (const part of PARTS) cpu[part] = (after[part] - before[part]) / arrived
  const use = loaded / (loadedUs * share * machines.all.length)
  return { perSecond: arrived / visibleSeconds, cpu, use, followed }
}

async function follow(servers: Servers, machines: Machines, seconds: number): Promise<Followed> {
  const readers = machines.readers.length
  const edits = (EDITS * machines.all.length) / readers
  const outputs = await Promise.all(
    Array.from({ length: readers }, (_, i) => {
      const urls = readers === 1 ? machines.urls : machines.urls.slice(i, i + 1)
      const args = [urls.join(','), String(seconds), String(edits)]
      return servers.run('the reader', process.execPath, [programFile('follow'), ...args])
    }),
  )
  const all = outputs.map((output) => JSON.parse(output) as Followed)
  const [first] = all
  if (!first || all.some(({ edits }) => edits === 0)) throw new Error(`a reader edited nothing: ${outputs.join()}`)
  const sum = (of: 'pages' | 'edits') => all.reduce((total, one) => total + one[of], 0)
  return { ...first, pages: sum('pages'), edits: sum('edits') }
}

/** Where the CPU goes, the medians of the rounds. */
function describe(name: string, counts: number[], rounds: Map<number, Result>[]): string {
  const lines = counts.map((count) => {
    const results = rounds.flatMap((round) => round.get(count) ?? [])
    const median = (of: (result: Result) => number) => spreadOf(results.map(of)).median
    const parts = PARTS.map((part) => `${part} ${median(({ cpu }) => cpu[part]).toFixed(2)}`).join(', ')
    const use = spreadOf(results.map((result) => result.use))
    const { pages, edits } = { pages: median((one) => one.followed.pages), edits: median((one) => one.followed.edits) }
    const times = `${pages} pages (${median((one) => one.followed.pageMs ?? Number.NaN).toFixed(0)} ms), ${edits} edits (${median((one) => one.followed.editMs ?? Number.NaN).toFixed(0)} ms)`
    const warning = use.min < LEAST_USE ? ' NOT SATURATED' : ''
    return `  ${named(count)}: µs of CPU for an event: ${parts}; ${percent(use.min)} to ${percent(use.max)} of their shares used${warning}; meanwhile ${times}`
  })
  return `${name}:\n${lines.join('\n')}`
}

function describeFit(name: string, rounds: Map<number, Result>[]): string {
  const points = rounds.map((round) =>
    [...round].flatMap(([machines, { perSecond }]): Point[] => {
      const one = round.get(ONE)
      return one && machines > ONE ? [{ machines, ratio: perSecond / one.perSecond }] : []
    }),
  )
  const sizes = new Set(points.flat().map(({ machines }) => machines)).size
  if (sizes < 2) return `${name}: too few sizes for a fit`
  const { sigma, kappa, sigmas, kappas } = fitRounds(points)
  const spread = ([low, high]: [number, number]) => `${low.toFixed(4)} to ${high.toFixed(4)}`
  return (
    `${name}: Universal Scalability Law, ${sizes + 1} sizes, ${rounds.length} rounds: ` +
    `σ ${sigma.toFixed(4)} (${spread(sigmas)}), κ ${kappa.toFixed(4)} (${spread(kappas)}). ` +
    'The spread is that of rounds drawn again; so few sizes do not determine κ.'
  )
}

function named(count: number): string {
  return count === ONE ? 'one machine' : `${count} machines`
}

function sumOf(parts: Record<Part, number>): number {
  return PARTS.reduce((sum, part) => sum + parts[part], 0)
}

function percent(part: number): string {
  return `${Math.round(part * 100)} %`
}

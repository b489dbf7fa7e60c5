import { type Bench, type Benchmark, eachRound, forTimes, untilVisible, WARM_UP_SECONDS } from '../benchmark.js'
import { Supply, scattered, update } from '../changes.js'
import { load } from '../load.js'
import { PAGE, servicePage } from '../pages.js'
import { BATCH, batches, type RequestList, writeRequests } from '../requests.js'
import type { Running } from '../servers.js'
import { Store } from '../store.js'

const EVENTS = 20_000_000
/** Parts of the largest size. */
const SHARES = [0.05, 0.25, 1]
const CONNECTIONS = 8
const EDITS = 20_000
/**
 * Measurements last this many times the usual seconds: in a shorter one, it would be chance whether new parts are
 * merged.
 */
const STRETCHES = 3

/** A service with a separate database that contains a given number of events. */
interface Size {
  events: number
  service: Running
  store: Store
  page: RequestList
}

/**
 * The same work at 1, 5 and 20 million stored events, one size after the other in each round. All are refilled before
 * each, because parts that a measurement left at one size, but not at another, would be merged during the next.
 */
export const growth: Benchmark = async (bench) => {
  const { servers } = bench
  const clickhouse = new URL(await servers.clickhouse())
  const ingestion = await writeRequests(servers.folder, await batches())

  const sizes: Size[] = []
  for (const share of SHARES) {
    const events = Math.round(bench.events(EVENTS) * share)
    clickhouse.pathname = `/growth_${events}`
    const service = await servers.tallyhouse(clickhouse.href)
    const store = new Store(clickhouse.href)
    const page = await writeRequests(servers.folder, [servicePage(Math.max(1, Math.floor(events / PAGE / 2)))])
    sizes.push({ events, service, store, page })
  }
  const [smallest] = sizes
  if (!smallest) return
  const name = ({ events }: Size) => `${events / 1e6} million`
  const over = name(smallest)
  const figures = sizes.map((size) => {
    const limit = size === smallest ? {} : { over }
    return {
      ingested: bench.figure(`ingestion at ${name(size)}`, {
        unit: 'events/s',
        ...limit,
        ...(size.events === bench.events(EVENTS) && { goal: { of: 'ratio', target: 0.9, stretch: 0.97 } }),
      }),
      cpu: bench.figure(`ClickHouse's CPU time for an event at ${name(size)}`, { unit: 'µs', ...limit }),
      page: bench.figure(`export page at ${name(size)}`, { unit: 'ms', ...limit }),
      edited: bench.figure(`one edit at ${name(size)}`, { unit: 'ms', ...limit }),
    }
  })

  await eachRound(bench, null, async (round) => {
    const measured: Awaited<ReturnType<typeof measure>>[] = []
    // So that a machine that is slow for some minutes does not always slow the same size.
    const order = round % 2 === 0 ? [...sizes.entries()] : [...sizes.entries()].reverse()
    for (const [i, size] of order) measured[i] = await measure(bench, size, ingestion)
    const [limit] = measured
    for (const [i, { perSecond, cpuUs, pageMs, editMs }] of measured.entries()) {
      const over = i === 0 ? undefined : limit
      figures[i]?.ingested(perSecond, over?.perSecond)
      figures[i]?.cpu(cpuUs, over?.cpuUs)
      figures[i]?.page(pageMs, over?.pageMs)
      figures[i]?.edited(editMs, over?.editMs)
    }
  })
}

async function measure(bench: Bench, { events, service, store, page }: Size, ingestion: RequestList) {
  const { servers } = bench
  const { url } = service
  const ingest = (seconds: number) => load(servers, { url, requests: ingestion, connections: CONNECTIONS, seconds })
  await ingest(WARM_UP_SECONDS)
  await untilVisible(url)
  const filled = await store.fill(events)
  await store.merge()
  const edits = new Supply(await writeRequests(servers.folder, scattered(filled, EDITS).map(update)))

  const before = await store.count()
  const cpuBefore = await store.cpuUs()
  const ingested = await ingest(STRETCHES * bench.seconds)
  await untilVisible(url)
  const visibleSeconds = (performance.now() - ingested.startedAt) / 1000
  const cpuUs = (await store.cpuUs()) - cpuBefore
  const arrived = (await store.count()) - before
  if (arrived < ingested.requests * BATCH) throw new Error(`of ${ingested.requests * BATCH} events ${arrived} arrived`)
  await store.quiet()
  const pages = await load(servers, { url, requests: page, connections: 1, seconds: forTimes(bench) })
  const changed = await edits.use(1, (some) => load(servers, { url, ...some, seconds: forTimes(bench) }))
  return { perSecond: arrived / visibleSeconds, cpuUs: cpuUs / arrived, pageMs: pages.p50, editMs: changed.p50 }
}

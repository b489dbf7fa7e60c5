import { type Bench, type Benchmark, eachRound, forTimes, untilVisible, WARM_UP_SECONDS } from '../benchmark.js'
import { Supply, scattered, update } from '../changes.js'
import { load } from '../load.js'
import { PAGE, servicePage } from '../pages.js'
import { BATCH, batches, type RequestList, writeRequests } from '../requests.js'
import type { Running } from '../servers.js'
import { Store } from '../store.js'

const EVENTS = 20_000_000
/** Of the largest. */
const SHARES = [0.05, 0.25, 1]
const CONNECTIONS = 8
const EDITS = 20_000
/** A size that has grown by more than this share is filled anew. */
const MAX_GROWTH = 0.25

/** A service with a database of its own, which holds a given number of events. */
interface Size {
  events: number
  service: Running
  store: Store
  page: RequestList
  edits: Supply
}

/** The same work at 1, 5 and 20 million stored events, one size after the other in each round. */
export const growth: Benchmark = async (bench) => {
  const { servers, seconds } = bench
  const clickhouse = new URL(await servers.clickhouse())
  const ingestion = await writeRequests(servers.folder, await batches())

  const sizes: Size[] = []
  for (const share of SHARES) {
    const events = Math.round(bench.events(EVENTS) * share)
    clickhouse.pathname = `/growth_${events}`
    const service = await servers.tallyhouse(clickhouse.href)
    const store = new Store(clickhouse.href)
    const page = await writeRequests(servers.folder, [servicePage(Math.max(1, Math.floor(events / PAGE / 2)))])
    sizes.push({ events, service, store, page, edits: await fill(bench, store, events) })
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
      page: bench.figure(`export page at ${name(size)}`, { unit: 'ms', ...limit }),
      edited: bench.figure(`one edit at ${name(size)}`, { unit: 'ms', ...limit }),
    }
  })

  for (const size of sizes) await measure(bench, size, ingestion, WARM_UP_SECONDS)
  await eachRound(bench, null, async () => {
    for (const size of sizes) {
      if ((await size.store.count()) > size.events * (1 + MAX_GROWTH)) {
        size.edits = await fill(bench, size.store, size.events)
      }
    }
    let limit: Awaited<ReturnType<typeof measure>> | undefined
    for (const [i, size] of sizes.entries()) {
      const measured = await measure(bench, size, ingestion, seconds)
      figures[i]?.ingested(measured.perSecond, limit?.perSecond)
      figures[i]?.page(measured.pageMs, limit?.pageMs)
      figures[i]?.edited(measured.editMs, limit?.editMs)
      limit ??= measured
    }
  })
}

async function fill({ servers }: Bench, store: Store, events: number): Promise<Supply> {
  const filled = await store.fill(events)
  return new Supply(await writeRequests(servers.folder, scattered(filled, EDITS).map(update)))
}

async function measure(bench: Bench, size: Size, ingestion: RequestList, seconds: number) {
  const { servers } = bench
  const { service, store, page, edits } = size
  const { url } = service
  await store.quiet()
  const before = await store.count()
  const ingested = await load(servers, { url, requests: ingestion, connections: CONNECTIONS, seconds })
  await untilVisible(url)
  const visibleSeconds = (performance.now() - ingested.startedAt) / 1000
  const arrived = (await store.count()) - before
  if (arrived < ingested.requests * BATCH) throw new Error(`of ${ingested.requests * BATCH} events ${arrived} arrived`)
  await store.quiet()
  const pages = await load(servers, { url, requests: page, connections: 1, seconds: forTimes(bench) })
  const changed = await edits.use(1, (some) => load(servers, { url, ...some, seconds: forTimes(bench) }))
  return { perSecond: arrived / visibleSeconds, pageMs: pages.p50, editMs: changed.p50 }
}

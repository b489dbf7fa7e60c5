import { type Benchmark, eachRound, untilVisible, WARM_UP_SECONDS } from '../benchmark.js'
import { load } from '../load.js'
import { BATCH, batches, writeRequests } from '../requests.js'
import { peakMemory } from '../servers.js'
import { Store } from '../store.js'

const CONNECTIONS = 8

/** Batches of 1000 events: how many events a second are accepted, and how many can be exported. */
export const batch: Benchmark = async (bench) => {
  const { servers, seconds } = bench
  const clickhouse = await servers.clickhouse()
  const [service, bare] = await Promise.all([servers.tallyhouse(clickhouse), servers.program('bare')])
  const store = new Store(clickhouse)
  const requests = await writeRequests(servers.folder, await batches())
  const stretch = { requests, connections: CONNECTIONS, seconds }
  const accepted = bench.figure('accepted', {
    unit: 'events/s',
    over: 'bare route',
    goal: { of: 'ratio', target: 0.6, stretch: 0.8 },
  })
  const visible = bench.figure('visible', {
    unit: 'events/s',
    over: 'bare route',
    goal: { of: 'ratio', target: 0.55, stretch: 0.7 },
  })
  const memory = bench.figure('peak memory of the service', {
    unit: 'MiB',
    goal: { of: 'value', target: 300, stretch: 200 },
  })

  for (const { url } of [bare, service]) await load(servers, { ...stretch, url, seconds: WARM_UP_SECONDS })
  await untilVisible(service.url)

  await eachRound(bench, store, async () => {
    const limit = await load(servers, { ...stretch, url: bare.url })
    const before = await store.count()
    const ours = await load(servers, { ...stretch, url: service.url })
    await untilVisible(service.url)
    const visibleSeconds = (performance.now() - ours.startedAt) / 1000
    const arrived = (await store.count()) - before
    if (arrived < ours.requests * BATCH) throw new Error(`${ours.requests * BATCH} were accepted, ${arrived} arrived`)
    accepted(ours.perSecond * BATCH, limit.perSecond * BATCH)
    visible(arrived / visibleSeconds, limit.perSecond * BATCH)
    const mib = await peakMemory(service.process)
    if (mib !== null) memory(mib)
  })
}

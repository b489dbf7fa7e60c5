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
  const embedded = await servers.tallyhouse(clickhouse, await servers.embeddedJournal())
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
  const acceptedEmbedded = bench.figure('accepted, embedded journal', { unit: 'events/s', over: 'bare route' })
  const goal = { of: 'value', target: 300, stretch: 200 } as const
  const memory = bench.figure('peak memory of the service', { unit: 'MiB', goal })
  const memoryEmbedded = bench.figure('peak memory of the service, embedded journal', { unit: 'MiB', goal })

  for (const { url } of [bare, service, embedded]) await load(servers, { ...stretch, url, seconds: WARM_UP_SECONDS })
  for (const { url } of [service, embedded]) await untilVisible(url)

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
    const alone = await load(servers, { ...stretch, url: embedded.url })
    await untilVisible(embedded.url)
    acceptedEmbedded(alone.perSecond * BATCH, limit.perSecond * BATCH)
    for (const [of, note] of [[service, memory] as const, [embedded, memoryEmbedded] as const]) {
      const mib = await peakMemory(of.process)
      if (mib !== null) note(mib)
    }
  })
}

import { type Benchmark, eachRound, untilVisible, WARM_UP_SECONDS } from '../benchmark.js'
import { load } from '../load.js'
import { BATCH, batches, identifiedBatches, writeRequests } from '../requests.js'
import { Store } from '../store.js'

const CONNECTIONS = 8
/** More than the service takes, as no id may come twice. */
const MAX_BATCHES_PER_SECOND = 250

/** Batches of 1000 events that each have an `insert_id`, over the same ones without. */
export const identified: Benchmark = async (bench) => {
  const { servers, seconds } = bench
  const clickhouse = await servers.clickhouse()
  const { url } = await servers.tallyhouse(clickhouse)
  const store = new Store(clickhouse)
  const plain = { url, requests: await writeRequests(servers.folder, await batches()), connections: CONNECTIONS }
  const accepted = bench.figure('accepted, each with an id', {
    unit: 'events/s',
    over: 'without ids',
    goal: { of: 'value', target: 100_000, stretch: 150_000 },
  })

  await load(servers, { ...plain, seconds: WARM_UP_SECONDS })
  await untilVisible(url)

  await eachRound(bench, store, async () => {
    const without = await load(servers, { ...plain, seconds })
    await untilVisible(url)
    const requests = await writeRequests(servers.folder, await identifiedBatches(MAX_BATCHES_PER_SECOND * seconds))
    const before = await store.count()
    const ours = await load(servers, { ...plain, requests, seconds })
    await untilVisible(url)
    const arrived = (await store.count()) - before
    if (arrived < ours.requests * BATCH) throw new Error(`${ours.requests * BATCH} were accepted, ${arrived} arrived`)
    accepted(ours.perSecond * BATCH, without.perSecond * BATCH)
  })
}

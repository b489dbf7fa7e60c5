import { type Benchmark, eachRound, untilVisible, WARM_UP_SECONDS } from '../benchmark.js'
import { load } from '../load.js'
import { BATCH, batches, identifiedBatches, writeRequests } from '../requests.js'
import { Store } from '../store.js'

const CONNECTIONS = 8
/** More than the service takes, as no id may come twice. */
const MAX_BATCHES_PER_SECOND = 250

/** Batches of 1000 events that each have an `insert_id`, over the same ones without, with both kinds of journal. */
export const identified: Benchmark = async (bench) => {
  const { servers, seconds } = bench
  const clickhouse = await servers.clickhouse()
  const store = new Store(clickhouse)
  const list = await writeRequests(servers.folder, await batches())
  const goal = { of: 'value', target: 100_000, stretch: 150_000 } as const
  const figure = (name: string) => bench.figure(name, { unit: 'events/s', over: 'without ids', goal })
  const journals = [
    { url: (await servers.tallyhouse(clickhouse)).url, accepted: figure('accepted, each with an id') },
    {
      url: (await servers.tallyhouse(clickhouse, await servers.embeddedJournal())).url,
      accepted: figure('accepted, each with an id, embedded journal'),
    },
  ]
  for (const { url } of journals) {
    await load(servers, { url, requests: list, connections: CONNECTIONS, seconds: WARM_UP_SECONDS })
    await untilVisible(url)
  }

  await eachRound(bench, store, async () => {
    for (const { url, accepted } of journals) {
      const plain = { url, requests: list, connections: CONNECTIONS, seconds }
      const without = await load(servers, plain)
      await untilVisible(url)
      const requests = await writeRequests(servers.folder, await identifiedBatches(MAX_BATCHES_PER_SECOND * seconds))
      const before = await store.count()
      const ours = await load(servers, { ...plain, requests })
      await untilVisible(url)
      const arrived = (await store.count()) - before
      if (arrived < ours.requests * BATCH) throw new Error(`${ours.requests * BATCH} were accepted, ${arrived} arrived`)
      accepted(ours.perSecond * BATCH, without.perSecond * BATCH)
    }
  })
}

import { type Benchmark, eachRound, untilVisible, WARM_UP_SECONDS } from '../benchmark.js'
import { load } from '../load.js'
import { BATCH, batches, identifiedBatches, keyedSingles, singles, writeRequests } from '../requests.js'
import { Store } from '../store.js'

/** Requests with ids, compared with the same ones without. */
interface Kind {
  /** in a request */
  events: number
  connections: number
  /** more than the service accepts, because none may be sent twice */
  maxPerSecond: number
  plain: typeof singles
  identified: typeof keyedSingles
}

const BATCHES: Kind = {
  events: BATCH,
  connections: 8,
  maxPerSecond: 600,
  plain: batches,
  identified: identifiedBatches,
}
const SINGLES: Kind = { events: 1, connections: 64, maxPerSecond: 80_000, plain: singles, identified: keyedSingles }

/**
 * Batches of 1000 events with `insert_id`s, and single events with an `Idempotency-Key`, compared with the same ones
 * without, with both kinds of journal.
 */
export const identified: Benchmark = async (bench) => {
  const { servers, seconds } = bench
  const clickhouse = await servers.clickhouse()
  const store = new Store(clickhouse)
  const redis = await servers.tallyhouse(clickhouse)
  const embedded = await servers.tallyhouse(clickhouse, await servers.embeddedJournal())
  const goal = { of: 'value', target: 100_000, stretch: 150_000 } as const
  const withIds = (name: string) => bench.figure(name, { unit: 'events/s', over: 'without ids', goal })
  const withKeys = (name: string) => bench.figure(name, { unit: 'req/s', over: 'without keys' })
  const figures = [
    { url: redis.url, kind: BATCHES, accepted: withIds('accepted, each with an id') },
    { url: embedded.url, kind: BATCHES, accepted: withIds('accepted, each with an id, embedded journal') },
    { url: redis.url, kind: SINGLES, accepted: withKeys('single events, each with a key') },
    { url: embedded.url, kind: SINGLES, accepted: withKeys('single events, each with a key, embedded journal') },
  ]
  const lists = new Map(
    await Promise.all(
      [BATCHES, SINGLES].map(async (kind) => [kind, await writeRequests(servers.folder, await kind.plain())] as const),
    ),
  )

  await eachRound(bench, store, async () => {
    for (const { url, kind, accepted } of figures) {
      const { connections, events, maxPerSecond } = kind
      const requests = lists.get(kind)
      if (!requests) throw new Error('each kind has a list')
      const plain = { url, requests, connections, seconds }
      await load(servers, { ...plain, seconds: WARM_UP_SECONDS })
      const without = await load(servers, plain)
      await untilVisible(url)
      const different = await writeRequests(servers.folder, await kind.identified(maxPerSecond * seconds))
      const before = await store.count()
      const ours = await load(servers, { ...plain, requests: different })
      await untilVisible(url)
      const arrived = (await store.count()) - before
      const sent = ours.requests * events
      if (arrived < sent) throw new Error(`${sent} were accepted, ${arrived} arrived`)
      accepted(ours.perSecond * events, without.perSecond * events)
    }
  })
}

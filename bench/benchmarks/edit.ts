import { setTimeout as wait } from 'node:timers/promises'
import { type Benchmark, eachRound, forTimes, untilVisible, WARM_UP_SECONDS } from '../benchmark.js'
import { remove, Supply, scattered, statements, update } from '../changes.js'
import { type LoadResult, load } from '../load.js'
import { BATCH, batches, type HttpRequest, writeRequests } from '../requests.js'
import { Store } from '../store.js'

const EVENTS = 10_000_000
const CONNECTIONS = 64
const INGESTION_CONNECTIONS = 8
/** How long ingestion runs before the edits begin and after they end, s. */
const MARGIN_SECONDS = 1
/** More than the service can delete in a second. */
const DELETES_PER_SECOND = 10_000

/** Changes of events by their id, alone and during ingestion at full speed. */
export const edit: Benchmark = async (bench) => {
  const { servers, seconds, rounds } = bench
  const clickhouse = await servers.clickhouse()
  const store = new Store(clickhouse)
  const service = await servers.tallyhouse(clickhouse)
  const filled = await store.fill(bench.events(EVENTS))

  const ids = scattered(filled, Math.min(filled.count, 2 * DELETES_PER_SECOND * (rounds + 1) * seconds))
  const [kept, doomed] = [ids.slice(0, ids.length >> 1), ids.slice(ids.length >> 1)]
  const supply = async (requests: HttpRequest[]) => new Supply(await writeRequests(servers.folder, requests))
  const updates = await supply(kept.map(update))
  const deletes = await supply(doomed.map(remove))
  const shared = await supply(statements(store, kept, CONNECTIONS))
  const single = await supply(statements(store, kept.slice(0, 20_000), 1))
  const ingestion = await writeRequests(servers.folder, await batches())

  const goalless = { unit: 'ops/s', over: `statements of ${CONNECTIONS}` } as const
  const edits = bench.figure('edits', goalless)
  const removals = bench.figure('deletes', goalless)
  const one = bench.figure(`one edit among ${filled.count / 1e6} million`, { unit: 'ms', over: 'one statement' })
  const during = bench.figure('edits during full ingestion', {
    unit: 'ops/s',
    over: `statements of ${CONNECTIONS} meanwhile`,
    goal: { of: 'value', target: 1_000, stretch: 2_000 },
  })
  const ingested = bench.figure('ingestion during the edits', { unit: 'events/s', over: 'ingestion alone' })

  const straight = { url: store.url, seconds }
  const ours = { url: service.url, seconds }
  const ingest = (stretchSeconds: number) =>
    load(servers, { ...ours, requests: ingestion, connections: INGESTION_CONNECTIONS, seconds: stretchSeconds })
  const duringIngestion = async (change: () => Promise<LoadResult>) => {
    const ingesting = ingest(seconds + 2 * MARGIN_SECONDS)
    const changing = wait(MARGIN_SECONDS * 1000).then(change)
    const [taken, changed] = await Promise.all([ingesting, changing])
    await untilVisible(service.url)
    return { taken, changed }
  }

  await shared.use(1, (some) => load(servers, { ...straight, ...some, seconds: WARM_UP_SECONDS }))
  await updates.use(CONNECTIONS, (some) => load(servers, { ...ours, ...some, seconds: WARM_UP_SECONDS }))
  await ingest(WARM_UP_SECONDS)
  await untilVisible(service.url)

  await eachRound(bench, store, async () => {
    const limit = await shared.use(1, (some) => load(servers, { ...straight, ...some }))
    const alone = await updates.use(CONNECTIONS, (some) => load(servers, { ...ours, ...some }))
    edits(alone.perSecond, limit.perSecond * CONNECTIONS)
    const removed = await deletes.use(CONNECTIONS, (some) => load(servers, { ...ours, ...some }))
    removals(removed.perSecond, limit.perSecond * CONNECTIONS)

    const straightOne = await single.use(1, (some) => load(servers, { ...straight, ...some, seconds: forTimes(bench) }))
    const oneEdit = await updates.use(1, (some) => load(servers, { ...ours, ...some, seconds: forTimes(bench) }))
    one(oneEdit.p50, straightOne.p50)

    const ingestionAlone = await ingest(seconds)
    await untilVisible(service.url)
    const straightMeanwhile = await duringIngestion(() =>
      shared.use(1, (some) => load(servers, { ...straight, ...some })),
    )
    await store.quiet()
    const { taken, changed } = await duringIngestion(() =>
      updates.use(CONNECTIONS, (some) => load(servers, { ...ours, ...some })),
    )
    during(changed.perSecond, straightMeanwhile.changed.perSecond * CONNECTIONS)
    ingested(taken.perSecond * BATCH, ingestionAlone.perSecond * BATCH)
  })
}

import { type Benchmark, eachRound, untilCount, untilVisible, WARM_UP_SECONDS } from '../benchmark.js'
import { type LoadResult, load } from '../load.js'
import { realEvents, singles, writeRequests } from '../requests.js'
import { Store } from '../store.js'

const CONNECTIONS = 64
const OVER_DIRECT = { of: 'ratio', target: 40, stretch: 60 } as const

/** Writing the same single events to ClickHouse directly, as one would without Tallyhouse. */
export const direct: Benchmark = async (bench) => {
  const { servers, seconds } = bench
  const clickhouse = await servers.clickhouse()
  const store = new Store(clickhouse)
  const service = await servers.tallyhouse(clickhouse)
  for (const table of ['direct_events', 'textbook_events']) {
    await store.text(
      `CREATE TABLE ${table} (event LowCardinality(String), distinct_id String, timestamp Float64, properties String)
       ENGINE = MergeTree ORDER BY (event, timestamp)`,
    )
  }
  const env = { CLICKHOUSE_URL: clickhouse, REDIS_URL: (await servers.redis()).url }
  const program = await servers.program('direct', env)
  await servers.program('textbook-worker', env)
  const textbook = await servers.program('textbook', env)
  const requests = await writeRequests(servers.folder, await singles())
  const posts = await writeRequests(
    servers.folder,
    (await realEvents()).map((body) => ({
      method: 'POST',
      path: store.path({
        query: 'INSERT INTO direct_events FORMAT JSONEachRow',
        async_insert: 1,
        wait_for_async_insert: 1,
        input_format_json_read_objects_as_strings: 1,
      }),
      body,
      headers: { authorization: store.authorization },
    })),
  )

  const overProgram = bench.figure('accepted, over a server that inserts', {
    unit: 'req/s',
    over: 'async_insert',
    goal: OVER_DIRECT,
  })
  const overPosts = bench.figure('accepted, over inserting clients', { unit: 'req/s', over: 'async_insert' })
  const acceptedOverTextbook = bench.figure('accepted, over the textbook pipeline', { unit: 'req/s', over: 'textbook' })
  const visibleOverTextbook = bench.figure('visible, over the textbook pipeline', {
    unit: 'events/s',
    over: 'textbook',
  })

  const stretch = { requests, connections: CONNECTIONS, seconds }
  const countOf = (table: string) => () => store.number(`SELECT count() FROM ${table}`)
  const inTextbook = countOf('textbook_events')
  const ours = async (): Promise<[LoadResult, visible: number]> => {
    const before = await store.count()
    const result = await load(servers, { ...stretch, url: service.url })
    await untilVisible(service.url)
    const visibleSeconds = (performance.now() - result.startedAt) / 1000
    return [result, ((await store.count()) - before) / visibleSeconds]
  }
  const theirs = async (): Promise<[LoadResult, visible: number]> => {
    const before = await inTextbook()
    const result = await load(servers, { ...stretch, url: textbook.url })
    await untilCount(inTextbook, before + result.requests)
    return [result, result.requests / ((performance.now() - result.startedAt) / 1000)]
  }

  for (const { url } of [service, program, textbook]) {
    await load(servers, { ...stretch, url, seconds: WARM_UP_SECONDS })
  }
  await untilVisible(service.url)
  await eachRound(bench, store, async () => {
    const viaProgram = await load(servers, { ...stretch, url: program.url })
    const viaPosts = await load(servers, { ...stretch, url: store.url, requests: posts })
    const [accepted, visible] = await ours()
    const [textbookAccepted, textbookVisible] = await theirs()
    overProgram(accepted.perSecond, viaProgram.perSecond)
    overPosts(accepted.perSecond, viaPosts.perSecond)
    acceptedOverTextbook(accepted.perSecond, textbookAccepted.perSecond)
    visibleOverTextbook(visible, textbookVisible)
  })
}

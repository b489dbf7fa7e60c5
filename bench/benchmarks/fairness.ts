import { makeKey, storedKey } from '../../src/keys/keys.js'
import { type Benchmark, eachRound, get, untilVisible } from '../benchmark.js'
import { load, pacedLoad } from '../load.js'
import { servicePage } from '../pages.js'
import { batches, type HttpRequest, singles, writeRequests } from '../requests.js'
import { Store } from '../store.js'

const PROJECTS = 1_000
const EVENTS = 5_000_000
/** Calls of all other projects together, per second. */
const TRACKED_PER_SECOND = 200
const ASKED_PER_SECOND = 3
/** From the start of the load to the measurement, s. */
const WARM_UP_SECONDS = 2
/** How long the sending processes take to start, s. */
const START_SECONDS = 3
const FAIR = { of: 'ratio', target: 1.33, stretch: 1.1 } as const

/**
 * How much a project at its worst slows the 999 others: it sends batches, asks questions or reads pages without pause.
 * The others send single events and ask about their own.
 */
export const fairness: Benchmark = async (bench) => {
  const { servers } = bench
  const clickhouse = await servers.clickhouse()
  const service = await servers.tallyhouse(clickhouse)
  const store = new Store(clickhouse)
  const { url } = service
  await store.fill(bench.events(EVENTS))
  const keys = await addProjects(store, PROJECTS - 1)
  await get(`${url}/public/events?limit=1`)

  const question = JSON.stringify({ kind: 'series', series: [{ event: '*' }], breakdown: ['distinct_id'] })
  const ask = (headers?: Record<string, string>): HttpRequest => ({
    method: 'POST',
    path: '/public/query',
    body: question,
    ...(headers && { headers }),
  })
  const as = (request: HttpRequest, i: number) => ({
    ...request,
    headers: { 'x-api-key': keys[i % keys.length] ?? '' },
  })
  const files = {
    tracked: await writeRequests(servers.folder, (await singles()).slice(0, 5 * PROJECTS).map(as)),
    asked: await writeRequests(
      servers.folder,
      keys.map((_, i) => as(ask(), i)),
    ),
    sent: await writeRequests(servers.folder, await batches()),
    questions: await writeRequests(servers.folder, [ask()]),
    pages: await writeRequests(servers.folder, [1, 20, 40, 60].map(servicePage)),
  }
  const greedy = {
    'batches over eight connections': { requests: files.sent, connections: 8 },
    'questions over four': { requests: files.questions, connections: 4 },
    'pages of 10 000 over four': { requests: files.pages, connections: 4 },
  }
  const works = Object.entries(greedy).map(([name, work]) => ({
    work,
    tracked: bench.figure(`p99 of /track during ${name}`, { unit: 'ms', over: 'alone', goal: FAIR }),
    asked: bench.figure(`p50 of questions during ${name}`, { unit: 'ms', over: 'alone', goal: FAIR }),
    rate: bench.figure(`${name} meanwhile`, { unit: 'req/s' }),
  }))
  const common = { url, connections: 16 }
  const track = (seconds: number) =>
    pacedLoad(servers, { ...common, seconds, requests: files.tracked, perSecond: TRACKED_PER_SECOND })
  const measure = async () => {
    const seconds = 2 * bench.seconds
    const asking = pacedLoad(servers, { ...common, seconds, requests: files.asked, perSecond: ASKED_PER_SECOND })
    const [tracked, asked] = await Promise.all([track(seconds), asking])
    return { track: tracked.p99, asked: asked.p50 }
  }
  await measure()
  await eachRound(bench, store, async () => {
    const alone = await measure()
    for (const { work, tracked, asked, rate } of works) {
      const seconds = WARM_UP_SECONDS + 2 * bench.seconds + START_SECONDS
      const busy = load(servers, { url, ...work, seconds })
      // The others send all the time: if one project had the journal to itself, it would leave a backlog.
      await track(WARM_UP_SECONDS)
      const during = await measure()
      tracked(during.track, alone.track)
      asked(during.asked, alone.asked)
      rate((await busy).perSecond)
      await untilVisible(url)
      await store.quiet()
    }
  })
}

/** Makes projects without events. @returns their secret keys */
async function addProjects(store: Store, count: number): Promise<string[]> {
  const keys = Array.from({ length: count }, () => makeKey('secret'))
  const rows = keys.map((key, i) => {
    const { id, hash } = storedKey(key, { projectId: `project-${i}`, kind: 'secret' })
    return JSON.stringify({ id, hash, project_id: `project-${i}`, kind: 'secret', created_at: Date.now(), version: 1 })
  })
  await store.text(`INSERT INTO api_keys FORMAT JSONEachRow\n${rows.join('\n')}`)
  return keys
}

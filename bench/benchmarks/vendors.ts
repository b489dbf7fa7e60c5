import { type Benchmark, eachRound, untilVisible, WARM_UP_SECONDS } from '../benchmark.js'
import { load } from '../load.js'
import { type HttpRequest, realEvents, writeRequests } from '../requests.js'
import { SECRET_KEY } from '../servers.js'
import { Store } from '../store.js'

const CONNECTIONS = 32
const BATCH = 100
const BASIC = { authorization: `Basic ${Buffer.from(`${SECRET_KEY}:`).toString('base64')}` }

/** A vendor's call, and our own call that stores the same number of events and bytes. */
interface Pair {
  name: string
  theirs: HttpRequest[]
  ours: HttpRequest[]
}

/**
 * The cost of calls by the SDKs of other vendors, compared with our own calls with the same bytes; at most twice as
 * much is allowed.
 */
export const vendors: Benchmark = async (bench) => {
  const { servers, seconds } = bench
  const service = await servers.tallyhouse(await servers.clickhouse())
  const store = new Store(await servers.clickhouse())
  const goal = { of: 'ratio', target: 0.5, stretch: 0.8 } as const
  const measured = await Promise.all(
    (await pairs()).map(async ({ name, theirs, ours }) => ({
      figure: bench.figure(name, { unit: 'req/s', over: 'our own call', goal }),
      theirs: { requests: await writeRequests(servers.folder, theirs), connections: CONNECTIONS, seconds },
      ours: { requests: await writeRequests(servers.folder, ours), connections: CONNECTIONS, seconds },
    })),
  )
  const { url } = service
  for (const { theirs, ours } of measured) {
    for (const stretch of [theirs, ours]) await load(servers, { ...stretch, url, seconds: WARM_UP_SECONDS })
  }
  await untilVisible(url)
  await eachRound(bench, store, async () => {
    for (const { figure, theirs, ours } of measured) {
      const own = await load(servers, { ...ours, url })
      await untilVisible(url)
      const others = await load(servers, { ...theirs, url })
      await untilVisible(url)
      figure(others.perSecond, own.perSecond)
    }
  })
}

async function pairs(): Promise<Pair[]> {
  const events = (await realEvents()).map((text) => JSON.parse(text))
  const segment = events.map(({ event, distinct_id, properties, timestamp }) => ({
    type: 'track',
    event,
    userId: distinct_id,
    properties,
    timestamp: new Date(timestamp ?? 0).toISOString(),
    context: { library: { name: '@segment/analytics-node', version: '3.1.0' } },
  }))
  const posthog = events.map(({ event, distinct_id, properties, timestamp }) => ({
    event,
    distinct_id,
    properties: { ...properties, $lib: 'posthog-node', $lib_version: '5.70.0', $is_server: true },
    timestamp: new Date(timestamp ?? 0).toISOString(),
  }))
  // The same bytes in our own form: fields that the vendors put next to the properties become properties.
  const own = (all: object[]) =>
    all.map((each, i) => {
      const { event, distinct_id, timestamp } = events[i] ?? {}
      return { event, distinct_id, timestamp, properties: each }
    })
  const batches = (path: string, field: string, all: object[], more = {}, headers?: Record<string, string>) =>
    Array.from({ length: Math.floor(all.length / BATCH) }, (_, i): HttpRequest => {
      const body = JSON.stringify({ ...more, [field]: all.slice(i * BATCH, (i + 1) * BATCH) })
      return { method: 'POST', path, body, ...(headers && { headers }) }
    })
  return [
    {
      name: 'Segment, one event',
      theirs: segment.map((each) => ({
        method: 'POST',
        path: '/segment/v1/t',
        body: JSON.stringify(each),
        headers: BASIC,
      })),
      ours: own(segment).map((each) => ({ method: 'POST', path: '/public/track', body: JSON.stringify(each) })),
    },
    {
      name: 'PostHog, 100 events',
      theirs: batches('/posthog/batch/', 'batch', posthog, { api_key: SECRET_KEY }, {}),
      ours: batches('/public/track/batch', 'events', own(posthog)),
    },
  ]
}

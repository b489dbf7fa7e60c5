import { once } from 'node:events'
import { type Bench, type Benchmark, eachRound, untilVisible, WARM_UP_SECONDS } from '../benchmark.js'
import { load, pacedLoad, type Stretch } from '../load.js'
import { writeRequests } from '../requests.js'
import { programFile, type Running, said } from '../servers.js'
import { Store } from '../store.js'

const LISTENERS = 1_000
/** Events per batch. */
const BATCH = 100
/** Batches per second at an even rate. */
const PER_SECOND = 100
const CONNECTIONS = 8
/**
 * Batches per second if everybody listens to everything, because a thousand listeners receive a thousand times as much.
 */
const SLOW_PER_SECOND = 1

const NO_LOSS = { of: 'ratio', target: 0.95, stretch: 0.98 } as const

/** How much a thousand listeners slow ingestion down, each following one user, or everything. */
export const live: Benchmark = async (bench) => {
  const { servers, seconds } = bench
  const clickhouse = await servers.clickhouse()
  const service = await servers.tallyhouse(clickhouse)
  const store = new Store(clickhouse)
  const requests = await writeRequests(servers.folder, batches())
  const stretch = { url: service.url, requests, connections: CONNECTIONS, seconds }
  const options = { unit: 'events/s', over: 'without listeners', goal: NO_LOSS } as const
  const full = bench.figure(`accepted with ${LISTENERS} listeners`, options)
  const paced = bench.figure(`accepted of ${PER_SECOND * BATCH}/s with ${LISTENERS} listeners`, options)
  const latency = bench.figure('p99 of these batches', { unit: 'ms', over: 'without listeners' })
  const sent = bench.figure('sent to listeners of everything', { unit: 'events/s' })

  await load(servers, { ...stretch, seconds: WARM_UP_SECONDS })
  await eachRound(bench, store, async (round) => {
    const measure = async () => {
      const fast = await load(servers, stretch)
      await untilVisible(service.url)
      const even = await pacedLoad(servers, { ...stretch, perSecond: PER_SECOND })
      await untilVisible(service.url)
      return { fast, even }
    }
    const listened = () => listening(bench, service, 'users', measure)
    // The order alternates, because the store grows.
    const first = round % 2 === 0 ? null : await listened()
    const without = await measure()
    const { result, seen } = first ?? (await listened())
    full(result.fast.perSecond * BATCH, without.fast.perSecond * BATCH)
    paced(result.even.perSecond * BATCH, without.even.perSecond * BATCH)
    latency(result.even.p99, without.even.p99)
    if (seen.broken > 0) bench.note(`${seen.broken} of ${LISTENERS} listeners were cut off`)
    sent(await toEveryone(bench, service, stretch))
  })
}

/**
 * Sends everything to everyone, at a rate that the loopback interface can carry.
 * @returns events per second, over all listeners
 */
async function toEveryone(bench: Bench, service: Running, stretch: Stretch): Promise<number> {
  const { servers } = bench
  const startedAt = performance.now()
  const { seen } = await listening(bench, service, 'all', async () => {
    const { requests } = await pacedLoad(servers, { ...stretch, perSecond: SLOW_PER_SECOND })
    await untilVisible(service.url)
    return requests
  })
  return seen.events / ((performance.now() - startedAt) / 1000)
}

interface Seen {
  events: number
  broken: number
}

/** Runs a task while listeners hold their streams open. */
async function listening<T>(
  { servers }: Bench,
  { url }: Running,
  kind: 'users' | 'all',
  run: () => Promise<T>,
): Promise<{ result: T; seen: Seen }> {
  const args = [programFile('listen'), url, String(LISTENERS), kind]
  const child = servers.spawn('the listeners', process.execPath, args)
  await said(child, /(listening)/)
  const result = await run()
  child.process.kill('SIGTERM')
  const [, seen = ''] = await said(child, /^(\{.*\})$/m)
  await once(child.process, 'close')
  return { result, seen: JSON.parse(seen) }
}

/** All users have the same number of events. */
function batches() {
  return Array.from({ length: 100 }, (_, batch) => {
    const events = Array.from({ length: BATCH }, (_, i) => ({
      event: `event ${i % 20}`,
      distinct_id: `user-${(batch * BATCH + i * 7) % LISTENERS}`,
      properties: {
        path: `/page/${batch}/${i}`,
        referrer: 'https://example.com/',
        plan: 'pro',
        price: 9.9,
        width: 1280,
      },
    }))
    return { method: 'POST' as const, path: '/public/track/batch', body: JSON.stringify({ events }) }
  })
}

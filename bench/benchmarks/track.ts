import { type Benchmark, eachRound, untilVisible, WARM_UP_SECONDS } from '../benchmark.js'
import { call } from '../calls.js'
import { spreadOf } from '../figures.js'
import { load, pacedLoad } from '../load.js'
import { pageSingles, singles, writeRequests } from '../requests.js'
import { Store } from '../store.js'

const CONNECTIONS = 64
/** Far from reached: what is measured is the counting. */
const QUOTA = { limit: 1_000_000_000_000, mode: 'hard' }

/** Single events: how many per second, and the response time at half of that rate. */
export const track: Benchmark = async (bench) => {
  const { servers, seconds } = bench
  const clickhouse = await servers.clickhouse()
  // All calls with a write key come from one address here.
  const embedded = await servers.tallyhouse(clickhouse, { ...(await servers.embeddedJournal()), ADDRESS_LIMIT: '0' })
  const [service, bare] = await Promise.all([servers.tallyhouse(clickhouse), servers.program('bare')])
  const store = new Store(clickhouse)
  const requests = await writeRequests(servers.folder, await singles())
  const ofPages = await writeRequests(servers.folder, await pageSingles(embedded.url))
  const stretch = { requests, connections: CONNECTIONS, seconds }
  const goal = { of: 'ratio', target: 0.75, stretch: 0.85 } as const
  const accepted = bench.figure('accepted', { unit: 'req/s', over: 'bare route', goal })
  const acceptedEmbedded = bench.figure('accepted, embedded journal', {
    unit: 'req/s',
    over: 'bare route',
    goal: { of: 'ratio', target: 0.7, stretch: 0.85 },
  })
  const acceptedOfPages = bench.figure('accepted with a write key, embedded journal', {
    unit: 'req/s',
    over: 'a secret key',
    goal: { of: 'ratio', target: 0.85, stretch: 0.95 },
  })
  const acceptedCounted = bench.figure('accepted with quotas, embedded journal', {
    unit: 'req/s',
    over: 'no quota',
    goal: { of: 'ratio', target: 0.97, stretch: 0.99 },
  })
  const setQuotas = async (quota: typeof QUOTA | null) => {
    const quotas = { events_per_month: quota, events_per_day: quota, stored_bytes: quota }
    await call(embedded.url, { method: 'PATCH', path: '/public/project', body: JSON.stringify({ quotas }) })
  }
  const median = bench.figure('p50 at half of the rate', {
    unit: 'ms',
    over: 'bare route',
    goal: { of: 'ratio', target: 2, stretch: 1.5 },
  })
  const tail = bench.figure('p99 at half of the rate', {
    unit: 'ms',
    over: 'bare route',
    goal: { of: 'ratio', target: 3, stretch: 2 },
  })

  for (const { url } of [bare, service, embedded]) await load(servers, { ...stretch, url, seconds: WARM_UP_SECONDS })
  await load(servers, { ...stretch, requests: ofPages, url: embedded.url, seconds: WARM_UP_SECONDS })
  for (const { url } of [service, embedded]) await untilVisible(url)

  const rates: number[] = []
  await eachRound(bench, store, async () => {
    const limit = await load(servers, { ...stretch, url: bare.url })
    const ours = await load(servers, { ...stretch, url: service.url })
    await untilVisible(service.url)
    accepted(ours.perSecond, limit.perSecond)
    rates.push(ours.perSecond)
    const alone = await load(servers, { ...stretch, url: embedded.url })
    await untilVisible(embedded.url)
    acceptedEmbedded(alone.perSecond, limit.perSecond)
    await setQuotas(QUOTA)
    const counted = await load(servers, { ...stretch, url: embedded.url })
    await untilVisible(embedded.url)
    acceptedCounted(counted.perSecond, alone.perSecond)
    await setQuotas(null)
    const pages = await load(servers, { ...stretch, requests: ofPages, url: embedded.url })
    await untilVisible(embedded.url)
    acceptedOfPages(pages.perSecond, alone.perSecond)
  })

  const perSecond = Math.round(spreadOf(rates).median / 2)
  await eachRound(bench, store, async () => {
    const limit = await pacedLoad(servers, { ...stretch, url: bare.url, perSecond })
    const ours = await pacedLoad(servers, { ...stretch, url: service.url, perSecond })
    await untilVisible(service.url)
    median(ours.p50, limit.p50)
    tail(ours.p99, limit.p99)
  })
}

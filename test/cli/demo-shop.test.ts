import t from 'tap'
import { type Sent, shopYear } from '../../src/cli/demo/shop.js'
import type { Context } from '../../src/contract/context.js'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const MIDNIGHT = Date.UTC(2026, 3, 24)

interface Event {
  context: Context
  event: string
  distinct_id: string
  timestamp: number
  insert_id: string
  session_id: string
  properties: Record<string, unknown>
}

const eventsIn = (sent: Iterable<Sent>) =>
  [...sent].flatMap((one) => (one.type === 'event' ? [one.event as unknown as Event] : []))

t.test('the year ends at the given time, and its last day has its share', async (t) => {
  const options = { events: 12_000, seed: 1 }
  for (const hours of [0, 15, 24]) {
    const until = MIDNIGHT + hours * HOUR_MS
    const times = eventsIn(shopYear({ ...options, until })).map(({ timestamp }) => timestamp)
    t.equal(times.length, options.events)
    t.ok(Math.max(...times) <= until)
    t.ok(Math.min(...times) >= MIDNIGHT - 365 * DAY_MS)
    const onDay = (day: number) => times.filter((at) => Math.floor(at / DAY_MS) === MIDNIGHT / DAY_MS + day).length
    t.ok(onDay(-1) > 20, `${onDay(-1)} on the day before`)
    if (hours === 15) t.ok(onDay(0) > 4, `${onDay(0)} until three in the afternoon`)
    if (hours === 24) t.ok(onDay(0) > 20, `${onDay(0)} on the whole day`)
  }
  const visits = [...shopYear({ ...options, until: MIDNIGHT })]
  t.strictSame(visits, [...shopYear({ ...options, until: MIDNIGHT })], 'the same options make the same data')
})

t.test('visits look like visits to a real shop', async (t) => {
  const events = eventsIn(shopYear({ events: 30_000, seed: 1, until: MIDNIGHT }))
  const bySession = new Map<string, Event[]>()
  for (const event of events) bySession.set(event.session_id, [...(bySession.get(event.session_id) ?? []), event])
  const all = [...bySession.values()]
  const isBot = ([first]: Event[]) => first?.context.bot === true
  const visits = all.filter((visit) => !isBot(visit))
  const isBounce = (visit: Event[]) => visit.length === 1
  const share = (part: readonly unknown[], all: readonly unknown[]) => part.length / all.length
  const bots = share(all.filter(isBot), all)
  t.ok(bots > 0.01 && bots < 0.03, `${bots} are bots`)
  const contextsWith = (field: keyof Context, value: string) =>
    share(
      visits.filter(([first]) => first?.context[field] === value),
      visits,
    )
  t.ok(contextsWith('country', 'US') > contextsWith('country', 'DE'), 'more people live in the USA')
  t.ok(contextsWith('country', 'DE') > contextsWith('country', 'AT'))
  t.ok(contextsWith('device', 'mobile') > contextsWith('device', 'desktop'), 'most use their telephones')
  t.ok(
    visits.every(([first]) => first?.context.country === first?.properties.country),
    'the properties say the same',
  )

  const bounceRate = share(visits.filter(isBounce), visits)
  t.ok(bounceRate > 0.35 && bounceRate < 0.55, `${bounceRate} bounce`)

  t.ok(
    visits.every(([first]) => first?.event === '$pageview'),
    'a visit begins with a page view',
  )
  const pauses = visits.flatMap((visit) =>
    visit.slice(1).map((event, i) => event.timestamp - (visit[i]?.timestamp ?? 0)),
  )
  t.ok(Math.min(...pauses) >= 0 && Math.max(...pauses) < 30 * 60_000, 'no pause would end a session')
  const lengths = visits
    .filter((visit) => !isBounce(visit))
    .map((visit) => ((visit.at(-1)?.timestamp ?? 0) - (visit[0]?.timestamp ?? 0)) / 1000)
    .sort((a, b) => a - b)
  const median = lengths[Math.floor(lengths.length / 2)] ?? 0
  const mean = lengths.reduce((sum, length) => sum + length, 0) / lengths.length
  t.ok(median > 60 && median < 240, `the median is ${median} s`)
  t.ok(mean > 1.3 * median, 'a few are much longer than most')

  const entries = visits.map(([first]) => first?.properties ?? {})
  t.ok(
    share(
      entries.filter(({ utm_source }) => utm_source !== undefined),
      entries,
    ) > 0.1,
    'campaigns',
  )
  t.ok(
    share(
      entries.filter(({ referrer }) => /google/.test(String(referrer))),
      entries,
    ) > 0.1,
    'search',
  )
  t.ok(
    share(
      entries.filter(({ referrer }) => referrer === undefined),
      entries,
    ) > 0.3,
    'direct visits',
  )
  for (const { url, utm_source } of entries) {
    if (!String(url).includes(`utm_source=${utm_source}`) && utm_source !== undefined) t.fail(`${url}, ${utm_source}`)
  }

  const inHours = (from: number, to: number) =>
    events.filter(({ timestamp, properties: { country } }) => {
      const hour = (timestamp / HOUR_MS) % 24
      return country === 'GB' && hour >= from && hour < to
    }).length
  t.ok(inHours(18, 21) > 4 * inHours(2, 5), 'few people shop at night')
  const purchases = events.filter(({ event }) => event === 'purchased')
  for (const { session_id, properties } of purchases) {
    const { product, price, items } = properties
    const inCart = bySession.get(session_id)?.findLast(({ event }) => event === 'added to cart')?.properties ?? {}
    const { price: each, quantity } = inCart as { price: number; quantity: number }
    const isSame = inCart.product === product && quantity === items && Math.abs(each * quantity - Number(price)) < 0.01
    if (!isSame) t.fail(`${JSON.stringify(properties)} was not in the cart`)
  }
  const bought = new Set(purchases.map(({ session_id }) => session_id))
  const added = new Set(events.filter(({ event }) => event === 'added to cart').map(({ session_id }) => session_id))
  t.ok(bought.size > 100 && [...bought].every((id) => added.has(id)), 'purchases were in the cart')
  t.ok(added.size > 1.5 * bought.size, 'many carts are left')
})

t.test('each customer has a name and an address', async (t) => {
  const customers = [...shopYear({ events: 12_000, seed: 1, until: MIDNIGHT })].flatMap((sent) =>
    sent.type === 'customer' ? [sent.properties as Record<string, unknown>] : [],
  )
  t.ok(customers.length > 100)
  for (const { name, email } of customers) {
    t.match(name, /^\p{Lu}\p{Ll}+ \p{Lu}\p{Ll}+$/u)
    t.match(email, /^[a-z]+\.[a-z]+\.\d+@example\.com$/)
  }
  t.equal(new Set(customers.map(({ email }) => email)).size, customers.length)
})

import { Random } from './random.js'

const DAY_MS = 86_400_000
const DAYS = 365
/** The pause between two events of a visit is the minimum plus a random part of the maximum. */
const MIN_PAUSE_MS = 2_000
const MAX_PAUSE_MS = 120_000
const COUNTRIES = ['US', 'DE', 'GB', 'FR', 'AT', 'JP', 'BR', 'IN', 'ES', 'SE'] as const
const DEVICES = ['mobile', 'desktop', 'tablet'] as const
const PLANS = ['free', 'pro', 'team'] as const
const SOURCES = ['google', 'newsletter', 'instagram', 'partner'] as const
const PATHS = ['/', '/products', '/sale', '/about', '/help'] as const
const CATEGORIES = ['coffee', 'tea', 'mugs', 'grinders', 'gifts'] as const
const SEARCHES = ['espresso', 'green tea', 'gift', 'Mühle', '抹茶', 'filter', ''] as const
/** Relative traffic from Sunday to Saturday. */
const WEEK = [1.15, 0.95, 0.9, 0.92, 1, 1.05, 1.2]
/** Relative traffic from January to December. */
const YEAR = [0.9, 0.85, 0.95, 1, 0.95, 0.85, 0.75, 0.8, 1, 1.1, 1.45, 1.6]

export interface ShopOptions {
  events: number
  seed: number
  /** the end of the year, in epoch ms; the part of its UTC day before it is added to the year */
  until: number
  /**
   * when the shop began; keeps the ids of its events apart from those of a shop that was removed before. Absent if
   * the shop is never removed
   */
  begun?: number | undefined
}

/** A call that the shop's own program would make. */
export type Sent =
  | { type: 'event'; event: object }
  | { type: 'profile'; distinct_id: string; properties: object }
  | { type: 'alias'; distinct_id: string; alias: string }

interface Visit {
  person: Person
  at: number
  events: number
}

interface Person {
  id: number
  country: string
  device: string
  plan: string
  source: string | null
  stage: 'visitor' | 'customer' | 'active'
}

/**
 * Generates a year of a shop in the order of time: exactly `events` events of people who visit, sign up, activate,
 * buy, and mostly churn.
 */
export function* shopYear({ events, seed, until, begun }: ShopOptions): Generator<Sent, void, undefined> {
  const random = new Random(seed)
  const shop = [seed, events, ...(begun === undefined ? [] : [begun])].join('-')
  let n = 0
  for (const visit of planVisits(events, until, random)) {
    for (const sent of visited(visit, random)) {
      if (sent.type === 'event') {
        // A rerun sends the same ids, so the service stores nothing twice.
        yield { type: 'event', event: { ...sent.event, insert_id: `demo-${shop}-${n++}` } }
      } else yield sent
    }
  }
}

/** Plans visits, in the order of time, that have this many events together. */
function planVisits(events: number, until: number, random: Random): Visit[] {
  const start = Math.floor(until / DAY_MS) * DAY_MS - DAYS * DAY_MS
  const days = Math.ceil((until - start) / DAY_MS)
  const first = firstDays(start, days)
  const visits: Visit[] = []
  for (let left = events, id = 1; left > 0; id++) {
    const person = newPerson(id, random)
    // Most people come once or twice; some keep coming, at growing intervals.
    const loyalty = random.next() ** 2
    for (let day = first(random.next()), visit = 0; day < days && left > 0; visit++) {
      const count = Math.min(left, 1 + random.below(9))
      // In the daytime, and more often in the evening.
      const at = start + (day + 0.25 + 0.7 * Math.max(random.next(), random.next() ** 2)) * DAY_MS
      if (at + count * (MIN_PAUSE_MS + MAX_PAUSE_MS) > until) break
      visits.push({ person, at: Math.floor(at), events: count })
      left -= count
      if (!random.chance(0.5 + 0.49 * loyalty)) break
      day += 1 + Math.floor(-Math.log(1 - random.next()) * (2 + visit * 0.4))
    }
  }
  return visits.sort((a, b) => a.at - b.at || a.person.id - b.person.id)
}

/**
 * Returns a function that maps a share from 0 to 1 to a day of the first visit, weighted by weekday, month, and
 * growth to three times the traffic.
 */
function firstDays(start: number, days: number): (share: number) => number {
  let total = 0
  const ends = Array.from({ length: days }, (_, day) => {
    const date = new Date(start + day * DAY_MS)
    total += (WEEK[date.getUTCDay()] ?? 1) * (YEAR[date.getUTCMonth()] ?? 1) * (1 + (2 * day) / DAYS)
    return total
  })
  return (share) => ends.findIndex((end) => end > share * total)
}

function newPerson(id: number, random: Random): Person {
  return {
    id,
    country: random.early(COUNTRIES),
    device: random.early(DEVICES),
    plan: random.early(PLANS),
    source: random.chance(0.4) ? random.early(SOURCES) : null,
    stage: 'visitor',
  }
}

function* visited({ person, at, events }: Visit, random: Random): Generator<Sent, void, undefined> {
  let time = at
  const isBuying = person.stage === 'active' && random.chance(0.3)
  for (let i = 0; i < events; i++) {
    const isLast = i === events - 1
    if (person.stage === 'visitor' && i >= 2 && random.chance(0.06)) {
      yield event(person, 'signed up', time, { plan: person.plan, trial: person.plan !== 'free' })
      yield* signedUp(person, time)
    } else if (person.stage === 'customer' && random.chance(0.15)) {
      person.stage = 'active'
      yield event(person, 'activated', time, { steps_done: 3 + random.below(3) })
    } else if (isBuying && isLast) yield event(person, 'purchased', time, purchase(random))
    else if (isBuying && i === events - 2)
      yield event(person, 'checkout started', time, { express: random.chance(0.3) })
    else yield event(person, ...browsing(time, random))
    time += MIN_PAUSE_MS + random.below(MAX_PAUSE_MS)
  }
}

function* signedUp(person: Person, at: number): Generator<Sent, void, undefined> {
  const { country, plan, id } = person
  person.stage = 'customer'
  yield { type: 'alias', distinct_id: `customer-${id}`, alias: `visitor-${id}` }
  const properties = { plan, country, signed_up_on: new Date(at).toISOString().slice(0, 10) }
  yield { type: 'profile', distinct_id: `customer-${id}`, properties }
}

function browsing(at: number, random: Random): [name: string, at: number, properties: object] {
  const kind = random.next()
  if (kind < 0.5) return ['page viewed', at, { path: random.early(PATHS) }]
  if (kind < 0.6) return ['searched', at, { query: random.early(SEARCHES), results: random.below(40) }]
  const category = random.early(CATEGORIES)
  const price = 5 + random.below(9_500) / 100
  if (kind < 0.87) return ['product viewed', at, { category, price, tags: [category, random.early(['new', 'sale'])] }]
  return ['added to cart', at, { category, price, quantity: 1 + random.early([0, 1, 2, 3]) }]
}

/** Makes properties with the oddities of real data: sometimes a number as a string, a null, or an object. */
function purchase(random: Random): object {
  const price = 8 + random.below(20_000) / 100
  return {
    price: random.chance(0.002) ? price.toFixed(2) : price,
    items: 1 + random.early([0, 1, 2, 3, 4]),
    coupon: random.chance(0.15) ? random.early(['WELCOME10', 'FREESHIP', 'VIP']) : null,
    payment: { method: random.early(['card', 'paypal', 'invoice']), retries: random.early([0, 0, 0, 1]) },
  }
}

function event({ id, stage, country, device, source }: Person, name: string, timestamp: number, own: object): Sent {
  const distinct_id = stage === 'visitor' ? `visitor-${id}` : `customer-${id}`
  const properties = { ...own, country, device, ...(source !== null && { utm: { source } }) }
  return { type: 'event', event: { event: name, distinct_id, timestamp, properties } }
}

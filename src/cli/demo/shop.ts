import { DAY_MS, HOUR_MS } from '../../contract/durations.js'
import { type Client, findSource, makeBot, makeClient, makeName, type Source, toUtmParameters } from './audience.js'
import {
  ACCOUNT,
  browse,
  CART,
  CHECKOUT,
  chooseItem,
  findPage,
  type Item,
  look,
  type Page,
  SIGN_UP,
  type Step,
  THANKS,
  toUrl,
} from './pages.js'
import { Random, weighted } from './random.js'

const DAYS = 365
/** Share of visits made by bots. */
const BOTS = 0.02
const PLANS = ['free', 'pro', 'team'] as const
/** Relative traffic from Sunday to Saturday. */
const WEEK = [1.15, 0.95, 0.9, 0.92, 1, 1.05, 1.2]
/** Relative traffic from January to December. */
const YEAR = [0.9, 0.85, 0.95, 1, 0.95, 0.85, 0.75, 0.8, 1, 1.1, 1.45, 1.6]
/** Relative traffic of the hours from midnight, local time. */
const DAY = [12, 7, 4, 3, 3, 5, 12, 24, 36, 42, 45, 46, 52, 48, 44, 44, 47, 52, 60, 70, 78, 74, 52, 28]
const HOURS = weighted(DAY.map((weight, hour) => [weight, hour] as const))

export interface ShopOptions {
  events: number
  seed: number
  /**
   * the end of the year, epoch ms; the year starts at midnight UTC, so it is longer by the time since the last midnight
   */
  until: number
  /**
   * when the shop began; keeps the ids of its events apart from the ids of a shop that was removed before. Absent if
   * the shop is never removed
   */
  begun?: number | undefined
}

/** What the shop sends. */
export type Sent =
  | { type: 'event'; event: object }
  /** a user signs up: their profile, and their earlier name */
  | { type: 'customer'; distinct_id: string; alias: string; properties: object; timestamp: number }

type Stage = 'visitor' | 'customer' | 'active'

interface Person {
  id: string
  client: Client
  plan: string
  /** the source of their first visit */
  source: string | undefined
}

interface Visit {
  person: Person
  /** the visits of a person, from 0 */
  index: number
  isCustomer: boolean
  source: Source
  /** epoch ms */
  at: number
  /** from its first event to its last, in ms */
  length: number
  events: number
  aim: Aim
  /** seed of everything that happens in it */
  seed: number
}

/** The purpose of a visit. */
type Aim = 'look' | 'sign up' | 'start' | 'activate' | 'buy' | 'abandon'

/** Stages to which aims lead. */
const NEXT_STAGES: { [aim in Aim]?: Stage } = { 'sign up': 'customer', start: 'active', activate: 'active' }

/** Number of events at the end of a visit that its aim requires. */
const AIM_EVENTS: Record<Aim, number> = { look: 0, 'sign up': 3, start: 4, activate: 2, buy: 8, abandon: 6 }

/**
 * Generates a year of a shop, by the starts of visits: exactly `events` events of people who visit, sign up, activate,
 * buy, and mostly churn.
 */
export function* shopYear({ events, seed, until, begun }: ShopOptions): Generator<Sent, void, undefined> {
  const shop = [seed, events, ...(begun === undefined ? [] : [begun])].join('-')
  let n = 0
  // A rerun sends the same ids, so the service stores nothing twice.
  const makeId = () => `demo-${shop}-${n++}`
  for (const visit of planVisits(events, until, new Random(seed))) yield* happen(visit, seed, makeId)
}

/** Plans visits, in chronological order, with this many events in total. */
function planVisits(events: number, until: number, random: Random): Visit[] {
  const start = Math.floor(until / DAY_MS) * DAY_MS - DAYS * DAY_MS
  const days = Math.ceil((until - start) / DAY_MS)
  const first = firstDays(start, days)
  const visits: Visit[] = []
  let left = events
  const plan = (visit: Visit) => {
    if (left === 0 || visit.at + visit.length > until) return false
    visit.events = Math.min(visit.events, left)
    left -= visit.events
    return visits.push(visit) > 0
  }
  for (let id = 1; left > 0; id++) {
    const person = newPerson(String(id), makeClient(random), random)
    // Most people come once or twice; some keep coming, at growing intervals.
    const loyalty = random.next() ** 2
    let stage: Stage = 'visitor'
    for (let day = first(random.next()), index = 0; day < days; index++) {
      const visit = planVisit({ person, index, stage }, start + day * DAY_MS, random)
      if (!plan(visit)) break
      stage = NEXT_STAGES[visit.aim] ?? stage
      if (random.chance(BOTS)) plan(planBot(start + day * DAY_MS, random))
      if (!random.chance(0.5 + 0.49 * loyalty)) break
      day += 1 + Math.floor(-Math.log(1 - random.next()) * (2 + index * 0.4))
    }
  }
  return visits.sort((a, b) => a.at - b.at || a.seed - b.seed)
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

function newPerson(id: string, client: Client, random: Random): Person {
  return { id, client, plan: random.early(PLANS), source: undefined }
}

function planVisit(
  { person, index, stage }: { person: Person; index: number; stage: Stage },
  day: number,
  random: Random,
): Visit {
  const source = findSource(random, index > 0)
  if (index === 0) person.source = source.utm?.source
  const aim = findAim(stage, random)
  const bounces = source.bounces * (stage === 'visitor' ? 1 : 0.75)
  const isBounce = aim === 'look' && random.chance(bounces)
  const events = isBounce ? 1 : 2 + Math.floor(-Math.log(1 - random.next()) * 4) + AIM_EVENTS[aim]
  const hour = (random.pick(HOURS) + random.next() - person.client.offset + 24) % 24
  const at = day + Math.floor(hour * HOUR_MS)
  const length = drawLength(events, random)
  return { person, index, isCustomer: stage !== 'visitor', source, at, length, events, aim, seed: random.seed() }
}

function findAim(stage: Stage, random: Random): Aim {
  const share = random.next()
  if (stage === 'visitor') return share < 0.07 ? 'sign up' : share < 0.12 ? 'start' : 'look'
  if (stage === 'customer') return share < 0.5 ? 'activate' : 'look'
  return share < 0.3 ? 'buy' : share < 0.45 ? 'abandon' : 'look'
}

/** Draws how long a visit is, in ms. Even the longest has no pause of half an hour, which would end its session. */
function drawLength(events: number, random: Random): number {
  const pauses = events - 1
  if (pauses === 0) return 0
  const minutes = random.logNormal(0.6 * pauses ** 0.8, 0.9)
  return Math.floor(Math.min(minutes, 12 * pauses, 60) * 60_000)
}

function planBot(day: number, random: Random): Visit {
  const person = { id: `bot-${1 + random.below(200)}`, client: makeBot(random), plan: '', source: undefined }
  const events = 1 + random.below(4)
  return {
    person,
    index: random.seed(),
    isCustomer: false,
    source: { links: ['/', '/products', '/guides/which-grinder'], bounces: 1 },
    at: day + random.below(DAY_MS),
    length: (events - 1) * 1500,
    events,
    aim: 'look',
    seed: random.seed(),
  }
}

/**
 * Generates everything that a visit sends.
 * @param shop the seed of the shop
 * @param makeId makes the insert_id of the next event
 */
function* happen(visit: Visit, shop: number, makeId: () => string): Generator<Sent, void, undefined> {
  const { person, index, aim, source, events } = visit
  let { isCustomer } = visit
  const random = new Random(visit.seed)
  const times = drawTimes(visit, random)
  const session_id = `${shop}-${person.id}-${index}`
  const utm = toUtmParameters(source, visit.at)
  let sent = 0
  let previous = source.referrer
  const event = (name: string, own: object): Sent => {
    const { client, source } = person
    const { country, device, context } = client
    const distinct_id = isCustomer ? `customer-${person.id}` : `visitor-${person.id}`
    const timestamp = times[sent++] ?? visit.at
    const properties: Record<string, unknown> = { ...own }
    if (!context.bot) Object.assign(properties, { country, device })
    if (source !== undefined) properties.utm = { source }
    // The context comes first, because that is where the service looks for it.
    const event = { context, event: name, distinct_id, timestamp, insert_id: makeId(), session_id, properties }
    return { type: 'event', event }
  }
  const open = (page: Page, parameters: Record<string, string> = {}): Sent => {
    const url = toUrl(page, parameters)
    const referrer = previous
    previous = url
    return event('$pageview', { url, title: page.title, ...(referrer !== undefined && { referrer }), ...parameters })
  }
  function* take({ page, events: own }: Step, end: number): Generator<Sent, void, undefined> {
    if (sent < end) yield open(page)
    for (const { name, properties } of own) if (sent < end) yield event(name, properties)
  }

  yield open(findPage(random.early(source.links)), utm)
  const rest = events - AIM_EVENTS[aim]
  while (sent < rest) {
    if (person.client.context.bot) yield open(findPage(random.early(source.links)))
    else yield* take(browse(random), rest)
  }
  for (const step of finish(aim, person, random)) {
    yield* take(step, events)
    if (step.page !== SIGN_UP) continue
    isCustomer = true
    yield signUp(person, random, times[sent - 1] ?? visit.at)
  }
}

/** Draws the times of a visit's events, evenly spaced on average. */
function drawTimes({ at, length, events }: Visit, random: Random): number[] {
  const pauses = Array.from({ length: events - 1 }, () => 0.5 + random.next())
  const total = pauses.reduce((sum, pause) => sum + pause, 0)
  const times = [at]
  let passed = 0
  for (const pause of pauses) {
    passed += pause
    times.push(at + Math.floor((passed / total) * length))
  }
  return times
}

/** Makes the steps at the end of a visit, which lead to its aim. */
function finish(aim: Aim, { plan }: Person, random: Random): Step[] {
  const signedUp = { page: SIGN_UP, events: [{ name: 'signed up', properties: { plan, trial: plan !== 'free' } }] }
  const activated = { page: ACCOUNT, events: [{ name: 'activated', properties: { steps_done: 3 + random.below(3) } }] }
  switch (aim) {
    case 'look':
      return []
    case 'sign up':
      return [signedUp, { page: ACCOUNT, events: [] }]
    case 'start':
      return [signedUp, activated]
    case 'activate':
      return [activated]
    case 'buy':
    case 'abandon': {
      const started = { name: 'checkout started', properties: { express: random.chance(0.3) } }
      const item = chooseItem(random)
      const bought = { name: 'purchased', properties: purchase(item, random) }
      return [
        look(item, random, true),
        { page: CART, events: [] },
        { page: CHECKOUT, events: aim === 'buy' ? [started, bought] : [started] },
        ...(aim === 'buy' ? [{ page: THANKS, events: [] }] : []),
      ]
    }
  }
}

function signUp({ id, plan, client }: Person, random: Random, timestamp: number): Sent {
  const signed_up_on = new Date(timestamp).toISOString().slice(0, 10)
  const properties = { ...makeName(id, random), plan, country: client.country, signed_up_on }
  return { type: 'customer', distinct_id: `customer-${id}`, alias: `visitor-${id}`, properties, timestamp }
}

/** Makes properties with the oddities of real data: sometimes a number as a string, a null, or an object. */
function purchase({ product, category, price, quantity }: Item, random: Random): object {
  const total = (price * quantity).toFixed(2)
  return {
    product,
    category,
    price: random.chance(0.002) ? total : Number(total),
    items: quantity,
    coupon: random.chance(0.15) ? random.early(['WELCOME10', 'FREESHIP', 'VIP']) : null,
    payment: { method: random.early(['card', 'paypal', 'invoice']), retries: random.early([0, 0, 0, 1]) },
  }
}

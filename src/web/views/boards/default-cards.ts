import type { BoardCard, EventName } from '../../../contract/responses.js'
import type { Preset } from '../../lib/question.js'
import { addDays, formatDateIn } from '../../lib/range.js'

const DAY_MS = 86_400_000
/** Default range in days, unless the data is younger. */
const USUAL_DAYS = 30
const USUAL_RANGE = '30d'
/** Minimum share of all events for a funnel step. */
const MIN_SHARE = 0.002
const MAX_STEPS = 4
/** In larger projects, finding each user's first event takes too long. */
const LARGE = 1_000_000
/** Events about sessions and tooling rather than user actions. */
const TECHNICAL = /^(?:\$(?!pageview|screen)|session[ _](?:start|end)|.*(?:heartbeat|ping|error|autocapture))/i

/** A relative range is in `display.range`, a fixed one in `dates`. */
interface Period {
  dates: { from?: string; to?: string }
  display: { range?: Preset }
  /** whether it is too short for weekly cohorts */
  isShort: boolean
}

/** Settings shared by the cards of a board. */
interface Board {
  timezone: string
  period: Period
}

/**
 * Suggests the cards of a first board, based on the events of the project.
 * @param events the most frequent first
 * @param now epoch ms
 */
export function suggestCards(events: EventName[], timezone: string, now: number): BoardCard[] {
  if (events.length === 0) return []
  const period = choosePeriod(events, timezone, now)
  const board = { timezone, period }
  const isFixed = period.dates.from !== undefined
  const isLarge = events.reduce((sum, { count }) => sum + count, 0) > LARGE
  return [
    ...buildUsualCards(board),
    ...suggestFunnel(events).map((question) =>
      buildCard(board, 'funnel', 'From one event to the next', 2, question, 'funnel'),
    ),
    buildCard(
      board,
      'retention',
      'Users who come back',
      events.length > 1 ? 4 : 2,
      buildRetention(period.isShort, isLarge),
      'grid',
      { ...(!period.isShort && !isFixed && !isLarge && { range: '90d' }) },
    ),
  ]
}

/** The first of these cards, which suit most projects, shown before the events are known. */
export function suggestUsualCards(timezone: string): BoardCard[] {
  return buildUsualCards({ timezone, period: { dates: {}, display: { range: USUAL_RANGE }, isShort: false } })
}

function buildUsualCards(board: Board): BoardCard[] {
  const isFixed = board.period.dates.from !== undefined
  const everyEvent = [{ event: '*' }]
  const totals = ['events', 'users', 'events_per_user'].map((metric) => ({ event: '*', metric }))
  const compare = !isFixed && { compare: true }
  const title = isFixed ? 'Totals' : 'Totals, and the period before'
  const byEvent = { breakdown: ['event'] }
  return [
    buildCard(board, 'totals', title, 4, buildSeries(totals, 'none'), 'number', { ...compare }),
    buildCard(board, 'users', 'Users', 2, buildSeries([{ event: '*', metric: 'users' }], 'day'), 'line'),
    buildCard(board, 'events', 'Events', 2, { ...buildSeries(everyEvent, 'day'), ...byEvent, limit: 6 }, 'area'),
    buildCard(
      board,
      'top',
      'Most frequent events',
      2,
      { ...buildSeries(everyEvent, 'none'), ...byEvent, limit: 8 },
      'bar',
    ),
  ]
}

function buildCard(
  { timezone, period }: Board,
  id: string,
  name: string,
  width: number,
  question: object,
  as: string,
  more = {},
): BoardCard {
  return {
    id,
    name,
    question: { ...question, timezone, ...period.dates } as BoardCard['question'],
    display: { ...period.display, as, ...more },
    width,
    height: null,
  }
}

function buildSeries(definitions: object[], interval: 'day' | 'none'): object {
  return { kind: 'series', series: definitions, interval }
}

/** @param isLarge uses recurring instead of first-time cohorts, and fewer intervals */
function buildRetention(isShort: boolean, isLarge: boolean): object {
  const anything = { event: '*' }
  const [unit, intervals] = isShort ? ['day', 7] : ['week', isLarge ? 4 : 8]
  const cohort = isLarge ? { cohort: 'recurring' } : {}
  return { kind: 'retention', start: anything, return: anything, unit, intervals, ...cohort }
}

/** A funnel of the most frequent events, in descending order, because counts decrease along a path. */
function suggestFunnel(events: EventName[]): object[] {
  const all = events.reduce((sum, { count }) => sum + count, 0)
  const steps = events
    .filter(({ event, count }) => event !== '' && count / all >= MIN_SHARE && !TECHNICAL.test(event))
    .slice(0, MAX_STEPS)
    .map(({ event }) => ({ event }))
  return steps.length < 2 ? [] : [{ kind: 'funnel', steps, window: '7d' }]
}

/** The most recent period with data; fixed dates if the data has ended. */
function choosePeriod(events: EventName[], timezone: string, now: number): Period {
  const first = Math.min(...events.map(({ first_seen }) => first_seen))
  // A device's clock may be ahead.
  const last = Math.min(now, Math.max(...events.map(({ last_seen }) => last_seen)))
  const isShort = last - first < 14 * DAY_MS
  if (now - last > USUAL_DAYS * DAY_MS) {
    const to = addDays(formatDateIn(timezone, last), 1)
    // Questions cannot start before 1970.
    const days = Math.min(isShort ? 14 : 3 * USUAL_DAYS, Math.floor(last / DAY_MS) + 1)
    return { dates: { from: addDays(to, -days), to }, display: {}, isShort }
  }
  return { dates: {}, display: { range: now - first < 7 * DAY_MS ? '7d' : USUAL_RANGE }, isShort }
}

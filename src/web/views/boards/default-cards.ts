import { DAY_MS } from '../../../contract/durations.js'
import type { SessionsDefinition } from '../../../contract/questions.js'
import type { EventName } from '../../../contract/responses.js'
import type { BoardCard } from '../../../contract/saved-schemas.js'
import { findPageViews, HAS_PAGE, NO_BOTS } from '../../lib/page-views.js'
import type { Display } from '../../lib/question.js'
import { addDays, formatDateIn, type RangeChoice } from '../../lib/range.js'

/** Default range in days, unless the data is younger. */
const USUAL_DAYS = 30
/** Minimum share of all events for a funnel step. */
const MIN_SHARE = 0.002
const MAX_STEPS = 4
/** In larger projects, finding each user's first event takes too long. */
const LARGE = 1_000_000
/** Events about sessions and tooling rather than user actions. */
const TECHNICAL = /^(?:\$(?!pageview|screen)|session[ _](?:start|end)|.*(?:heartbeat|ping|error|autocapture))/i

/** The data that the board is suggested for. */
export interface BoardData {
  /** the most frequent first */
  events: EventName[]
  /** the definition of a visit; null: the project's own */
  sessions: SessionsDefinition | null
}

/** A first board: its cards, and the period with data. */
export interface SuggestedBoard {
  cards: BoardCard[]
  display: Partial<RangeChoice>
}

/**
 * Suggests a first board, based on the events of the project.
 * @param now epoch ms
 */
export function suggestBoard({ events, sessions }: BoardData, timezone: string, now: number): SuggestedBoard {
  if (events.length === 0) return { cards: [], display: {} }
  const { display, isShort } = choosePeriod(events, timezone, now)
  const isLarge = events.reduce((sum, { count }) => sum + count, 0) > LARGE
  const cards = [
    ...buildUsualCards(display.from === undefined),
    ...(findPageViews(events).length > 0 ? buildSiteCards(sessions) : []),
    ...suggestFunnel(events).map((question) => buildCard('funnel', 'Funnel', 2, question, { as: 'funnel' })),
    buildCard('retention', 'Retention', events.length > 1 ? 4 : 2, buildRetention(isShort, isLarge), { as: 'grid' }),
  ]
  return { cards, display }
}

/** The first of the suggested cards, which suit most projects; shown until the events are known. */
export function suggestUsualBoard(): SuggestedBoard {
  return { cards: buildUsualCards(true), display: {} }
}

/** @param compare whether to compare to the previous period */
function buildUsualCards(compare: boolean): BoardCard[] {
  const everyEvent = [{ event: '*' }]
  const totals = ['events', 'users', 'events_per_user'].map((metric) => ({ event: '*', metric }))
  const byEvent = { breakdown: ['event'] }
  const users = buildSeries([{ event: '*', metric: 'users' }])
  return [
    buildCard('totals', 'Totals', 4, buildTotals(totals), { as: 'number', ...(compare && { compare }) }),
    buildCard('users', 'Active users', 2, users, { as: 'line' }),
    buildCard('events', 'Total events', 2, { ...buildSeries(everyEvent), ...byEvent, limit: 6 }, { as: 'area' }),
    buildCard('top', 'Top events', 2, { ...buildTotals(everyEvent), ...byEvent, limit: 8 }, { as: 'bar' }),
  ]
}

/** The first questions about a site, with the same numbers as the view Web. */
function buildSiteCards(sessions: SessionsDefinition | null): BoardCard[] {
  const visits = [{ event: '$session', where: ['and', [HAS_PAGE, NO_BOTS]] }]
  const own = sessions && { sessions }
  const bySource = { ...own, breakdown: ['page.source'], limit: 8 }
  // Numbers by pauses differ from those by the project's own definition.
  const how = sessions ? ', by pauses' : ''
  return [
    buildCard('visits', `Visits${how}`, 2, { ...buildSeries(visits), ...own }, { as: 'line' }),
    buildCard('sources', `Visits by source${how}`, 2, { ...buildTotals(visits), ...bySource }, { as: 'bar' }),
  ]
}

function buildCard(id: string, name: string, width: number, question: object, display: Display): BoardCard {
  return { id, name, question: question as BoardCard['question'], display: { ...display }, width, height: null }
}

function buildSeries(definitions: object[]): object {
  return { kind: 'series', series: definitions }
}

function buildTotals(definitions: object[]): object {
  return { ...buildSeries(definitions), interval: 'none' }
}

/** @param isLarge uses recurring instead of first-time cohorts */
function buildRetention(isShort: boolean, isLarge: boolean): object {
  const anything = { event: '*' }
  const [unit, intervals] = isShort ? ['day', 7] : ['week', 4]
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
function choosePeriod(
  events: EventName[],
  timezone: string,
  now: number,
): Pick<SuggestedBoard, 'display'> & { isShort: boolean } {
  const first = Math.min(...events.map(({ first_seen }) => first_seen))
  // A device's clock may be ahead.
  const last = Math.min(now, Math.max(...events.map(({ last_seen }) => last_seen)))
  const isShort = last - first < 14 * DAY_MS
  if (now - last > USUAL_DAYS * DAY_MS) {
    const to = addDays(formatDateIn(timezone, last), 1)
    // Questions cannot start before 1970.
    const days = Math.min(isShort ? 14 : 3 * USUAL_DAYS, Math.floor(last / DAY_MS) + 1)
    return { display: { from: addDays(to, -days), to }, isShort }
  }
  return { display: { range: now - first < 7 * DAY_MS ? '7d' : '30d' }, isShort }
}

import type { Filter } from '../../contract/filters.js'
import type { AnyAnswer, UsersPage } from '../../contract/questions.js'
import type { DrawnAnswer, DrillDown } from '../lib/answer-table.js'
import { buildRequest, buildRequestBefore, needsFirstEvent } from '../lib/build-request.js'
import { type AnswerBefore, alignBefore, chooseLimitBefore } from '../lib/period-before.js'
import type { Display } from '../lib/question.js'
import { call } from './call.js'
import { ConcurrencyLimit } from './concurrency-limit.js'
import type { ExactEvent } from './events.js'

/** The service runs this many questions of a project at a time; further ones would queue there and could be refused. */
const concurrency = new ConcurrencyLimit(2)

interface Turn {
  signal?: AbortSignal
  /** order among requests made at the same time, the smallest first */
  priority?: number
}

/** An answer, with the one about the previous period if the display asks for a comparison. */
export interface ComparedAnswer {
  answer: DrawnAnswer
  /** null without a comparison */
  before: AnswerBefore | null
}

/**
 * Runs a query.
 * @param question what `POST /public/query` takes; `from` and `to` come from `display` if it has none
 * @throws CallError
 */
export async function fetchAnswer(question: unknown, display: Display, turn: Turn = {}): Promise<ComparedAnswer> {
  const first = needsFirstEvent(question, display) ? await findFirstEvent() : null
  const moment = { now: Date.now(), first }
  const earlier = buildRequestBefore(question, display, moment)
  const current = postQuery(buildRequest(question, display, moment), turn)
  const [answer, before] = await Promise.all([current, earlier && fetchAnswerBefore(earlier.request, current, turn)])
  const isCompared = earlier !== null && answer.kind === 'series' && before?.kind === 'series'
  return { answer, before: isCompared ? alignBefore(answer, before, earlier.unit) : null }
}

/** The answer about the previous period. With a breakdown it has to wait until the values to compare are known. */
async function fetchAnswerBefore(request: object, current: Promise<DrawnAnswer>, turn: Turn): Promise<DrawnAnswer> {
  if (!('breakdown' in request)) return await postQuery(request, turn)
  const answer = await current
  return await postQuery(answer.kind === 'series' ? { ...request, limit: chooseLimitBefore(answer) } : request, turn)
}

let firstEvent: Promise<number | null> | null = null

/** The time of the project's first event in epoch ms; null if there is none. @throws CallError */
export async function findFirstEvent(): Promise<number | null> {
  // The cards of a board share one request. It is not cached for longer, because an import may add earlier events.
  firstEvent ??= fetchFirstEvent().finally(() => {
    firstEvent = null
  })
  return await firstEvent
}

async function fetchFirstEvent(): Promise<number | null> {
  const series = [{ event: '*', metric: 'min', property: 'timestamp' }]
  const answer = await postQuery({ kind: 'series', series, interval: 'none', from: '1970-01-01' }, {})
  return answer.kind === 'series' ? (answer.results[0]?.total ?? null) : null
}

/** Filters and breakdowns take 1000 values. The rest is for other events of the user at the same times. */
const ASKED_AT_ONCE = 500

/**
 * Finds the events that match a filter. Questions do not know ids, so of events with the same name and time, either all
 * match or none.
 * @throws CallError
 */
export async function findMatches(
  events: readonly ExactEvent[],
  where: Filter,
  signal: AbortSignal,
): Promise<Set<ExactEvent>> {
  const byTime = events.toSorted((a, b) => a.timestamp - b.timestamp)
  const parts = Array.from({ length: Math.ceil(byTime.length / ASKED_AT_ONCE) }, (_, i) =>
    byTime.slice(i * ASKED_AT_ONCE, (i + 1) * ASKED_AT_ONCE),
  )
  const matches = await Promise.all(parts.map((part) => findMatchesOf(part, where, signal)))
  return new Set(matches.flat())
}

async function findMatchesOf(events: ExactEvent[], where: Filter, signal: AbortSignal): Promise<ExactEvent[]> {
  const times = [...new Set(events.map(({ timestamp }) => timestamp))]
  const isOfUsers = ['is', 'distinct_id', [...new Set(events.map(({ distinct_id }) => distinct_id))]]
  const isAtTimes = ['is', 'timestamp', times]
  const question = {
    kind: 'series',
    series: [{ event: '*', where }],
    where: ['and', [isOfUsers, isAtTimes]],
    breakdown: ['event', 'timestamp'],
    limit: 1000,
    interval: 'none',
    from: Math.floor(Math.min(...times)),
    to: Math.floor(Math.max(...times)) + 1,
  }
  const answer = await postQuery(question, { signal })
  const lines = answer.kind === 'series' ? answer.results : []
  const found = new Set(lines.map(({ breakdown }) => JSON.stringify(breakdown)))
  return events.filter(({ event, timestamp }) => found.has(JSON.stringify([event, timestamp])))
}

async function postQuery(body: unknown, turn: Turn): Promise<DrawnAnswer> {
  const answer = await concurrency.run(() => call<AnyAnswer>('POST', '/public/query', body, turn.signal), turn)
  // Links and boards can have any question that the service takes.
  if (answer.kind !== 'users') return answer
  throw new Error('The page cannot show a list of users; ask for it with the API or with “tallyhouse query”.')
}

/** A page of the users behind a number. @throws CallError */
export async function listDrillDownUsers(
  drillDown: DrillDown,
  { page, limit }: { page: number; limit: number },
  signal?: AbortSignal,
): Promise<UsersPage> {
  const question = { kind: 'users', ...drillDown, limit, page }
  return (await call<{ results: UsersPage }>('POST', '/public/query', question, signal)).results
}

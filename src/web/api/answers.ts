import type { UsersPage } from '../../contract/questions.js'
import type { DrawnAnswer, DrillDown } from '../lib/answer-table.js'
import { buildRequest, buildRequestBefore } from '../lib/build-request.js'
import { type AnswerBefore, alignBefore, chooseLimitBefore } from '../lib/period-before.js'
import type { Display } from '../lib/question.js'
import { call } from './call.js'
import { ConcurrencyLimit } from './concurrency-limit.js'

/** The service runs this many queries of a project at a time; more would queue there and could be refused. */
const concurrency = new ConcurrencyLimit(2)

interface Turn {
  signal?: AbortSignal
  /** order among requests made at the same time, the smallest first */
  priority?: number
}

/** An answer, with the one for the previous period if the display asks for a comparison. */
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
  const now = Date.now()
  const earlier = buildRequestBefore(question, display, now)
  const current = postQuery(buildRequest(question, display, now), turn)
  const [answer, before] = await Promise.all([current, earlier && fetchAnswerBefore(earlier, current, turn)])
  const isCompared = answer.kind === 'series' && before?.kind === 'series'
  return { answer, before: isCompared ? alignBefore(answer, before) : null }
}

/** The answer about the period before. With a breakdown it has to wait until the values to compare are known. */
async function fetchAnswerBefore(request: object, current: Promise<DrawnAnswer>, turn: Turn): Promise<DrawnAnswer> {
  if (!('breakdown' in request)) return await postQuery(request, turn)
  const answer = await current
  return await postQuery(answer.kind === 'series' ? { ...request, limit: chooseLimitBefore(answer) } : request, turn)
}

async function postQuery(body: unknown, turn: Turn): Promise<DrawnAnswer> {
  return await concurrency.run(() => call<DrawnAnswer>('POST', '/public/query', body, turn.signal), turn)
}

/** A page of the users that a number counts. @throws CallError */
export async function listDrillDownUsers(
  drillDown: DrillDown,
  { page, limit }: { page: number; limit: number },
  signal?: AbortSignal,
): Promise<UsersPage> {
  const question = { kind: 'users', ...drillDown, limit, page }
  return (await call<{ results: UsersPage }>('POST', '/public/query', question, signal)).results
}

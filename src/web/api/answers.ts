import type { UsersPage } from '../../contract/questions.js'
import type { DrawnAnswer, DrillDown } from '../lib/answer-table.js'
import { buildRequest, buildRequestBefore } from '../lib/build-request.js'
import { type AnswerBefore, alignBefore, chooseLimitBefore } from '../lib/period-before.js'
import type { Display } from '../lib/question.js'
import { call } from './call.js'
import { ConcurrencyLimit } from './concurrency-limit.js'

/** The service answers as many questions of a project at a time; others would wait there, and be refused in the end. */
const concurrency = new ConcurrencyLimit(2)

interface Turn {
  signal?: AbortSignal
  /** of who asks among others who do so at the same time */
  priority?: number
}

/** An answer as it is drawn. */
export interface ComparedAnswer {
  answer: DrawnAnswer
  /** about the period before, if that was wanted */
  before: AnswerBefore | null
}

/**
 * Asks the service.
 * @param question what `POST /public/query` takes, `from` and `to` as in `display` if it has none
 * @throws CallError
 */
export async function fetchAnswer(question: unknown, display: Display, turn: Turn = {}): Promise<ComparedAnswer> {
  const now = Date.now()
  const earlier = buildRequestBefore(question, display, now)
  const asked = postQuery(buildRequest(question, display, now), turn)
  const [answer, before] = await Promise.all([asked, earlier && fetchAnswerBefore(earlier, asked, turn)])
  const isCompared = answer.kind === 'series' && before?.kind === 'series'
  return { answer, before: isCompared ? alignBefore(answer, before) : null }
}

/** The answer about the period before; of a breakdown, it is asked for once it is known which values are shown. */
async function fetchAnswerBefore(request: object, asked: Promise<DrawnAnswer>, turn: Turn): Promise<DrawnAnswer> {
  if (!('breakdown' in request)) return await postQuery(request, turn)
  const answer = await asked
  return await postQuery(answer.kind === 'series' ? { ...request, limit: chooseLimitBefore(answer) } : request, turn)
}

async function postQuery(body: unknown, turn: Turn): Promise<DrawnAnswer> {
  return await concurrency.run(() => call<DrawnAnswer>('POST', '/public/query', body, turn.signal), turn)
}

/** A page of the users behind a number. @throws CallError */
export async function listDrillDownUsers(
  behind: DrillDown,
  { page, limit }: { page: number; limit: number },
  signal?: AbortSignal,
): Promise<UsersPage> {
  const question = { kind: 'users', ...behind, limit, page }
  return (await call<{ results: UsersPage }>('POST', '/public/query', question, signal)).results
}

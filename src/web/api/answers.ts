import type { UsersPage } from '../../contract/questions.js'
import type { Behind, DrawnAnswer } from '../lib/answer-table.js'
import { requestBefore, requestOf } from '../lib/build-request.js'
import { type AnswerBefore, besides, limitBefore } from '../lib/period-before.js'
import type { Display } from '../lib/question.js'
import { call } from './call.js'
import { Slots } from './concurrency-limit.js'

/** The service answers as many questions of a project at a time; others would wait there, and be refused in the end. */
const slots = new Slots(2)

interface Turn {
  signal?: AbortSignal
  /** of who asks among others who do so at the same time */
  place?: number
}

/** An answer as it is drawn. */
export interface Asked {
  answer: DrawnAnswer
  /** about the period before, if that was wanted */
  before: AnswerBefore | null
}

/**
 * Asks the service.
 * @param question what `POST /public/query` takes, `from` and `to` as in `display` if it has none
 * @throws CallError
 */
export async function ask(question: unknown, display: Display, turn: Turn = {}): Promise<Asked> {
  const now = Date.now()
  const earlier = requestBefore(question, display, now)
  const asked = post(requestOf(question, display, now), turn)
  const [answer, before] = await Promise.all([asked, earlier && askBefore(earlier, asked, turn)])
  const isCompared = answer.kind === 'series' && before?.kind === 'series'
  return { answer, before: isCompared ? besides(answer, before) : null }
}

/** The answer about the period before; of a breakdown, it is asked for once it is known which values are shown. */
async function askBefore(request: object, asked: Promise<DrawnAnswer>, turn: Turn): Promise<DrawnAnswer> {
  if (!('breakdown' in request)) return await post(request, turn)
  const answer = await asked
  return await post(answer.kind === 'series' ? { ...request, limit: limitBefore(answer) } : request, turn)
}

async function post(body: unknown, turn: Turn): Promise<DrawnAnswer> {
  return await slots.run(() => call<DrawnAnswer>('POST', '/public/query', body, turn.signal), turn)
}

/** A page of the users behind a number. @throws CallError */
export async function usersBehind(
  behind: Behind,
  { page, limit }: { page: number; limit: number },
  signal?: AbortSignal,
): Promise<UsersPage> {
  const question = { kind: 'users', ...behind, limit, page }
  return (await call<{ results: UsersPage }>('POST', '/public/query', question, signal)).results
}

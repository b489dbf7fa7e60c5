import type { UsersPage } from '../../contract/questions.js'
import type { Behind, DrawnAnswer } from '../lib/answer-table.js'
import type { Display } from '../lib/question.js'
import { requestBefore, requestOf } from '../lib/request.js'
import { Slots } from '../lib/slots.js'
import { call } from './call.js'

/** The service answers as many questions of a project at a time; others would wait there, and be refused in the end. */
const slots = new Slots(2)

/** An answer as it is drawn. */
export interface Asked {
  answer: DrawnAnswer
  /** about the period before, if that was wanted */
  before: DrawnAnswer | null
}

/**
 * Asks the service.
 * @param question what `POST /public/query` takes, `from` and `to` as in `display` if it has none
 * @param turn `place` is that of who asks among others who do so at the same time
 * @throws CallError
 */
export async function ask(
  question: unknown,
  display: Display,
  turn: { signal?: AbortSignal; place?: number } = {},
): Promise<Asked> {
  const now = Date.now()
  const earlier = requestBefore(question, display, now)
  const [answer, before] = await Promise.all([
    post(requestOf(question, display, now), turn),
    earlier === null ? null : post(earlier, turn),
  ])
  return { answer, before }
}

async function post(body: unknown, turn: { signal?: AbortSignal; place?: number }): Promise<DrawnAnswer> {
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

import { call } from '../api/call.js'
import type { DrawnAnswer } from './answer-table.js'
import type { Display } from './question.js'
import { requestBefore, requestOf } from './request.js'
import { Slots } from './slots.js'

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
 * @throws CallError
 */
export async function ask(question: unknown, display: Display, signal?: AbortSignal): Promise<Asked> {
  const now = Date.now()
  const earlier = requestBefore(question, display, now)
  const [answer, before] = await Promise.all([
    post(requestOf(question, display, now), signal),
    earlier === null ? null : post(earlier, signal),
  ])
  return { answer, before }
}

async function post(body: unknown, signal: AbortSignal | undefined): Promise<DrawnAnswer> {
  return await slots.run(() => call<DrawnAnswer>('POST', '/public/query', body, signal), signal)
}

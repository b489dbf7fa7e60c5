import { call } from '../api/call.js'
import type { Display } from './question.js'

/** A question that was saved for the project. */
export interface Saved {
  id: string
  name: string
  question: object
  display: Display | null
  revision: number
}

export async function savedQuestions(signal?: AbortSignal): Promise<Saved[]> {
  return (await call<{ questions: Saved[] }>('GET', '/public/questions', undefined, signal)).questions
}

/** @throws CallError `revision_conflict` if somebody else has changed it meanwhile */
export async function saveQuestion({ id, ...saved }: Saved): Promise<void> {
  await call('PUT', `/public/questions/${encodeURIComponent(id)}`, saved)
}

export async function deleteQuestion(id: string): Promise<void> {
  await call('DELETE', `/public/questions/${encodeURIComponent(id)}`)
}

/** An id that nobody has. `randomUUID` is missing where the page comes without TLS from another machine. */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

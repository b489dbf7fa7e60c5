import type { Display } from '../lib/question.js'
import { call } from './call.js'

/** A question that was saved for the project. */
export interface Saved {
  id: string
  name: string
  question: object
  display: Display | null
  revision: number
}

/** The saved questions of the project, by name. @throws CallError */
export async function savedQuestions(signal?: AbortSignal): Promise<Saved[]> {
  return (await call<{ questions: Saved[] }>('GET', '/public/questions', undefined, signal)).questions
}

/** @throws CallError `not_found` */
export async function readQuestion(id: string): Promise<Saved> {
  return (await call<{ question: Saved }>('GET', pathOf(id))).question
}

/**
 * @param saved `revision` is the one that is replaced, 0 for a new question; null replaces whatever there is
 * @throws CallError `revision_conflict` if somebody else has changed it meanwhile
 */
export async function saveQuestion({
  id,
  ...saved
}: Omit<Saved, 'revision'> & { revision: number | null }): Promise<void> {
  await call('PUT', pathOf(id), saved)
}

export async function deleteQuestion(id: string): Promise<void> {
  await call('DELETE', pathOf(id))
}

function pathOf(id: string): string {
  return `/public/questions/${encodeURIComponent(id)}`
}

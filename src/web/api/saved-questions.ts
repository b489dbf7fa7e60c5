import type { Display } from '../lib/question.js'
import { call, toPath } from './call.js'

/** A saved question of the project. */
export interface SavedQuestion {
  id: string
  name: string
  question: object
  display: Display | null
  revision: number
}

/** The saved questions of the project, by name. @throws CallError */
export async function listSavedQuestions(signal?: AbortSignal): Promise<SavedQuestion[]> {
  return (await call<{ questions: SavedQuestion[] }>('GET', '/public/questions', undefined, signal)).questions
}

/** @throws CallError `not_found` */
export async function readSavedQuestion(id: string): Promise<SavedQuestion> {
  return (await call<{ question: SavedQuestion }>('GET', toPath('questions', id))).question
}

/**
 * @param saved `revision` is the revision to replace, 0 for a new question; null overwrites any
 * @throws CallError `revision_conflict` if someone else saved the question first
 */
export async function saveQuestion({
  id,
  ...saved
}: Omit<SavedQuestion, 'revision'> & { revision: number | null }): Promise<void> {
  await call('PUT', toPath('questions', id), saved)
}

export async function deleteQuestion(id: string): Promise<void> {
  await call('DELETE', toPath('questions', id))
}

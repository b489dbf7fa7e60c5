import { type Display, dropIncompleteFilters, parseDraft, toQuestion } from './question.js'
import { findRangeBefore, resolveRange } from './range.js'

/**
 * What the service is asked: the question with the dates of its range.
 * @param question as it was saved or linked to; one that the page cannot edit stays as it is
 * @param now epoch ms
 */
export function buildRequest(question: unknown, display: Display, now: number): unknown {
  const draft = parseDraft(question)
  return draft ? { ...toQuestion(dropIncompleteFilters(draft)), ...resolveRange(draft, display, now) } : question
}

/** The same question about the period before; null if that is not wanted, or not possible. */
export function buildRequestBefore(question: unknown, display: Display, now: number): object | null {
  const draft = parseDraft(question)
  if (draft?.kind !== 'series' || !display.compare) return null
  const preset = draft.from === undefined ? display.range : undefined
  const range = findRangeBefore(resolveRange(draft, display, now), preset)
  return range && { ...toQuestion(dropIncompleteFilters(draft)), ...range }
}

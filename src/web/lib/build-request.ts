import { type Display, dropIncompleteFilters, parseDraft, toQuestion } from './question.js'
import { findRangeBefore, resolveRange } from './range.js'

/**
 * Builds the request for a question, with its range resolved to dates.
 * @param question as saved or linked; one that the page cannot edit is sent unchanged
 * @param now epoch ms
 */
export function buildRequest(question: unknown, display: Display, now: number): unknown {
  const draft = parseDraft(question)
  return draft ? { ...toQuestion(dropIncompleteFilters(draft)), ...resolveRange(draft, display, now) } : question
}

/** Builds the same request for the period before; null without a comparison, or if there is no such period. */
export function buildRequestBefore(question: unknown, display: Display, now: number): object | null {
  const draft = parseDraft(question)
  if (draft?.kind !== 'series' || !display.compare) return null
  const preset = draft.from === undefined ? display.range : undefined
  const range = findRangeBefore(resolveRange(draft, display, now), preset)
  return range && { ...toQuestion(dropIncompleteFilters(draft)), ...range }
}

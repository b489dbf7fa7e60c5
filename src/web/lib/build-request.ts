import { compact, type Display, filled, finished } from './question.js'
import { rangeBefore, rangeOf } from './range.js'

/**
 * What the service is asked: the question with the dates of its range.
 * @param question as it was saved or linked to; one that the page cannot edit stays as it is
 * @param now epoch ms
 */
export function requestOf(question: unknown, display: Display, now: number): unknown {
  const draft = filled(question)
  return draft ? { ...compact(finished(draft)), ...rangeOf(draft, display, now) } : question
}

/** The same question about the period before; null if that is not wanted, or not possible. */
export function requestBefore(question: unknown, display: Display, now: number): object | null {
  const draft = filled(question)
  if (draft?.kind !== 'series' || !display.compare) return null
  const preset = draft.from === undefined ? display.range : undefined
  const range = rangeBefore(rangeOf(draft, display, now), preset)
  return range && { ...compact(finished(draft)), ...range }
}

import { type Display, type Draft, dropIncompleteFilters, parseDraft, toQuestion } from './question.js'
import { chooseInterval, findRangeBefore, type Moment, type Range, type RangeBefore, resolveRange } from './range.js'

/** Whether the range of a question begins with the project's first event. */
export function needsFirstEvent(question: unknown, { range }: Display): boolean {
  return range === 'all' && parseDraft(question)?.from === undefined
}

/**
 * Builds the request for a question, with its range resolved to dates.
 * @param question as saved or linked; one that the page cannot edit is sent unchanged
 */
export function buildRequest(question: unknown, display: Display, moment: Moment): unknown {
  const draft = parseDraft(question)
  return draft ? fillIn(draft, resolveRange({ ...draft, ...display }, moment)) : question
}

/** The request for the previous period, and the unit of its distance. */
interface RequestBefore {
  request: object
  unit: RangeBefore['unit']
}

/** Builds the same request for the previous period; null without a comparison, or if there is no such period. */
export function buildRequestBefore(question: unknown, display: Display, moment: Moment): RequestBefore | null {
  const draft = parseDraft(question)
  if (draft?.kind !== 'series' || !display.compare) return null
  const range = resolveRange({ ...draft, ...display }, moment)
  const interval = draft.interval ?? chooseInterval(range, draft.timezone)
  const preset = draft.from === undefined && draft.to === undefined ? display.range : undefined
  const before = findRangeBefore(range, { timezone: draft.timezone, interval, preset, now: moment.now })
  if (!before) return null
  const { unit, ...dates } = before
  return { request: fillIn({ ...draft, interval }, dates), unit }
}

function fillIn(draft: Draft, range: Range): object {
  // Use what the page shows, even if someone has just changed the project's defaults.
  const { timezone, week_start, sessions } = draft
  const question = { ...toQuestion(dropIncompleteFilters(draft)), timezone, week_start, sessions, ...range }
  if (draft.kind !== 'series') return question
  return { ...question, interval: draft.interval ?? chooseInterval(range, draft.timezone) }
}

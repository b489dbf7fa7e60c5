import { formatExactJson } from '../../contract/exact-json.js'
import type { Filter } from '../../contract/filters.js'
import { isObject } from '../../contract/read-fields.js'
import { isSameJson } from '../../contract/same-json.js'
import { dropIncomplete, isFilter, joinFilters } from './filters.js'
import { parseJson } from './json-text.js'
import { getProjectSettings } from './project-settings.js'
import { changeRange, type Display, parseDraft, toQuestion } from './question.js'
import { PRESETS, pickBounds, type RangeChoice } from './range.js'

/**
 * The range, time zone and filter of all cards of a board. They are saved with the board; its URL has the differences.
 */
export interface BoardControls extends RangeChoice {
  where: Filter | null
}

/** Parses the controls that are saved with a board, ignoring unknown ones; the project has the defaults. */
export function parseControls(value: unknown): BoardControls {
  const { timezone, week_start } = getProjectSettings()
  return mergeControls({ timezone, week_start, where: null }, isObject(value) ? value : {})
}

/** Reads the controls of a board from its URL. @param saved the controls saved with the board */
export function readControls(query: URLSearchParams, saved: BoardControls): BoardControls {
  const { where, from = '', to = '', ...fields } = Object.fromEntries(query)
  const parseTime = (text: string) => (/^\d+$/.test(text) ? Number(text) : text)
  return mergeControls(saved, {
    ...fields,
    from: parseTime(from),
    to: parseTime(to),
    where: where === undefined ? undefined : parseJson(where),
  })
}

/** The query of a URL for controls, the inverse of `readControls`. */
export function formatControls(controls: BoardControls, saved: BoardControls): Record<string, string> {
  const isSame = (...names: (keyof BoardControls)[]) => {
    return names.every((name) => isSameJson(controls[name], saved[name]))
  }
  const { range = '', from = '', to = '', timezone, week_start, where } = controls
  return {
    ...(!isSame('range', 'from', 'to') && { range, from: String(from), to: String(to) }),
    ...(!isSame('timezone') && { timezone }),
    ...(!isSame('week_start') && { week_start }),
    ...(!isSame('where') && { where: formatExactJson(where) }),
  }
}

function mergeControls(known: BoardControls, fields: Record<string, unknown>): BoardControls {
  const { timezone, week_start, where } = fields
  return {
    ...mergeRange(known, fields),
    timezone: typeof timezone === 'string' && timezone !== '' ? timezone : known.timezone,
    week_start: week_start === 'monday' || week_start === 'sunday' ? week_start : known.week_start,
    where: where === null || isFilter(where) ? where : known.where,
  }
}

function mergeRange(known: BoardControls, fields: Record<string, unknown>): Partial<RangeChoice> {
  const range = PRESETS.find((preset) => preset === fields.range)
  if (range) return { range }
  const [from, to] = [fields.from, fields.to]
  if (isTime(from) && isTime(to)) return { from, to }
  return { ...(known.range && { range: known.range }), ...pickBounds(known) }
}

function isTime(value: unknown): value is string | number {
  return typeof value === 'number' || (typeof value === 'string' && value !== '')
}

/**
 * The question and display of a card with the controls of its board.
 * @param now epoch ms
 * @returns null if the page cannot edit the question
 */
export function applyControls(
  question: unknown,
  display: Display,
  controls: BoardControls,
  now: number,
): { question: object; display: Display } | null {
  const draft = parseDraft(question)
  if (!draft) return null
  const where = joinFilters([draft.where, dropIncomplete(controls.where)].filter((filter) => filter !== null))
  const { range: _, ...rest } = display
  return {
    question: toQuestion({ ...changeRange(draft, controls, now), where }),
    display: { ...rest, ...(controls.range && { range: controls.range }) },
  }
}

import { DAY_MS } from '../contract/durations.js'
import { looksLikeSeconds, MAX_TIMESTAMP } from '../contract/limits.js'
import { OTHER } from '../contract/question-schemas.js'
import type {
  AnyQuestion,
  Cell,
  FunnelCell,
  FunnelQuestion,
  PathsCell,
  PathsQuestion,
  RangeQuestion,
  RetentionCell,
  RetentionQuestion,
  SeriesCell,
  SeriesQuestion,
} from '../contract/questions.js'
import type { Warning } from '../contract/warning.js'
import {
  addDays,
  countBuckets,
  formatLocalDate,
  isDate,
  parseInstant,
  parseRange,
  splitIntoBuckets,
  type Unit,
} from './time.js'

/** Rules that a schema cannot express: those between fields, and defaults that depend on other fields. */

const DEFAULT_DAYS = 30
/** Maximum number of buckets of one line. */
const MAX_BUCKETS = 10_000
/** Maximum number of points of all lines of an answer. */
const MAX_POINTS = 500_000

/** Reports a fault. @param field the end of its path, such as `/from` */
type Fault = (field: string, message: string) => void

/**
 * The range of a question: by default the last 30 days.
 * @param given the bounds from the caller, if any
 * @param now epoch ms
 */
export function fillRange(given: Partial<RangeQuestion> & { timezone: string }, now: number, fault: Fault) {
  const { timezone } = given
  const to = checkBound('/to', given.to, timezone, fault) ?? formatLocalDate(now, timezone, 1)
  const from = checkBound('/from', given.from, timezone, fault) ?? subtractDays(to, timezone)
  const range = parseRange({ from, to, timezone })
  if (range.from >= range.to) fault('/from', 'must be before to')
  return { from, to }
}

function checkBound(field: string, bound: string | number | undefined, timezone: string, fault: Fault) {
  if (bound === undefined) return undefined
  const at = parseInstant(bound, timezone)
  // In local time, the first day may begin earlier than in UTC, and the last one end later. `to` is exclusive.
  const [first, end] = typeof bound === 'number' ? [0, MAX_TIMESTAMP + 1] : [-DAY_MS, MAX_TIMESTAMP + DAY_MS]
  if (at !== null && at >= first && at <= end) return bound
  const [firstDate, lastDate] = [0, MAX_TIMESTAMP].map((ms) => formatLocalDate(ms, 'UTC'))
  if (at !== null) fault(field, `must be a time from ${firstDate} to ${lastDate}`)
  else fault(field, 'must be a date (2026-04-24), an ISO time, or milliseconds since 1970')
  return undefined
}

/** Warns of bounds that are probably in seconds, such as the output of `date +%s`. */
export function warnOfSeconds({ from, to }: Pick<RangeQuestion, 'from' | 'to'>, path: string): Warning[] {
  return Object.entries({ from, to }).flatMap(([name, bound]) => {
    if (typeof bound !== 'number' || !looksLikeSeconds(bound)) return []
    const suggestion = bound * 1000
    const message = `Times are in milliseconds, so this one is early in 1970. Did you mean ${suggestion}?`
    return [{ path: `${path}/${name}`, message, suggestion }]
  })
}

function subtractDays(to: string | number, timezone: string): string {
  if (isDate(to)) return addDays(to, -DEFAULT_DAYS)
  return formatLocalDate(parseInstant(to, timezone) ?? 0, timezone, -DEFAULT_DAYS)
}

/** Checks a question whose range is filled in. */
export function checkRules(question: AnyQuestion, fault: Fault): void {
  if (question.kind === 'series') checkSeries(question, fault)
  else if (question.kind === 'funnel') checkFunnel(question, fault)
  else if (question.kind === 'retention') checkBuckets('/unit', question, question.unit, fault)
  else checkPaths(question, fault)
}

function checkSeries(question: SeriesQuestion, fault: Fault): void {
  const { series, interval, breakdown, limit } = question
  if (interval !== 'none') checkBuckets('/interval', question, interval, fault)
  const points = countBuckets(parseRange(question), interval === 'none' ? 'month' : interval)
  if (series.length * (breakdown.length > 0 ? limit + 1 : 1) * points <= MAX_POINTS) return
  fault('/limit', `must be smaller, or the interval longer: there would be over ${MAX_POINTS} points`)
}

function checkFunnel({ steps, exclude }: FunnelQuestion, fault: Fault): void {
  const last = Math.max(1, steps.length - 1)
  for (const [i, { after }] of exclude.entries()) {
    if (after > last) fault(`/exclude/${i}/after`, `must be a whole number from 1 to ${last}`)
  }
}

function checkPaths({ start, end }: PathsQuestion, fault: Fault): void {
  if ((start === null) === (end === null)) fault('/start', 'or end is required, but not both')
}

function checkBuckets(field: string, question: RangeQuestion, unit: Unit, fault: Fault): void {
  if (countBuckets(parseRange(question), unit) <= MAX_BUCKETS) return
  const larger = { hour: 'day', day: 'month', week: 'month', month: 'month' }[unit]
  fault(field, `must be longer, or the range shorter: there would be over ${MAX_BUCKETS} of them; use ${larger}`)
}

/** Checks that a cell can be one of the answer to a question of its kind. */
export function checkCell(question: AnyQuestion, cell: Cell, fault: Fault): void {
  if (question.kind === 'series') checkSeriesCell(question, cell as SeriesCell, fault)
  else if (question.kind === 'funnel') checkFunnelCell(question, cell as FunnelCell, fault)
  else if (question.kind === 'retention') checkRetentionCell(question, cell as RetentionCell, fault)
  else checkPathsCell(question, cell as PathsCell, fault)
}

function checkSeriesCell(question: SeriesQuestion, { series, breakdown, at }: SeriesCell, fault: Fault): void {
  if (at !== undefined) checkPoint(question, at, fault)
  checkWhole('/series', series, 0, Math.max(0, question.series.length - 1), fault)
  checkBreakdown(breakdown, { ...question, hasRest: question.other }, fault)
}

function checkPoint(question: SeriesQuestion, at: string, fault: Fault): void {
  const instant = parseInstant(at, question.timezone)
  const starts =
    question.interval === 'none'
      ? [Math.floor(parseRange(question).from)]
      : listBuckets(question, question.interval)?.map(({ from }) => from)
  if (instant !== null && (starts === undefined || starts.includes(instant))) return
  fault('/at', 'must be the time of a point of the answer')
}

/** The buckets of a question's range; undefined if the range is invalid. */
function listBuckets(question: RangeQuestion, unit: Unit) {
  const range = parseRange(question)
  if (range.from >= range.to || countBuckets(range, unit) > MAX_BUCKETS) return undefined
  return splitIntoBuckets(range, unit, question.timezone, question.week_start).buckets
}

function checkFunnelCell(question: FunnelQuestion, { step, breakdown, dropped }: FunnelCell, fault: Fault): void {
  checkWhole('/step', step, dropped ? 2 : 1, Math.max(2, question.steps.length), fault)
  checkBreakdown(breakdown, { ...question, hasRest: true }, fault)
}

function checkRetentionCell(question: RetentionQuestion, { cohort, interval }: RetentionCell, fault: Fault): void {
  const cohorts = listBuckets(question, question.unit)
  const isCohort = cohorts ? cohorts.some(({ date }) => date === cohort) : isDate(cohort)
  if (!isCohort) fault('/cohort', 'must be the date of a cohort of the answer')
  if (interval !== undefined) checkWhole('/interval', interval, 0, question.intervals - 1, fault)
}

function checkPathsCell({ steps }: PathsQuestion, { step, event, from, to }: PathsCell, fault: Fault): void {
  checkWhole('/step', step, 0, steps, fault)
  const isNode = event !== undefined && from === undefined && to === undefined
  const isLink = event === undefined && from !== undefined && to !== undefined
  if (!isNode && !isLink) fault('/event', 'is required for a node, or from and to for a link')
}

function checkWhole(field: string, value: number, least: number, most: number, fault: Fault): void {
  if (value < least || value > most) fault(field, `must be a whole number from ${least} to ${most}`)
}

/** @param of `hasRest`: whether an answer with a breakdown may have a line for the rest, `$other` for all fields together */
function checkBreakdown(
  values: unknown[],
  { breakdown, hasRest }: { breakdown: unknown[]; hasRest: boolean },
  fault: Fault,
): void {
  const isOfRest = hasRest && breakdown.length > 0 && values.length === 1 && values[0] === OTHER
  if (values.length === breakdown.length || isOfRest) return
  fault('/breakdown', 'must be the breakdown of a line of the answer')
}

import type { AnswerTo, SeriesLine } from '../../contract/questions.js'

type SeriesAnswer = AnswerTo<'series'>

/** The period before of a line. */
export interface LineBefore extends SeriesLine {
  /** whether it is a sum of several lines, so that no single cell has its users */
  isSum?: true
}

/** The answer about the period before, aligned with the current one. */
export interface AnswerBefore extends Omit<SeriesAnswer, 'results'> {
  /** by line of the current answer; null if it had no data, `unknown` if the answer does not include it */
  results: (LineBefore | 'unknown' | null)[]
}

/** The service's limit of breakdown values. */
const MAX_LIMIT = 1000
/** With more points, the comparison would take longer than the question itself. */
const MAX_POINTS = 20_000
/** Metrics that can be summed across lines. */
const ADDED = ['events', 'sum']

/**
 * Chooses how many values to request for the period before, because values that are frequent now may have been rare
 * then.
 */
export function chooseLimitBefore({ results, query }: SeriesAnswer): number {
  const points = query.series.length * Math.max(1, results[0]?.points.length ?? 0)
  return Math.max(query.limit, Math.min(MAX_LIMIT, Math.floor(MAX_POINTS / points)))
}

/** Aligns the answer about the period before with the current one, line by line. */
export function alignBefore(answer: SeriesAnswer, before: SeriesAnswer): AnswerBefore {
  return { ...before, results: answer.results.map((line) => findLineBefore(line, answer, before)) }
}

function findLineBefore(line: SeriesLine, answer: SeriesAnswer, before: SeriesAnswer): LineBefore | 'unknown' | null {
  const listed = before.results.filter(({ series }) => series === line.series)
  const others = listed.find(isOther)
  if (!isOther(line)) return listed.find((one) => isSame(one, line)) ?? (others ? 'unknown' : null)
  // “Other” is everything not shown now, however frequent it was before.
  const shown = answer.results.filter((one) => one.series === line.series && !isOther(one))
  const isShown = (one: SeriesLine) => shown.some((two) => isSame(one, two))
  const rest = listed.filter((one) => !isShown(one))
  const isHidden = (one: SeriesLine) => !listed.some((two) => isSame(one, two))
  if (others && shown.some(isHidden)) return 'unknown'
  if (rest.length < 2) return rest[0] ?? null
  const metric = answer.query.series[line.series]?.metric ?? 'events'
  return ADDED.includes(metric) ? { ...sumLines(rest, line), isSum: true } : 'unknown'
}

function sumLines(lines: SeriesLine[], { series, breakdown }: SeriesLine): SeriesLine {
  const points = (lines[0]?.points ?? []).map((point, i) => {
    return { ...point, value: sumKnown(lines.map((line) => line.points[i]?.value ?? null)) }
  })
  return { series, breakdown, total: sumKnown(lines.map(({ total }) => total)), points }
}

/** Null if no value is known. */
function sumKnown(values: (number | null)[]): number | null {
  const known = values.filter((value) => value !== null)
  return known.length > 0 ? known.reduce((sum, value) => sum + value, 0) : null
}

function isOther({ breakdown }: SeriesLine): boolean {
  return breakdown.length === 1 && breakdown[0] === '$other'
}

function isSame(one: SeriesLine, other: SeriesLine): boolean {
  return JSON.stringify(one.breakdown) === JSON.stringify(other.breakdown)
}

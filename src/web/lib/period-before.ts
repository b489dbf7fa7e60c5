import type { AnswerTo, SeriesLine } from '../../contract/questions.js'

type SeriesAnswer = AnswerTo<'series'>

/** What a line of now was in the period before. */
export interface LineBefore extends SeriesLine {
  /** whether it was several lines, so that no cell of the question has its users */
  isSum?: true
}

/** An answer about the period before. */
export interface AnswerBefore extends Omit<SeriesAnswer, 'results'> {
  /** one per line of now; null if nothing was there, `unknown` if the answer does not tell */
  results: (LineBefore | 'unknown' | null)[]
}

/** The service gives no more values of a breakdown. */
const MAX_LIMIT = 1000
/** With more, the comparison would take longer than what is compared. */
const MAX_POINTS = 20_000
/** Of these metrics, several lines have together the sum of what each has. */
const ADDED = ['events', 'sum']

/** How many values to ask about in the period before: those that are frequent now may have been rare. */
export function chooseLimitBefore({ results, query }: SeriesAnswer): number {
  const points = query.series.length * Math.max(1, results[0]?.points.length ?? 0)
  return Math.max(query.limit, Math.min(MAX_LIMIT, Math.floor(MAX_POINTS / points)))
}

/** The period before, line by line beside an answer about now. */
export function alignBefore(answer: SeriesAnswer, before: SeriesAnswer): AnswerBefore {
  return { ...before, results: answer.results.map((line) => findLineBefore(line, answer, before)) }
}

function findLineBefore(line: SeriesLine, answer: SeriesAnswer, before: SeriesAnswer): LineBefore | 'unknown' | null {
  const listed = before.results.filter(({ series }) => series === line.series)
  const others = listed.find(isOther)
  if (!isOther(line)) return listed.find((one) => isSame(one, line)) ?? (others ? 'unknown' : null)
  // Whoever is not shown now is another one, however frequent before.
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

/** Null where no line has a number. */
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

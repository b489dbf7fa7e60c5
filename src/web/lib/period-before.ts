import type { AnswerTo } from '../../contract/question-input.js'
import type { SeriesLine } from '../../contract/questions.js'

type SeriesAnswer = AnswerTo<'series'>

/** A line of the period before, beside one of now. */
export interface LineBefore extends SeriesLine {
  /** `sum`: of several lines, so that no cell of the question is its number; `unknown`: it is among the others then */
  made?: 'sum' | 'unknown'
}

/** The period before as lines of now have it. */
export interface AnswerBefore extends SeriesAnswer {
  results: LineBefore[]
}

/** The service gives no more lines. */
const MAX_LINES = 1000
/** With more, the comparison would take longer than what is compared. */
const MAX_POINTS = 20_000
/** The numbers that several lines have together are the sum of theirs. */
const ADDED = ['events', 'sum']

/**
 * How many values of a breakdown are asked about in the period before, so that those of now are among them although others
 * were more frequent.
 */
export function limitBefore({ results, query }: SeriesAnswer): number {
  const points = query.series.length * Math.max(1, results[0]?.points.length ?? 0)
  return Math.max(query.limit, Math.min(MAX_LINES, Math.floor(MAX_POINTS / points)))
}

/**
 * The lines of the period before that answer to those of now. The others of now are what they have not in common with its
 * lines, whatever was frequent before.
 */
export function matched(before: SeriesAnswer, answer: SeriesAnswer): AnswerBefore {
  const results = answer.results.flatMap((line) => {
    if (isOthers(line)) return restOf(before, answer, line)
    const found = before.results.find((one) => keyOf(one) === keyOf(line))
    // What is not listed did not occur, unless only some are.
    if (found) return [found]
    return before.results.some((one) => isOthers(one) && one.series === line.series) ? [unknown(line)] : []
  })
  return { ...before, results }
}

function restOf(before: SeriesAnswer, answer: SeriesAnswer, line: SeriesLine): LineBefore[] {
  const shown = new Set(answer.results.map(keyOf))
  const listed = before.results.filter(({ series }) => series === line.series)
  const missing = listed.filter((one) => !isOthers(one) && !shown.has(keyOf(one)))
  const others = listed.find(isOthers)
  const lines = others ? [...missing, others] : missing
  const areAllListed = answer.results.every((one) => {
    return one.series !== line.series || isOthers(one) || listed.some((two) => keyOf(two) === keyOf(one))
  })
  if (others && !areAllListed) return [unknown(line)]
  if (lines.length < 2) return lines.map((one) => (one === others ? one : { ...one, ...line.breakdown, made: 'sum' }))
  const metric = answer.query.series[line.series]?.metric ?? 'events'
  return [ADDED.includes(metric) ? sumOf(lines, line) : unknown(line)]
}

function sumOf(lines: SeriesLine[], { series, breakdown }: SeriesLine): LineBefore {
  const sum = (values: (number | null)[]) => {
    const known = values.filter((value) => value !== null)
    return known.length === 0 ? null : known.reduce((total, value) => total + value, 0)
  }
  const points = (lines[0]?.points ?? []).map((point, i) => {
    return { ...point, value: sum(lines.map((line) => line.points[i]?.value ?? null)) }
  })
  return { series, breakdown, total: sum(lines.map(({ total }) => total)), points, made: 'sum' }
}

function unknown({ series, breakdown }: SeriesLine): LineBefore {
  return { series, breakdown, total: null, points: [], made: 'unknown' }
}

function isOthers({ breakdown }: SeriesLine): boolean {
  return breakdown.length === 1 && breakdown[0] === '$other'
}

function keyOf({ series, breakdown }: SeriesLine): string {
  return JSON.stringify([series, breakdown])
}

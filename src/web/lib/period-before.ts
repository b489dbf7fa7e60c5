import { isRest } from '../../contract/labels.js'
import type { AnswerTo, SeriesLine } from '../../contract/questions.js'
import { isSameJson } from '../../contract/same-json.js'
import { isAdditive } from './question.js'
import { countDays, countMonths, findDays, type RangeBefore } from './range.js'

type SeriesAnswer = AnswerTo<'series'>

/** A line in the previous period. */
export interface LineBefore extends SeriesLine {
  /** whether it is a sum of several lines, so that no single cell lists its users */
  isSum?: true
}

/** The indexes of a bucket and of the one that it is compared with; null if one period does not have it. */
export interface BucketPair {
  now: number | null
  before: number | null
}

/** The answer about the previous period, aligned with the current one. */
export interface AnswerBefore extends Omit<SeriesAnswer, 'results'> {
  /** by line of the current answer; null if it had no data, `unknown` if the answer does not include it */
  results: (LineBefore | 'unknown' | null)[]
  /** the starts of its buckets */
  ats: string[]
  /** every bucket of either period once, in order */
  pairs: BucketPair[]
}

/** The service's limit of breakdown values. */
const MAX_LIMIT = 1000
/** With more points, the comparison would take longer than the question itself. */
const MAX_POINTS = 20_000

/**
 * Chooses how many values to request for the previous period, because values that are frequent now may have been rare
 * then.
 */
export function chooseLimitBefore(answer: SeriesAnswer): number {
  const { query } = answer
  const points = query.series.length * Math.max(1, listStarts(answer).length)
  return Math.max(query.limit, Math.min(MAX_LIMIT, Math.floor(MAX_POINTS / points)))
}

/**
 * Aligns the answer about the previous period with the current one, by line and by bucket.
 * @param unit of the distance between the periods
 */
export function alignBefore(answer: SeriesAnswer, before: SeriesAnswer, unit: RangeBefore['unit']): AnswerBefore {
  return {
    ...before,
    results: answer.results.map((line) => findLineBefore(line, answer, before)),
    ats: listStarts(before),
    pairs: pairBuckets(keyBuckets(answer, unit), keyBuckets(before, unit)),
  }
}

/** The starts of the buckets of an answer, which are the same for all lines. */
export function listStarts({ results }: SeriesAnswer): string[] {
  return (results[0]?.points ?? []).map(({ at }) => at)
}

/** Whether a bucket has not begun. @param at its start; @param now epoch ms */
export function isUpcoming(at: string, now: number): boolean {
  return Date.parse(at) > now
}

/**
 * Identifies each bucket within its period, such as its third day. If the periods are months apart, days are identified
 * by month and number, because months have different lengths.
 */
function keyBuckets(answer: SeriesAnswer, unit: RangeBefore['unit']): string[] {
  const { query } = answer
  const { interval, timezone } = query
  const ats = listStarts(answer)
  if (interval !== 'hour' && interval !== 'day') return ats.map((_, i) => String(i))
  const start = findDays(query, timezone)?.first ?? ''
  const counts = new Map<string, number>()
  return ats.map((at) => {
    const date = at.slice(0, 10)
    const day = unit === 'day' ? countDays(start, date) : `${countMonths(start, date)} ${date.slice(8)}`
    const key = `${day} ${interval === 'hour' ? at.slice(11, 16) : ''}`
    // An hour is repeated when clocks go back.
    const count = (counts.get(key) ?? 0) + 1
    counts.set(key, count)
    return `${key} ${count}`
  })
}

/** Pairs buckets with the same key. All others stay single, in the order of their list. */
function pairBuckets(now: string[], before: string[]): BucketPair[] {
  const left = { now: new Set(now), before: new Set(before) }
  const pairs: BucketPair[] = []
  let [i, j] = [0, 0]
  while (i < now.length || j < before.length) {
    const [one = '', other = ''] = [now[i], before[j]]
    const isPair = i < now.length && j < before.length && one === other
    // If the other list still contains this key, the bucket waits for its partner, unless each list still contains the
    // other's next key.
    const takesNow = isPair || (i < now.length && (j >= before.length || !left.before.has(one)))
    const takesBefore = isPair || !takesNow
    pairs.push({ now: takesNow ? i : null, before: takesBefore ? j : null })
    if (takesNow) left.now.delete(now[i++] ?? '')
    if (takesBefore) left.before.delete(before[j++] ?? '')
  }
  return pairs
}

function findLineBefore(line: SeriesLine, answer: SeriesAnswer, before: SeriesAnswer): LineBefore | 'unknown' | null {
  const listed = before.results.filter(({ series }) => series === line.series)
  const others = listed.find(({ breakdown }) => isRest(breakdown))
  if (!isRest(line.breakdown))
    return listed.find((one) => isSameJson(one.breakdown, line.breakdown)) ?? (others ? 'unknown' : null)
  // “Other” is everything not shown now, however frequent it was before.
  const shown = answer.results.filter((one) => one.series === line.series && !isRest(one.breakdown))
  const isShown = (one: SeriesLine) => shown.some((two) => isSameJson(one.breakdown, two.breakdown))
  const rest = listed.filter((one) => !isShown(one))
  const isHidden = (one: SeriesLine) => !listed.some((two) => isSameJson(one.breakdown, two.breakdown))
  if (others && shown.some(isHidden)) return 'unknown'
  if (rest.length < 2) return rest[0] ?? null
  const metric = answer.query.series[line.series]?.metric ?? 'events'
  return isAdditive(metric) ? { ...sumLines(rest, line), isSum: true } : 'unknown'
}

function sumLines(lines: SeriesLine[], { series, breakdown }: SeriesLine): SeriesLine {
  const points = (lines[0]?.points ?? []).map((point, i) => {
    return { ...point, value: sumKnown(lines.map((line) => line.points[i]?.value ?? null)) }
  })
  return { series, breakdown, total: sumKnown(lines.map(({ total }) => total)), points }
}

/** Sums values; null if none is known. */
export function sumKnown(values: (number | null)[]): number | null {
  const known = values.filter((value) => value !== null)
  return known.length > 0 ? known.reduce((sum, value) => sum + value, 0) : null
}

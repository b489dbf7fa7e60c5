import type { AnswerTo } from '../../contract/questions.js'
import { formatAxisLabel, formatBuckets, labelLines } from '../lib/answer-labels.js'
import { findLineBefore } from '../lib/answer-table.js'
import type { AnswerBefore } from '../lib/period-before.js'

type SeriesAnswer = AnswerTo<'series'>

export type Value = number | null

export interface PlotLine {
  name: string
  /** where it is in the answer */
  index: number
  /** null where there is none, and where the time has not come yet */
  values: Value[]
  /** of the period before, bucket by bucket */
  before: Value[] | null
}

/** The lines of a chart over time. */
export interface PlotData {
  at: string[]
  /** below the chart */
  ticks: string[]
  /** in full */
  labels: string[]
  /** which buckets are over */
  complete: boolean[]
  lines: PlotLine[]
}

/** @param now epoch ms: what begins later is not drawn, as it would look like a fall to nothing */
export function buildPlotData(answer: SeriesAnswer, before: AnswerBefore | null, now: number): PlotData {
  const { results, query } = answer
  const points = results[0]?.points ?? []
  const isToCome = points.map(({ at }) => Date.parse(at) > now)
  const names = labelLines(results, query)
  return {
    at: points.map(({ at }) => at),
    ticks: points.map(({ at }) => formatAxisLabel(at, query.interval)),
    labels: formatBuckets(
      points.map(({ at }) => at),
      query.interval,
    ),
    complete: points.map(({ complete }) => complete),
    lines: results.map((line, index) => ({
      name: names[index] ?? '',
      index,
      values: line.points.map(({ value }, i) => (isToCome[i] ? null : value)),
      before: before && points.map((_, i) => findLineBefore(before, index)?.points[i]?.value ?? null),
    })),
  }
}

/** Each line on top of those before it, the first at the bottom; what is negative grows downwards from 0, apart from the rest. */
export function stackLines(lines: Value[][]): Value[][] {
  const sums = { above: [] as number[], below: [] as number[] }
  return lines.map((values) => {
    return values.map((value, i) => {
      if (value === null) return null
      const side = value < 0 ? sums.below : sums.above
      side[i] = (side[i] ?? 0) + value
      return side[i] ?? 0
    })
  })
}

/** Which part of a stack is at a height: the index of its line; the last line beyond all of them. @param tops of `stacked`, in one bucket */
export function findPartAt(tops: Value[], height: number): number {
  const isAt = (top: Value) => top !== null && (height < 0 ? top <= height : top >= height)
  const found = tops.findIndex(isAt)
  return found < 0 ? tops.length - 1 : found
}

/** The part of a line that may still change, joined to the part that is over. */
export function selectOpenPart(values: Value[], complete: boolean[]): Value[] {
  return values.map((value, i) => (!complete[i] || complete[i + 1] === false ? value : null))
}

/** The part of a line that is over. */
export function selectCompletePart(values: Value[], complete: boolean[]): Value[] {
  return values.map((value, i) => (complete[i] ? value : null))
}

/** The sum of lines, bucket by bucket; null where none has a value. */
export function sumLines(lines: Value[][]): Value[] {
  return (lines[0] ?? []).map((_, i) => {
    const values = lines.map((line) => line[i] ?? null).filter((value) => value !== null)
    return values.length > 0 ? values.reduce((sum, value) => sum + value, 0) : null
  })
}

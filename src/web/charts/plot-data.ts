import type { AnswerTo } from '../../contract/questions.js'
import { formatAxisLabel, formatBuckets, labelLines } from '../lib/answer-labels.js'
import { findLineBefore } from '../lib/answer-table.js'
import type { AnswerBefore } from '../lib/period-before.js'

type SeriesAnswer = AnswerTo<'series'>

export type Value = number | null

export interface PlotLine {
  name: string
  /** index in the answer */
  index: number
  /** null where there is no value, and in the future */
  values: Value[]
  /** values of the period before, by bucket */
  before: Value[] | null
}

/** The data of a chart over time. */
export interface PlotData {
  at: string[]
  /** axis labels */
  ticks: string[]
  /** full labels */
  labels: string[]
  /** whether each bucket is over */
  complete: boolean[]
  lines: PlotLine[]
}

/** @param now epoch ms; later buckets are omitted, because they would look like a drop to zero */
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

/** Stacks lines, the first at the bottom. Negative values are stacked downwards from 0, separately. */
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

/**
 * Finds the line at a height of a stack; above the stack, the last line.
 * @param tops of `stackLines`, in one bucket
 * @returns its index
 */
export function findPartAt(tops: Value[], height: number): number {
  const isAt = (top: Value) => top !== null && (height < 0 ? top <= height : top >= height)
  const found = tops.findIndex(isAt)
  return found < 0 ? tops.length - 1 : found
}

/** The part of a line that may still change, connected to the complete part. */
export function selectOpenPart(values: Value[], complete: boolean[]): Value[] {
  return values.map((value, i) => (!complete[i] || complete[i + 1] === false ? value : null))
}

/** The part of a line whose buckets are over. */
export function selectCompletePart(values: Value[], complete: boolean[]): Value[] {
  return values.map((value, i) => (complete[i] ? value : null))
}

/** Sums lines by bucket; null where none has a value. */
export function sumLines(lines: Value[][]): Value[] {
  return (lines[0] ?? []).map((_, i) => {
    const values = lines.map((line) => line[i] ?? null).filter((value) => value !== null)
    return values.length > 0 ? values.reduce((sum, value) => sum + value, 0) : null
  })
}

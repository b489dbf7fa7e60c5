import { labelLines } from '../../contract/labels.js'
import type { AnswerTo } from '../../contract/questions.js'
import { formatAxisLabels, formatBuckets } from '../lib/answer-labels.js'
import { type AnswerBefore, type BucketPair, isUpcoming, listStarts, sumKnown } from '../lib/period-before.js'

type SeriesAnswer = AnswerTo<'series'>

export type Value = number | null

export interface PlotLine {
  name: string
  /** index in the answer */
  index: number
  /** by bucket; null where there is no value, and in the future */
  values: Value[]
  /** values of the previous period by bucket; null without a comparison, or if they are unknown */
  before: Value[] | null
}

/** A position on the axis: a bucket, and the bucket of the previous period that it is compared with. */
interface PlotBucket extends BucketPair {
  /** axis label */
  tick: string
  /** full label; empty if only the previous period has this bucket */
  label: string
  /** label of the previous period's bucket; empty if there is none */
  labelBefore: string
  /** whether it is over */
  complete: boolean
}

/** The data of a chart over time. */
export interface PlotData {
  buckets: PlotBucket[]
  lines: PlotLine[]
}

/** @param now epoch ms; later buckets are omitted, because they would look like a drop to zero */
export function buildPlotData(answer: SeriesAnswer, before: AnswerBefore | null, now: number): PlotData {
  const { results, query } = answer
  const ats = listStarts(answer)
  const labels = formatBuckets(ats, query)
  const ticks = formatAxisLabels(ats, query)
  const labelsBefore = before ? formatBuckets(before.ats, before.query) : []
  const names = labelLines(results, query)
  const pick = <T>(list: T[], index: number | null) => (index === null ? undefined : list[index])
  const pairs = before?.pairs ?? ats.map((_, i): BucketPair => ({ now: i, before: null }))
  const areToCome = ats.map((at) => isUpcoming(at, now))
  return {
    buckets: pairs.map((pair) => ({
      ...pair,
      tick: pick(ticks, pair.now) ?? '',
      label: pick(labels, pair.now) ?? '',
      labelBefore: pick(labelsBefore, pair.before) ?? '',
      complete: pick(results[0]?.points ?? [], pair.now)?.complete ?? true,
    })),
    lines: results.map((line, index) => {
      const found = before?.results[index]
      return {
        name: names[index] ?? '',
        index,
        values: pairs.map(({ now }) => (pick(areToCome, now) ? null : (pick(line.points, now)?.value ?? null))),
        before:
          found === undefined || found === 'unknown'
            ? null
            : pairs.map(({ before }) => pick(found?.points ?? [], before)?.value ?? null),
      }
    }),
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
  return (lines[0] ?? []).map((_, i) => sumKnown(lines.map((line) => line[i] ?? null)))
}

/** 1, 2, 5, 10, 20, 25, 50, …, up to the largest safe integer. */
const WHOLE_STEPS = Array.from({ length: 15 }, (_, exponent) => [1, 2, 2.5, 5].map((digit) => digit * 10 ** exponent))
  .flat()
  .filter(Number.isInteger)

/** The allowed distances between ticks at values; any if some values have decimals. There is no half of a visitor. */
export function listValueSteps(lines: PlotLine[]): number[] | undefined {
  const isWhole = (value: Value) => value === null || Number.isInteger(value)
  const areWhole = lines.every(({ values, before }) => values.every(isWhole) && (before ?? []).every(isWhole))
  return areWhole ? WHOLE_STEPS : undefined
}

import { breakdownOf, type Group, largestGroups } from './breakdown.js'
import { type Fact, usersOf } from './data.js'
import { fieldValue, isEvent } from './filter.js'
import { type Frame, isInRange, mean, orNull, percentile, type SeriesQuestion, sum } from './question.js'
import { bucketsOf, isIn, localText } from './time.js'

type Series = SeriesQuestion['series'][number]

/** The events that a line counts. */
export interface SeriesLine extends Group<Fact> {
  series: number
}

/** A point of every line. */
interface Point {
  at: string
  complete: boolean
  has(fact: Fact): boolean
}

export function seriesLines(question: SeriesQuestion, frame: Frame): SeriesLine[] {
  return question.series.flatMap((one, series) => {
    const facts = frame.facts.filter((fact) => isInRange(frame, fact) && isEvent(one, fact, frame.zone))
    const groups = largestGroups(facts, {
      isBroken: (question.breakdown ?? []).length > 0,
      valuesOf: (fact) => breakdownOf(question.breakdown, fact),
      sizeOf: (facts) => measure(one, facts),
      limit: frame.limit,
    })
    const lines = groups.map((group) => ({ series, ...group }))
    return question.other === false ? lines.filter(({ isRest }) => !isRest) : lines
  })
}

export function seriesPoints(question: SeriesQuestion, { range, zone, weekStart, now }: Frame): Point[] {
  const interval = question.interval ?? 'day'
  if (interval === 'none') return [{ at: localText(zone, range.start), complete: range.end <= now, has: () => true }]
  return bucketsOf(interval, range, zone, weekStart).map((bucket) => ({
    at: localText(zone, bucket.start),
    complete: bucket.end <= now,
    has: ({ timestamp }) => isIn(bucket, timestamp),
  }))
}

export function seriesAnswer(question: SeriesQuestion, frame: Frame) {
  const points = seriesPoints(question, frame)
  const results = seriesLines(question, frame).map(({ series, breakdown, members }) => {
    const one = question.series[series] as Series
    return {
      series,
      breakdown,
      total: measure(one, members),
      points: points.map(({ at, complete, has }) => ({ at, value: measure(one, members.filter(has)), complete })),
    }
  })
  return { results, ...(question.approximate && { approximate: true }) }
}

function measure({ metric = 'events', property, p = 95 }: Series, facts: Fact[]): number | null {
  const numbers = facts
    .map((fact) => fieldValue(property ?? 'event', fact))
    .filter((value) => typeof value === 'number')
  const users = usersOf(facts).size
  switch (metric) {
    case 'events':
      return facts.length
    case 'users':
      return users
    case 'events_per_user':
      return users === 0 ? 0 : facts.filter(({ user }) => user !== null).length / users
    case 'sum':
      return orNull(sum(numbers))
    case 'avg':
      return mean(numbers)
    case 'min':
      return numbers.length === 0 ? null : Math.min(...numbers)
    case 'max':
      return numbers.length === 0 ? null : Math.max(...numbers)
    case 'median':
      return percentile(numbers, 50)
    case 'percentile':
      return percentile(numbers, p)
  }
}

import { DAY_MS } from '../contract/durations.js'
import type { Cohort, RetentionCell, RetentionQuestion } from '../contract/questions.js'
import { areSimultaneous, extractNumber, extractTime, failForTie, type Order, packEvent } from './event-order.js'
import type { CountingKind } from './kind.js'
import { selectMatchingEvents } from './matching-events.js'
import { findBucketNumber, Statement } from './statement.js'
import { type Buckets, parseRange, parseSessions, type Range, splitIntoBuckets } from './time.js'

/** The length of an interval that is counted from a user's own start, ms. */
const PERIOD_MS = { day: DAY_MS, week: 7 * DAY_MS, month: 30 * DAY_MS }
/** Stands for the cohort itself in a list of intervals. */
const MEMBER = -1

interface Row {
  /** index of its unit in the range */
  cohort: number
  interval: number
  users: string
}

/** Counts the users who come back, by the day, week or month in which they started. */
export const retention: CountingKind<RetentionQuestion, RetentionCell> = {
  query(question, context) {
    const statement = new Statement(context)
    const sql = `SELECT cohort, arrayJoin(arrayPushFront(returned, ${MEMBER})) AS interval, count() AS users
      FROM (${selectMembers(statement, question)}) GROUP BY cohort, interval`
    return { ...statement.query(sql), isGreedy: question.cohort === 'first' && !context.hasManyValues }
  },

  answer(question, rows, { now }) {
    const counts = new Map(
      (rows as Row[]).map(({ cohort, interval, users }) => [`${cohort} ${interval}`, Number(users)]),
    )
    const range = parseRange(question)
    const ends = findCellEnds(question, range)
    const last = Math.min(range.to, now)
    const results = buildUnits(question, range).buckets.map(({ date }, cohort): Cohort => {
      const cells = Array.from({ length: question.intervals }, (_, interval) => ({
        interval,
        users: counts.get(`${cohort} ${interval}`) ?? 0,
        complete: ends(cohort, interval) <= last,
      }))
      return { cohort: date, size: counts.get(`${cohort} ${MEMBER}`) ?? 0, cells }
    })
    return { results, averages: computeAverages(question, results) }
  },

  users(question, { cohort, interval = MEMBER }, statement) {
    const number = buildUnits(question, parseRange(question)).buckets.findIndex(({ date }) => date === cohort)
    return `SELECT user FROM (${selectMembers(statement, question)})
      WHERE cohort = ${statement.number(number)} AND has(arrayPushFront(returned, ${MEMBER}), ${statement.number(interval)})`
  },
}

/**
 * SELECT with a row per user and cohort: `user`, `cohort` (its index), `returned` (the intervals in which the user came
 * back, or counts as having come back).
 */
function selectMembers(statement: Statement, question: RetentionQuestion): string {
  const { mode, count, cohort, intervals } = question
  const { hasTies, hasManyValues } = statement.context
  const order = cohort === 'first' && !hasManyValues && !hasTies ? 'time' : 'id'
  const users = cohort === 'first' && !hasManyValues ? selectFirst : selectStarts
  const period = statement.number(PERIOD_MS[question.unit])
  const since =
    mode === 'calendar'
      ? `${findUnit('r')} - ${findUnit('started')}`
      : `toInt64(floor((${extractTime('r', order)} - ${extractTime('started', order)}) / ${period}))`
  const later = `arrayMap(r -> if(r > started, ${since}, -1), returns)`
  const most = `toInt64(${statement.number(intervals)})`
  const returned =
    count === 'on'
      ? `arrayDistinct(arrayFilter(i -> i >= 0 AND i < ${most}, ${later}))`
      : `range(toUInt64(least(arrayMax(arrayPushBack(${later}, -1)) + 1, ${most})))`
  return `SELECT user, ${findUnit('started')} AS cohort, arrayMap(i -> toInt32(i), ${returned}) AS returned
      FROM (${users(statement, question, order)})`
}

/**
 * SELECT with a row per user whose first start is in the range: `started`, and `returns` with all returns. One GROUP BY
 * takes half the time of two, but the memory of all returns.
 */
function selectFirst(statement: Statement, question: RetentionQuestion, order: Order): string {
  const users = `SELECT user, minIf(event, is_start) AS started, groupArrayIf(event, is_return) AS returns
      FROM (${selectEvents(statement, question, order)}) GROUP BY user HAVING ${findUnit('started')} >= 0`
  if (order === 'id') return users
  // A start that is also a return is itself among the returns.
  const simultaneous = `arrayCount(r -> ${areSimultaneous('r', 'started')}, returns)`
  return `SELECT * FROM (${users}) WHERE ${failForTie(statement, `${simultaneous} > ${isReturn('started')}`)} = 0`
}

/** SELECT with a row per user and start: `started`, and `returns`. */
function selectStarts(statement: Statement, question: RetentionQuestion, order: Order): string {
  const { mode, cohort } = question
  const isCalendar = mode === 'calendar'
  // By the calendar, the first start and the last return of each unit are enough. Rolling intervals begin at each user's
  // start, so they need every return.
  const returns = isCalendar ? 'maxIf(event, is_return)' : 'groupArrayIf(event, is_return)'
  const perUnit = `SELECT user, minIf(event, is_start) AS start, ${returns} AS unit_returns
      FROM (${selectEvents(statement, question, order)}) GROUP BY user, unit`
  const starts = cohort === 'first' ? '[minIf(start, start != 0)]' : `groupArrayIf(start, start != 0)`
  const allReturns = isCalendar ? 'groupArrayIf(unit_returns, unit_returns != 0)' : 'groupArrayArray(unit_returns)'
  const perUser = `SELECT user, arrayFilter(s -> ${findUnit('s')} >= 0, ${starts}) AS cohorts, ${allReturns} AS returns
      FROM (${perUnit}) GROUP BY user HAVING notEmpty(cohorts)`
  return `SELECT user, started, returns FROM (${perUser}) ARRAY JOIN cohorts AS started`
}

/** SQL for the index of the unit of a packed event; -1 for none, and before the range. */
function findUnit(event: string): string {
  return `(toInt64(bitShiftRight(${extractNumber(event)}, 1)) - 1)`
}

/** SQL for 1 if a packed event is a return. */
function isReturn(event: string): string {
  return `bitAnd(${extractNumber(event)}, 1)`
}

/**
 * SELECT of the events, each packed with its time: the index of its unit + 1 (0 before the range, where only first
 * starts count), and a bit for returns. 0 stands for no event.
 */
function selectEvents(statement: Statement, question: RetentionQuestion, order: Order): string {
  const { start, return: back, where, timezone, cohort } = question
  const range = parseRange(question)
  const from = statement.number(range.from)
  const events = selectMatchingEvents(statement, {
    definitions: [start, back],
    where,
    timezone,
    ...(cohort === 'recurring' && { from: range.from }),
    to: range.to,
    // The first start ever may be in a session before the range.
    sessions: cohort === 'recurring' ? parseSessions(question) : { definition: question.sessions, to: range.to },
    user: 'known',
    columns: order === 'id' ? ['id'] : [],
  })
  const unit = findBucketNumber(statement, 'timestamp', buildUnits(question, range))
  const number = 'bitOr(bitShiftLeft(unit, 1), toUInt64(is_return))'
  return `SELECT user, unit, ${packEvent(number, order)} AS event, is_start, is_return
      FROM (
        SELECT *, if(timestamp < ${from}, 0, toUInt64(${unit}) + 1) AS unit,
          bitTest(mask, 0) AS is_start, bitTest(mask, 1) AND timestamp >= ${from} AS is_return
        FROM ${events}
      ) WHERE is_start OR is_return`
}

function buildUnits({ unit, timezone, week_start }: RetentionQuestion, range: Range): Buckets {
  return splitIntoBuckets(range, unit, timezone, week_start)
}

/** Returns a function that returns the end of a cell, epoch ms; later events do not count in the cell. */
function findCellEnds(question: RetentionQuestion, range: Range): (cohort: number, interval: number) => number {
  const { buckets } = buildUnits(question, range)
  if (question.mode === 'calendar') {
    // A cell that ends after the range never becomes complete.
    return (cohort, interval) => buckets[cohort + interval]?.to ?? Number.POSITIVE_INFINITY
  }
  return (cohort, interval) => {
    const lastStart = Math.min(buckets[cohort]?.to ?? range.to, range.to)
    return lastStart + (interval + 1) * PERIOD_MS[question.unit]
  }
}

/** By interval: the share of users who came back, from complete cells only; null if there are none. */
function computeAverages(
  { intervals }: RetentionQuestion,
  cohorts: Cohort[],
): { interval: number; share: number | null }[] {
  return Array.from({ length: intervals }, (_, interval) => {
    let size = 0
    let users = 0
    for (const cohort of cohorts) {
      const cell = cohort.cells[interval]
      if (!cell?.complete) continue
      size += cohort.size
      users += cell.users
    }
    return { interval, share: size === 0 ? null : users / size }
  })
}

import { areSimultaneous, extractNumbers, extractTimes, failForTie, packEvent, pickElements } from './event-order.js'
import type { Statement } from './statement.js'

/** The definition of a funnel. Steps and the bits of a mask are numbered from 0. */
export interface Course {
  /** operand of FROM: events with the columns user, timestamp, id, mask, and breakdown if there is one */
  events: string
  /** the bit of each step */
  steps: number[]
  /** for each step but the last, the bits of events that end an entry between this step and the next */
  excluded: number[][]
  /** for order `any`: for each step, the earlier steps that the same event may match */
  rivals: number[][]
  order: 'ordered' | 'strict' | 'any'
  /** SQL, ms */
  window: string
  /** SQL, epoch ms: entries are before it; they may be as early as the first event */
  to: string
  hasBreakdown: boolean
  /**
   * for order `ordered` and `strict` without a breakdown: whether a user's events are ordered by time alone, so that they need
   * no `id`, and the statement fails if the order of simultaneous ones matters
   */
  isByTime: boolean
}

/**
 * A row per user with an entry: the entry that reached the furthest step, the earliest if there are several. Columns:
 * `user`; `since`, the ms from the entry to each step that it reached, starting with 0; `breakdown` of the entry's
 * event. The events of a user are arrays, and an event is identified by its position. The time is proportional to
 * events × steps even if windows overlap: 0.2 s for 20 steps and 100 000 events of one user (0.8 s in any order).
 * `arrayFold` with a state took 3.2 s for three steps.
 */
export function selectFurthestEntries(statement: Statement, course: Course): string {
  return course.order === 'any' ? selectFurthestInAnyOrder(course) : selectFurthestInOrder(statement, course)
}

/**
 * For order `ordered` and `strict`. From the last step to the second, `findLater` computes for each event of a user
 * when an entry reaches this step and later ones, if this event is its previous step. All steps are one expression,
 * because planning a SELECT for each takes ClickHouse longer than reading a month of events. The events of users who
 * never match the second step are not even sorted.
 */
function selectFurthestInOrder(statement: Statement, course: Course): string {
  const { steps, window, to, hasBreakdown, isByTime } = course
  // Of equal events, it does not matter which one comes first.
  const isTie = `arrayExists((one, next) -> one != next AND ${areSimultaneous('one', 'next')}, arrayPopBack(events), arrayPopFront(events))`
  const second = steps[1]
  const later = second === undefined ? `arrayMap(time -> ${NO_TIMES}, times)` : findLater(course, 1)
  const isEntry = `bitAnd(mask, ${toMask(steps.slice(0, 1))}) != 0 AND time < ${to}`
  const since = `arrayPushFront(arrayFilter(ms -> ms <= ${window}, arrayMap(at -> at - time, later)), 0.)`
  const entries = `arrayMap((time, mask, later) -> if(${isEntry}, ${since}, ${NO_TIMES}), times, masks, ${later})`
  const goesOn = second === undefined ? '1' : `bitAnd(seen, ${toMask([second])}) != 0`
  // For users who go no further, the first entry counts.
  const breakdown = `arrayFirst(entry -> entry.1 = if(goes_on, events[best], entry_min), entries).2`
  // A name in WITH is faster to plan than another SELECT.
  return `(
    WITH arrayMap(since -> length(since), reached) AS depths, indexOf(depths, arrayMax(depths)) AS best
    SELECT user, if(goes_on, reached[best], [0.]) AS since, ${hasBreakdown ? breakdown : `'[]'`} AS breakdown
    FROM (
      SELECT *, ${entries} AS reached
      FROM (
        SELECT *, ${extractTimes('events', isByTime ? 'time' : 'id')} AS times, ${extractNumbers('events')} AS masks
        FROM (
          SELECT * EXCEPT packed, ${goesOn} AS goes_on, if(goes_on, arraySort(packed), arrayResize(packed, 0)) AS events
          FROM (${selectPacked(course, steps.slice(0, 1))})
        )
        ${isByTime ? `WHERE ${failForTie(statement, isTie)} = 0` : ''}
      )
    ))`
}

const NO_TIMES = `CAST([] AS Array(Float64))`

/**
 * SQL for an array of arrays: for each event, the times of the step with this number and of those after it, for an entry
 * that waits for that step from then on. It ends where a step is not reached, whatever the window.
 */
function findLater(course: Course, number: number): string {
  const { steps, excluded, order } = course
  const step = steps[number] ?? 0
  const stops = [step, ...(excluded[number - 1] ?? []), ...(order === 'strict' ? steps : [])]
  const isLast = number === steps.length - 1
  const isTaken = `bitAnd(mask, ${toMask([step])}) != 0`
  const reached = isLast
    ? `arrayMap((time, mask) -> if(${isTaken}, [time], ${NO_TIMES}), times, masks)`
    : `arrayMap((time, mask, later) -> if(${isTaken}, arrayPushFront(later, time), ${NO_TIMES}), times, masks, ${findLater(course, number + 1)})`
  // The next stop after an event decides; the last event is followed by one that stops everything.
  const isStop = `bitAnd(mask, ${toMask(stops)}) != 0`
  return `arrayPopFront(arrayReverseFill((times, mask) -> ${isStop}, arrayPushBack(${reached}, ${NO_TIMES}), arrayPushBack(masks, ${ALL})))`
}

/** The mask of all bits. */
const ALL = `toUInt64(${2n ** 64n - 1n})`

/** For order `any`. */
function selectFurthestInAnyOrder(course: Course): string {
  const { steps, window, hasBreakdown } = course
  const all = listColumns('time', steps)
  const times = steps.map((_, k) => `${pickElements('times', `reached${k}`)} AS time${k}`)
  // Times ascend, and unreached steps are infinitely late, so the number of times within the window is the depth.
  const depth = steps.map((_, k) => `(time${k} - time0 <= ${window})`).join(' + ')
  return `(
    SELECT user, arraySlice([${steps.map((_, k) => `time${k}[best] - time0[best]`)}], 1, depths[best]) AS since,
      ${hasBreakdown ? 'arrayFirst(entry -> entry.1 = events[reached0[best]], entries).2' : `'[]'`} AS breakdown
    FROM (
      SELECT *, arrayMap((${all}) -> ${depth}, ${all}) AS depths, indexOf(depths, arrayMax(depths)) AS best
      FROM (SELECT *, ${times} FROM (${selectInAnyOrder(course)}))
    ))`
}

/**
 * SELECT of a row per user with an entry: `packed`, the events in no order; `seen`, the bits of all of them; `entry_min`
 * and `entries` with the breakdowns of the entries, if there is one.
 * @param first steps that an entry matches
 */
function selectPacked({ events, to, hasBreakdown, isByTime }: Course, first: number[]): string {
  const isEntry = `bitAnd(mask, ${toMask(first)}) != 0 AND timestamp < ${to}`
  const entries = hasBreakdown
    ? ', groupArrayIf((event, breakdown), is_entry) AS entries, minIf(event, is_entry) AS entry_min'
    : ''
  return `SELECT user, groupArray(event) AS packed, groupBitOr(mask) AS seen${entries}
      FROM (SELECT *, ${packEvent('mask', isByTime ? 'time' : 'id')} AS event, ${isEntry} AS is_entry FROM ${events})
      GROUP BY user HAVING max(is_entry)`
}

/**
 * A row per user with an entry. The last event is followed, at the position `never`, by an infinitely late one that
 * matches nothing.
 */
function selectJourneys(course: Course): string {
  return `
    SELECT *, toUInt32(length(events) + 1) AS never, arrayPushBack(${extractTimes('events')}, inf) AS times,
      arrayPushBack(${extractNumbers('events')}, 0) AS masks, arrayEnumerate(masks) AS positions
    FROM (SELECT * EXCEPT packed, arraySort(packed) AS events FROM (${selectPacked(course, course.steps)}))`
}

/** The elements of an array for the events that can be entries because they match one of these steps. */
function selectEntries(array: string, steps: number[], to: string): string {
  return `arrayFilter((value, mask, time) -> bitAnd(mask, ${toMask(steps)}) != 0 AND time < ${to}, ${array}, masks, times)`
}

/**
 * Columns reached0, reached1 …: for each entry, the position at which it reached the step, or `never`. An entry reaches the
 * second step when any two are done.
 */
function selectInAnyOrder(course: Course): string {
  const { steps, excluded, rivals, to } = course
  let sql = `SELECT *, ${selectEntries('positions', steps, to)} AS reached0 FROM (${selectJourneys(course)})`
  // done0, done1 …: the position at which each step is done: the first event that matches it and does no earlier step.
  for (const [k, step] of steps.entries()) {
    const taken = (rivals[k] ?? []).map((rival) => `done${rival}`)
    const earlier = selectEntries('arrayMap((count, match) -> count - match, arrayCumSum(matches), matches)', steps, to)
    const following = `arrayReduceInRanges('groupArray', arrayMap(count -> (count + 1, ${taken.length + 1}), ${earlier}),
      arrayFilter((position, match) -> match, positions, matches))`
    const free = taken.length > 0 ? `arrayFilter(position -> NOT has([${taken}], position), following)` : 'following'
    sql = `
      SELECT * EXCEPT matches, arrayMap((${['following', ...taken]}) -> arrayMin(arrayPushBack(${free}, never)),
        ${[following, ...taken]}) AS done${k}
      FROM (SELECT *, arrayMap(mask -> bitAnd(mask, ${toMask([step])}) != 0, masks) AS matches FROM (${sql}))`
  }
  const done = listColumns('done', steps)
  sql = `SELECT *, arrayMap((${done}) -> arraySort([${done}]), ${done}) AS done FROM (${sql})`
  for (const k of steps.slice(1).keys()) {
    const ends = pickElements(findNext(excluded[k] ?? [], excluded[k] ?? []), `reached${k}`)
    // An entry that has ended reaches no further step.
    sql = `
      SELECT *, arrayMap((reached, done, end) -> if(reached = never OR end < done[${k + 2}], never, done[${k + 2}]),
        reached${k}, done, ${ends}) AS reached${k + 1}
      FROM (${sql})`
  }
  return sql
}

/** For each position, the next event with one of the bits `stops` if it also has one of `wanted`; otherwise `never`. */
function findNext(wanted: number[], stops: number[]): string {
  return `arrayShiftLeft(arrayReverseFill((position, mask) -> bitAnd(mask, ${toMask(stops)}) != 0,
      arrayMap((position, mask) -> if(bitAnd(mask, ${toMask(wanted)}) != 0, position, never), positions, masks), masks), 1, never)`
}

/** The mask of bits by their numbers. */
function toMask(numbers: number[]): string {
  return `toUInt64(${numbers.reduce((mask, number) => mask | (1n << BigInt(number)), 0n)})`
}

/** `time0, time1, time2` */
function listColumns(prefix: string, steps: number[]): string {
  return steps.map((_, k) => `${prefix}${k}`).join(', ')
}

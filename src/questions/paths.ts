import { parseDuration } from '../contract/durations.js'
import { OTHER, SESSION } from '../contract/question-schemas.js'
import type { Definition, Paths, PathsCell, PathsQuestion } from '../contract/questions.js'
import { extractNumbers, extractTimes, packEvent } from './event-order.js'
import type { CountingKind } from './kind.js'
import { selectMatchingEvents } from './matching-events.js'
import { Statement } from './statement.js'
import { parseRange } from './time.js'

/** A node, or the link from it to the next one. */
interface PathsRow {
  step: string
  event: string
  next_event: string | null
  users: string
}

/** Finds the events after an event, or before it, step by step. */
export const paths: CountingKind<PathsQuestion, PathsCell> = {
  query(question, context) {
    const statement = new Statement(context)
    const sql = `WITH ${selectNames(statement, question)} AS names ${selectCountedLinks(buildPathQuery(statement, question))}`
    return statement.query(sql)
  },

  answer({ end }, rows) {
    const results: Paths = { nodes: [], links: [] }
    for (const row of rows as PathsRow[]) {
      const { event, next_event: next } = row
      const [step, users] = [Number(row.step), Number(row.users)]
      if (next === null) results.nodes.push({ step, event, users })
      else if (end) results.links.push({ step, from: next, to: event, users })
      else results.links.push({ step, from: event, to: next, users })
    }
    return { results }
  },

  users(question, cell, statement) {
    const { step, from, to } = cell
    const [event = '', next] = cell.event === undefined ? (question.end ? [to, from] : [from, to]) : [cell.event]
    const takers = selectTakers(buildPathQuery(statement, question), statement, step, event, next)
    return `WITH ${selectNames(statement, question)} AS names ${takers}`
  },
}

/** Extends the range by the window, because a path may begin at the end of the range. */
function widenRange(question: PathsQuestion) {
  const { from, to } = parseRange(question)
  const window = parseDuration(question.window) ?? 0
  return question.end ? { from: from - window, to } : { from, to: to + window }
}

const ANY = { event: '*', where: null }

/** The definitions of the events on a path; sessions only if the path starts or ends at a session. */
function listTaken({ start, end }: PathsQuestion): Definition[] {
  return (start ?? end)?.event === SESSION ? [ANY, { event: SESSION, where: null }] : [ANY]
}

/** The sorted names of all events that may be on a path. */
function selectNames(statement: Statement, question: PathsQuestion): string {
  const { timezone } = question
  const range = widenRange(question)
  const events = selectMatchingEvents(statement, {
    definitions: listTaken(question),
    where: null,
    timezone,
    ...range,
    sessions: { definition: question.sessions, ...range },
    user: 'none',
    columns: ['event'],
  })
  return `(SELECT arraySort(groupUniqArray(event)) FROM ${events})`
}

/** Builds the path query, for a statement that defines `names`. */
function buildPathQuery(statement: Statement, question: PathsQuestion): PathQuery {
  const { start, end, steps, window, where, timezone } = question
  const { from, to } = parseRange(question)
  const first = start ?? end ?? ANY
  const range = widenRange(question)
  const known = { timezone, sessions: { definition: question.sessions, ...range }, user: 'known' } as const
  // This only leaves out users whose path cannot begin. To check `where`, too, might take as long as all the rest.
  const beginners = selectMatchingEvents(statement, { ...known, where: null, definitions: [first], from, to })
  const events = selectMatchingEvents(statement, {
    ...known,
    where,
    definitions: [first, ...listTaken(question)],
    ...range,
    columns: ['id', 'event'],
  })
  return {
    // Skip events with unknown names, which were stored after the names were read.
    events: `(SELECT *, transform(event, names, arrayEnumerate(names), 0) AS code FROM ${events}
      WHERE user ${statement.global}IN (SELECT user FROM ${beginners}) AND code != 0)`,
    names: 'names',
    steps,
    window: statement.number(parseDuration(window) ?? 0),
    from: statement.number(from),
    to: statement.number(to),
    isBack: end !== null,
    limit: statement.count(question.limit),
  }
}

/** The definition of paths from some events, or to them. */
interface PathQuery {
  /**
   * operand of FROM: all events, with the columns user, timestamp, id, mask, whose lowest bit marks the start of a
   * path, and code, the position of the event's name in `names`
   */
  events: string
  /** SQL: the sorted names of all events */
  names: string
  /** maximum number of events after the first one */
  steps: number
  /** SQL, ms: maximum time from the first event to the others */
  window: string
  /** SQL, epoch ms: the first events are not before it */
  from: string
  /** SQL, epoch ms: the first events are before it */
  to: string
  /** whether paths go back in time */
  isBack: boolean
  /** SQL: maximum number of events of a step that get a node */
  limit: string
}

/** A link is an integer: the step, the code of its event, and the code of the next event, or 0 if the path ends. */
const CODE_BITS = 29
const MASK = 2 ** CODE_BITS - 1
const CODE = `bitAnd(bitShiftRight(link, ${CODE_BITS}), ${MASK})`
/** The columns of a link. */
const PARTS = `bitShiftRight(link, ${2 * CODE_BITS}) AS step, ${CODE} AS code, bitAnd(link, ${MASK}) AS next`

/** A row per user with the distinct links of the user's paths. Columns: `user`, `links`. */
function selectUserLinks({ events, steps, window, from, to, isBack }: PathQuery): string {
  const all = Array.from({ length: steps + 1 }, (_, k) => k)
  const [shift, never, elapsed] = isBack
    ? ['arrayShiftRight', '-inf', 'first - time']
    : ['arrayShiftLeft', 'inf', 'time - first']
  const isFirst = `bitAnd(number, 1) != 0 AND time >= ${from} AND time < ${to}`
  const selectFirst = (array: string) => `arrayFilter((value, number, time) -> ${isFirst}, ${array}, numbers, times)`
  // For each first event, the code of the k-th event after it.
  const codes = all.map((k) => {
    const arrays = [selectFirst(`${shift}(numbers, ${k}, 0)`), selectFirst(`${shift}(times, ${k}, ${never})`), 'firsts']
    return `arrayMap((number, time, first) -> if(${elapsed} <= ${window}, bitShiftRight(number, 1), 0), ${arrays}) AS codes${k}`
  })
  const links = all.map((k) => {
    const next = k < steps ? `codes${k + 1}` : 'arrayResize([0], length(firsts), 0)'
    const step = BigInt(k) << BigInt(2 * CODE_BITS)
    return `arrayMap((code, next) -> bitOr(bitOr(bitShiftLeft(code, ${CODE_BITS}), next), ${step}), codes${k}, ${next})`
  })
  return `(
    SELECT user, arrayFilter(link -> ${CODE} != 0, arrayDistinct(arrayConcat(${links}))) AS links
    FROM (
      SELECT *, ${selectFirst('times')} AS firsts, ${codes}
      FROM (
        SELECT user, ${extractTimes('events')} AS times, ${extractNumbers('events')} AS numbers
        FROM (
          SELECT user, arraySort(groupArray(${packEvent('bitOr(bitShiftLeft(toUInt64(code), 1), bitAnd(mask, 1))')})) AS events
          FROM ${events}
          GROUP BY user HAVING max(bitAnd(mask, 1) AND timestamp >= ${from} AND timestamp < ${to})
        )
      )
    ))`
}

/** A row per user and link: `user`, `step`, `code`, `next`. */
function selectEachLink(query: PathQuery): string {
  return `(SELECT user, ${PARTS} FROM ${selectUserLinks(query)} ARRAY JOIN links AS link)`
}

/**
 * Counts the users who reached each node and took each link, largest counts first. Columns: `step`, `event`,
 * `next_event`, which is null in the row of a node, and `users`. Events beyond the first `limit` of a step become
 * `OTHER`.
 */
function selectCountedLinks(query: PathQuery): string {
  // Users are numbered, so that sets of users are bitmaps, which can be merged for a node and for `OTHER`.
  const links = `
    SELECT ${PARTS}, takers
    FROM (
      SELECT link, groupBitmapState(user_number) AS takers
      FROM (SELECT toUInt32(rowNumberInAllBlocks()) AS user_number, links FROM ${selectUserLinks(query)})
      ARRAY JOIN links AS link
      GROUP BY link
    )`
  // The last event of a path has a link, too (to 0), so the users of a node are the union of the users of its links.
  const placed = `
    SELECT *, dense_rank() OVER (PARTITION BY step ORDER BY users DESC, code) AS place,
      dense_rank() OVER (PARTITION BY step ORDER BY next = 0, users_of_next DESC, next) AS place_of_next
    FROM (
      SELECT *, groupBitmapMerge(takers) OVER (PARTITION BY step, code) AS users,
        groupBitmapMerge(takers) OVER (PARTITION BY step, next) AS users_of_next
      FROM (${links})
    )`
  const chooseName = (code: string, place: string) =>
    `if(${place} > ${query.limit}, '${OTHER}', ${query.names}[${code}])`
  const [from, to] = query.isBack ? ['next_event', 'event'] : ['event', 'next_event']
  return `
    SELECT step, event, next_event, groupBitmapMerge(takers) AS users
    FROM (
      SELECT step, takers, ${chooseName('code', 'place')} AS event,
        arrayJoin(if(next = 0, [NULL], [NULL, ${chooseName('next', 'place_of_next')}])) AS next_event
      FROM (${placed})
    )
    GROUP BY step, event, next_event
    ORDER BY step, event = '${OTHER}' OR ifNull(next_event = '${OTHER}', false), users DESC, ${from}, ${to}`
}

/** SELECT of the users who reached a node, or took the link from it to `next` if given; possibly with duplicates. */
function selectTakers(query: PathQuery, statement: Statement, step: number, event: string, next?: string): string {
  const isCalled = (code: string, name: string, step: number) => {
    const isSame = `${query.names}[${code}] = ${statement.text(name)}`
    if (name !== OTHER) return isSame
    const first = `SELECT code FROM (SELECT DISTINCT user, code FROM ${selectEachLink(query)} WHERE step = ${statement.number(step)})
      GROUP BY code ORDER BY count() DESC, code LIMIT ${query.limit}`
    return `(${isSame} OR ${code} NOT IN (${first}))`
  }
  const isNext = next === undefined ? 'true' : `next != 0 AND ${isCalled('next', next, step + 1)}`
  return `
    SELECT user FROM ${selectEachLink(query)}
    WHERE step = ${statement.number(step)} AND ${isCalled('code', event, step)} AND ${isNext}`
}

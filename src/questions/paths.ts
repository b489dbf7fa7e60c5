import { parseDuration } from '../contract/durations.js'
import { SESSION } from '../contract/question-schemas.js'
import type { Definition, Paths, PathsCell, PathsQuestion } from '../contract/questions.js'
import type { CountingKind } from './kind.js'
import { selectMatchingEvents } from './matching-events.js'
import { type PathQuery, selectCountedLinks, selectTakers } from './paths-links.js'
import { Statement } from './statement.js'
import { parseRange, parseSessions } from './time.js'

/** A node, or the link from it to the next one. */
interface PathsRow {
  step: string
  event: string
  next_event: string | null
  users: string
}

/** Finds the events after an event, or before it, step by step. */
export const paths: CountingKind<PathsQuestion, PathsCell> = {
  query(question, asked) {
    const statement = new Statement(asked)
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
  const events = selectMatchingEvents(statement, {
    definitions: listTaken(question),
    where: null,
    timezone,
    ...widenRange(question),
    sessions: parseSessions(question),
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
  const known = { where, timezone, sessions: parseSessions(question), user: 'known' } as const
  const beginners = selectMatchingEvents(statement, { ...known, definitions: [first], from, to })
  const events = selectMatchingEvents(statement, {
    ...known,
    definitions: [first, ...listTaken(question)],
    ...widenRange(question),
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

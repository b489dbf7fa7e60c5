import { parseDuration } from '../contract/durations.js'
import { formatExactJson } from '../contract/exact-json.js'
import { OTHER } from '../contract/question-schemas.js'
import type { Definition, FunnelCell, FunnelLine, FunnelQuestion, FunnelStep } from '../contract/questions.js'
import { formatBreakdown } from '../store/json-sql.js'
import { type Course, selectFurthestEntries } from './funnel-entries.js'
import type { CountingKind } from './kind.js'
import { selectMatchingEvents } from './matching-events.js'
import { Statement } from './statement.js'
import { parseRange } from './time.js'

/** A line of the answer; its lists have an element for each step that a user reached. */
interface FunnelRow {
  /** the JSON text of the breakdown's values; null for the rest */
  line: string | null
  users: string[]
  medians: number[]
  means: number[]
}

/** Counts the users who do the steps one after another, and measures how long that takes them. */
export const funnel: CountingKind<FunnelQuestion, FunnelCell> = {
  query(question, context) {
    const statement = new Statement(context)
    const select = question.breakdown.length === 0 ? selectLine : selectLines
    return statement.query(select(statement, question))
  },

  answer(question, rows, { now }) {
    const isComplete = parseRange(question).to + parseWindow(question) <= now
    return { results: (rows as FunnelRow[]).map((row) => toLine(question, row, isComplete)) }
  },

  users(question, { step, breakdown, dropped }, statement) {
    const reached = dropped ? `= ${statement.number(step - 1)}` : `>= ${statement.number(step)}`
    const isInLine = matchLine(statement, question, breakdown)
    return `SELECT user FROM ${selectFunnelUsers(statement, question)} WHERE length(since) ${reached} AND ${isInLine}`
  },
}

/** SQL condition for users who count in a line. */
function matchLine(statement: Statement, question: FunnelQuestion, values: unknown[]): string {
  if (question.breakdown.length === 0) return 'true'
  if (values.length !== 1 || values[0] !== OTHER) return `breakdown = ${statement.text(formatBreakdown(values))}`
  const first = `SELECT breakdown FROM ${selectFunnelUsers(statement, question)}
    GROUP BY breakdown ORDER BY count() DESC, breakdown LIMIT ${statement.count(question.limit)}`
  return `breakdown ${statement.global}NOT IN (${first})`
}

/** A row per user with an entry; see `selectFurthestEntries`. */
function selectFunnelUsers(statement: Statement, question: FunnelQuestion): string {
  const { steps, exclude, where, timezone, breakdown, order } = question
  const { from, to } = parseRange(question)
  const range = { from, to: to + parseWindow(question) }
  // Identical steps share a bit.
  const definitions = new Map([...steps, ...exclude].map((definition) => [toDefinitionKey(definition), definition]))
  const bits = new Map([...definitions.keys()].map((key, bit) => [key, bit]))
  const isByTime = !statement.context.hasTies && order !== 'any' && breakdown.length === 0
  const findBit = (definition: Definition) => bits.get(toDefinitionKey(definition)) ?? 0
  const course: Course = {
    events: selectMatchingEvents(statement, {
      definitions: [...definitions.values()].map(({ event, where }) => ({ event, where })),
      where,
      timezone,
      ...range,
      sessions: { definition: question.sessions, ...range },
      user: 'known',
      columns: isByTime ? [] : ['id'],
      ...(breakdown.length > 0 && { breakdown }),
    }),
    steps: steps.map(findBit),
    excluded: steps.map((_, k) => exclude.filter(({ after }) => after === k + 1).map(findBit)),
    rivals: steps.map((step, k) =>
      [...steps.keys()].slice(0, k).filter((earlier) => mayMatchBoth(step, steps[earlier])),
    ),
    order,
    window: statement.number(parseWindow(question)),
    to: statement.number(to),
    hasBreakdown: breakdown.length > 0,
    isByTime,
  }
  return selectFurthestEntries(statement, course)
}

/** One line for all users, which is faster to plan than a grouping into lines. */
function selectLine(statement: Statement, question: FunnelQuestion): string {
  return `SELECT '[]' AS line, countForEach(since) AS users, quantileExactInclusiveForEach(0.5)(since) AS medians,
      avgForEach(since) AS means
    FROM ${selectFunnelUsers(statement, question)}`
}

/** Lines are aggregate states, so that the ones beyond the limit can be merged: a median needs all times. */
function selectLines(statement: Statement, question: FunnelQuestion): string {
  return `
    SELECT if(place > ${statement.number(question.limit)}, NULL, breakdown) AS line, countForEachMerge(counts) AS users,
      quantileExactInclusiveForEachMerge(0.5)(quantiles) AS medians, avgForEachMerge(averages) AS means
    FROM (
      SELECT *, row_number() OVER (ORDER BY entered DESC, breakdown) AS place
      FROM (
        SELECT breakdown, count() AS entered, countForEachState(since) AS counts,
          quantileExactInclusiveForEachState(0.5)(since) AS quantiles, avgForEachState(since) AS averages
        FROM ${selectFunnelUsers(statement, question)}
        GROUP BY breakdown
      )
    )
    GROUP BY line
    ORDER BY min(place)`
}

function toLine(question: FunnelQuestion, row: FunnelRow, complete: boolean): FunnelLine {
  const users = question.steps.map((_, k) => Number(row.users[k] ?? 0))
  const steps = users.map((count, k): FunnelStep => {
    const isReached = k > 0 && count > 0
    return {
      users: count,
      of_first: k === 0 ? 1 : computeShare(count, users[0]),
      of_previous: k === 0 ? 1 : computeShare(count, users[k - 1]),
      median_ms: isReached ? (row.medians[k] ?? null) : null,
      mean_ms: isReached ? (row.means[k] ?? null) : null,
    }
  })
  return { breakdown: row.line === null ? [OTHER] : JSON.parse(row.line), steps, complete }
}

function computeShare(count: number, of = 0): number {
  return of === 0 ? 0 : count / of
}

function parseWindow({ window }: FunnelQuestion): number {
  return parseDuration(window) ?? 0
}

function toDefinitionKey({ event, where }: Definition): string {
  return formatExactJson([event, where])
}

/** Whether the names allow an event to match both definitions. */
function mayMatchBoth(one: Definition, other: Definition | undefined): boolean {
  if (!other || one.event === '*' || other.event === '*') return true
  const names = new Set([one.event].flat())
  return [other.event].flat().some((name) => names.has(name))
}

import { QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import type { FieldName } from '../contract/questions.js'
import type { PropertyName, PropertyType } from '../contract/responses.js'
import { lastIdAt, parseEventId } from '../model/event-id.js'
import { START, toMilliseconds } from '../model/position.js'
import { EventRows, formatFieldJson } from './event-rows.js'
import { failIf, repairText, unmarkName, unmarkToken } from './json-sql.js'
import type { Query } from './kind.js'
import { type QueryContext, Statement } from './statement.js'

/** A range of a project's events by their ids. */
export interface IdRange {
  /** exclusive; null: from the first event on */
  after: string | null
  upTo: string
  /** only events of this name */
  event?: string | undefined
  /** only this many of the newest */
  newest?: number | undefined
}

/** Maximum number of event names in a list, which has the most frequent ones. */
export const MAX_NAMES = 10_000
/** Maximum number of properties in a list, which has the most frequent ones. */
export const MAX_PROPERTIES = 2_000
const MAX_EXAMPLES = 5
/** Values with more bytes of JSON are neither listed nor used as examples. */
const MAX_VALUE_BYTES = 200

export interface EventRow {
  event: string
  count: string
  first: number
  last: number
}

/** Query for EventRows: events by name with the times of the first and the last, most frequent first. */
export function queryEventNames(asked: QueryContext, range: IdRange): Query {
  const statement = new Statement(asked)
  const sql = `SELECT event, count() AS count, min(timestamp) AS first, max(timestamp) AS last
    FROM (${selectTimedEvents(statement, range)})
    GROUP BY event ORDER BY count DESC, event LIMIT ${statement.count(MAX_NAMES + 1)}`
  // If names contain ids, there may be as many names as events.
  const settings = { max_rows_to_group_by: String(10 * MAX_NAMES), group_by_overflow_mode: 'any' as const }
  return { sql, parameters: statement.parameters, settings }
}

/** Maximum number of MonthRows of all months together. */
export const MAX_MONTHLY_NAMES = 3 * MAX_NAMES

/** An EventRow of one month; the event id decides the month. */
export interface MonthRow extends EventRow {
  /** such as 202604 */
  month: string
}

/** The events to count: all of `months`, which are past, and those of the last month up to an id. */
export interface Months {
  upTo: string
  months: readonly string[]
}

/** Query for MonthRows. If it returns MAX_MONTHLY_NAMES rows, there may be more. */
export function queryMonthlyNames(asked: QueryContext, { upTo, months }: Months): Query {
  const statement = new Statement(asked)
  const last = toMonth(upTo)
  // Counting one month after another takes half the time of a GROUP BY month and name.
  const counted = (month: string, events: string) =>
    `SELECT ${statement.text(month)} AS month, event, count() AS count, min(timestamp) AS first, max(timestamp) AS last
     FROM (${events}) GROUP BY event`
  const { all, inRange } = buildTimedQueries(statement, { after: null, upTo })
  const each = [
    ...months.map((month) => counted(month, `${all} WHERE _partition_id = ${statement.text(month)}`)),
    counted(last, `${inRange} WHERE _partition_id >= ${statement.text(last)}`),
  ]
  const sql = `SELECT * FROM (${each.join(' UNION ALL ')}) LIMIT ${statement.count(MAX_MONTHLY_NAMES)}`
  const settings = { max_rows_to_group_by: String(MAX_MONTHLY_NAMES), group_by_overflow_mode: 'any' as const }
  return { sql, parameters: statement.parameters, settings }
}

/** Time limit of a query for data that ClickHouse has in memory, ms. */
const PARTS_LIMIT_MS = 5_000

/** Time limit of a query that reads the project of every row, ms. */
const LARGEST_LIMIT_MS = 60_000

/** By month: a fingerprint of its parts, which changes if rows are added, deleted or edited. */
export async function readMonthParts(shards: Shards): Promise<Map<string, string>> {
  const found = await shards.each(({ clickhouse }) =>
    clickhouse.rows<{ month: string; parts: string }>(
      `SELECT right(partition_id, 6) AS month, toString(groupBitXor(sipHash64(name))) AS parts
       FROM system.parts WHERE active AND database = currentDatabase() AND table = 'events' GROUP BY month`,
      {},
      {},
      { limitMs: PARTS_LIMIT_MS },
    ),
  )
  const months = new Map<string, string>()
  for (const [shard, rows] of found.entries()) {
    for (const { month, parts } of rows) months.set(month, `${months.get(month) ?? ''} ${shard}:${parts}`)
  }
  return months
}

/** Projects with more events than a number, largest first. Reads the project of every row, in one thread. */
export async function findLargestProjects(
  shards: Shards,
  { than, limit }: { than: number; limit: number },
): Promise<string[]> {
  const parameters = new QueryParameters()
  const rows = await shards.rows<{ project_id: string }>(
    `SELECT project_id FROM ${shards.table('events')} GROUP BY project_id HAVING count() > ${parameters.count(than)}
     ORDER BY count() DESC, project_id LIMIT ${parameters.count(limit)}`,
    parameters.parameters,
    { max_threads: 1 },
    { limitMs: LARGEST_LIMIT_MS },
  )
  return rows.map(({ project_id }) => project_id)
}

/** When the last dead letter of any project was replayed, epoch ms; 0 if none was. */
export async function readLastReplay(shards: Shards): Promise<number> {
  const [row] = await shards.rows<{ at: string }>(
    `SELECT max(replayed_at) AS at FROM ${shards.table('dead_letter_replays')}`,
    {},
    {},
    { limitMs: PARTS_LIMIT_MS },
  )
  return Number(row?.at ?? 0)
}

/** SELECTs of `event` and `timestamp`: `all` events of the project, without WHERE, and those `inRange` of ids. */
function buildTimedQueries(statement: Statement, range: IdRange): { all: string; inRange: string } {
  const all = `SELECT event, timestamp FROM ${statement.context.shards.table('events')}
    PREWHERE project_id = ${statement.project}`
  return { all, inRange: `${all} AND ${buildConditions(statement, range).join(' AND ')}` }
}

/** The events in a range. Past months are included completely, so their ids, the largest column, need not be read. */
function selectTimedEvents(statement: Statement, range: IdRange): string {
  const { all, inRange } = buildTimedQueries(statement, range)
  if (range.after !== null) return inRange
  const month = statement.text(toMonth(range.upTo))
  return `${all} WHERE _partition_id < ${month} UNION ALL ${inRange} WHERE _partition_id >= ${month}`
}

/** The partition of an event by its id, such as 202604. */
export function toMonth(id: string): string {
  const ms = toMilliseconds(parseEventId(id)?.position ?? START)
  return new Date(ms).toISOString().slice(0, 7).replace('-', '')
}

/** The greatest id before a month. */
export function findLastIdBefore(month: string): string {
  return lastIdAt((BigInt(findMonthStart(month)) << 16n) - 1n)
}

/** @param month such as 202604 */
export function getNextMonth(month: string): string {
  const ms = findMonthStart(month, 1)
  return new Date(ms).toISOString().slice(0, 7).replace('-', '')
}

/** When a month begins, epoch ms. @param later the number of months after it */
function findMonthStart(month: string, later = 0): number {
  return Date.UTC(Number(month.slice(0, 4)), Number(month.slice(4)) - 1 + later)
}

/**
 * Counts of one type of a property's values; `none` stands for all events. `examples` are `[count, token]`, most
 * frequent first.
 */
export interface PropertyRow {
  name: string
  type: PropertyType | 'none'
  count: string
  examples: [count: string, token: string][]
}

/** Query for the PropertyRows of the properties at the top level. */
export function queryPropertyNames(asked: QueryContext, range: IdRange): Query {
  const statement = new Statement(asked)
  // The first of duplicate names counts. An additional member represents the event itself.
  const members = `arrayPushBack(arrayFilter((member, nth) -> nth = 1 AND member.2 != 'null',
    members, arrayEnumerateUniq(members.1)), ('', ''))`
  const type = `multiIf(value = '', 'none', startsWith(value, '"'), 'string', startsWith(value, '['), 'array',
    startsWith(value, '{'), 'object', value IN ('true', 'false'), 'boolean', 'number')`
  const values = `SELECT member.1 AS name, ${type} AS type, if(length(value) <= ${MAX_VALUE_BYTES}, value, '') AS example,
      count() AS times
    FROM (SELECT arrayJoin(${members}) AS member, member.2 AS value FROM (${selectMembers(statement, range)}))
    GROUP BY name, type, example`
  const shown = `groupArraySortedIf(${MAX_EXAMPLES})((-toInt64(times), example), example != '')`
  const types = `SELECT name, type, sum(times) AS count, arrayMap(e -> (-e.1, e.2), ${shown}) AS examples
    FROM (${values}) GROUP BY name, type`
  const sql = `SELECT name, type, count, examples FROM (${types})
    ORDER BY count DESC, name, type LIMIT ${statement.count(MAX_PROPERTIES)}`
  return { sql, parameters: statement.parameters }
}

/** Rows `members`: the names and tokens in an event's properties. */
function selectMembers(statement: Statement, range: IdRange): string {
  const parsed = (text: string) => `JSONExtractKeysAndValuesRaw(${text})`
  const isRefused = `empty(found) AND NOT isValidJSON(properties)`
  const repairedMembers = `arrayMap(m -> (m.1, ${unmarkToken('m.2')}), ${parsed(repairText('properties'))})`
  const members = statement.context.repairsTexts
    ? `if(${isRefused}, ${repairedMembers}, found)`
    : `if(${failIf(isRefused)}, [], found)`
  return `SELECT ${parsed('properties')} AS found, ${members} AS members
    FROM ${selectSample(statement, range)}`
}

/** Operand of FROM: the events of a range. */
function selectSample(statement: Statement, range: IdRange): string {
  const events = `SELECT event, distinct_id, timestamp, properties FROM ${statement.context.shards.table('events')}
    PREWHERE project_id = ${statement.project} AND ${buildConditions(statement, range).join(' AND ')}`
  if (range.newest === undefined) return `(${events})`
  // In the table's order, so that ClickHouse reads it from its end until there are enough.
  return `(${events} ORDER BY project_id DESC, toUInt128(event_id) DESC LIMIT ${statement.count(range.newest)})`
}

/** `value` is JSON: `null` if the field is not set, empty if it is too long. */
export interface ValueRow {
  value: string
  count: string
}

/** Query for the ValueRows of a field, the most frequent first. */
export function queryFieldValues(asked: QueryContext, range: IdRange, field: FieldName): Query {
  const statement = new Statement(asked)
  const rows = new EventRows(statement)
  const value = formatFieldJson(rows.field(field), asked)
  const sample = rows.of(selectSample(statement, range), ['event', 'distinct_id', 'timestamp'])
  const sql = `SELECT if(length(json) <= ${MAX_VALUE_BYTES}, json, '') AS value, count() AS count
    FROM (SELECT ${value} AS json FROM ${sample} AS rows)
    GROUP BY value ORDER BY count DESC, value`
  return { sql, parameters: statement.parameters }
}

function buildConditions(statement: Statement, { after, upTo, event }: IdRange): string[] {
  return [
    // Filter by the smallest column first.
    ...(event === undefined ? [] : [`event = ${statement.text(event)}`]),
    `toUInt128(event_id) <= toUInt128(toUUID(${statement.text(upTo)}))`,
    ...(after === null ? [] : [`toUInt128(event_id) > toUInt128(toUUID(${statement.text(after)}))`]),
  ]
}

/** The properties in PropertyRows, the most frequent first. @param sampled number of events in the sample */
export function toProperties(rows: readonly PropertyRow[], sampled: number): PropertyName[] {
  const byName = new Map<string, { type: PropertyType; count: number; examples: PropertyRow['examples'] }[]>()
  for (const { name, type, count, examples } of rows) {
    if (type === 'none') continue
    const types = byName.get(name) ?? []
    types.push({ type, count: Number(count), examples })
    byName.set(name, types)
  }
  const properties = [...byName].map(([name, types]) => {
    const count = types.reduce((sum, { count }) => sum + count, 0)
    const examples = types.flatMap(({ examples }) => examples).sort(([a], [b]) => Number(b) - Number(a))
    return {
      property: unmarkName(name),
      share: count / sampled,
      types: types.map(({ type, count: of }) => ({ type, share: of / count })),
      examples: examples.slice(0, MAX_EXAMPLES).map(([, token]) => JSON.parse(token) as unknown),
    }
  })
  return properties.sort((a, b) => b.share - a.share || (a.property < b.property ? -1 : 1))
}

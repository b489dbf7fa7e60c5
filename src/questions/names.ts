import { QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import { CONTEXT_NAMES } from '../contract/page-fields.js'
import type { FieldName } from '../contract/questions.js'
import type { PropertyName, PropertyType } from '../contract/responses.js'
import { lastIdAt, parseEventId } from '../model/event-id.js'
import { START, toMilliseconds } from '../model/position.js'
import { failIf, repairText, unmarkName, unmarkToken } from '../store/json-sql.js'
import { newestRows } from '../store/newest-rows.js'
import { EventRows, formatFieldJson } from './event-rows.js'
import { type Query, type QueryContext, Statement } from './statement.js'

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
/** Maximum number of properties in a list, which has the most frequent ones; those at the top level come first. */
export const MAX_PROPERTIES = 2_000
/** How many names a listed property consists of: `a.b.c.d` has four. */
export const MAX_DEPTH = 4
/** Maximum number of names listed for an object within a property, because they may be ids. */
export const MAX_MEMBERS = 100
const MAX_EXAMPLES = 5
/** A sample has all values of a property with fewer values than this. */
const MAX_KEPT_EXAMPLES = 20
/** Values with more bytes of JSON are neither listed nor used as examples. */
const MAX_VALUE_BYTES = 200

export interface EventRow {
  event: string
  count: string
  first: number
  last: number
}

/** Query for EventRows: events by name with the times of the first and the last, most frequent first. */
export function queryEventNames(context: QueryContext, range: IdRange): Query {
  const statement = new Statement(context)
  const sql = `SELECT event, count() AS count, min(timestamp) AS first, max(timestamp) AS last
    FROM (${selectTimedEvents(statement, range)})
    GROUP BY event ORDER BY count DESC, event LIMIT ${statement.count(MAX_NAMES + 1)}`
  // If names contain ids, there may be as many names as events.
  const settings = { max_rows_to_group_by: String(10 * MAX_NAMES), group_by_overflow_mode: 'any' as const }
  return statement.query(sql, settings)
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
export function queryMonthlyNames(context: QueryContext, { upTo, months }: Months): Query {
  const statement = new Statement(context)
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
  return statement.query(sql, settings)
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
  /** the name at the top level and those of objects within it */
  path: string[]
  type: PropertyType | 'none'
  count: string
  examples: [count: string, token: string][]
}

/** Query for the PropertyRows of events. */
export function queryPropertyNames(context: QueryContext, range: IdRange): Query {
  const statement = new Statement(context)
  return queryProperties(statement, selectSample(statement, range))
}

/**
 * Query for the PropertyRows of some profiles or sessions of the calls, in the order of their keys.
 * @param most number of rows
 */
export function queryRowProperties(context: QueryContext, table: 'profiles' | 'sessions', most: number): Query {
  const statement = new Statement(context)
  const keys = `project_id = ${statement.project}`
  const rows = newestRows(context.shards, table, { keys, columns: ['properties'] })
  return queryProperties(statement, `(SELECT properties FROM ${rows} WHERE ${keys} LIMIT ${statement.count(most)})`)
}

/** @param rows operand of FROM with `properties` */
function queryProperties(statement: Statement, rows: string): Query {
  const type = `multiIf(value = '', 'none', startsWith(value, '"'), 'string', startsWith(value, '['), 'array',
    startsWith(value, '{'), 'object', value IN ('true', 'false'), 'boolean', 'number')`
  const values = `SELECT member.1 AS path, ${type} AS type, if(length(value) <= ${MAX_VALUE_BYTES}, value, '') AS example,
      count() AS times
    FROM (SELECT arrayJoin(members) AS member, member.2 AS value FROM (${selectMembers(statement, rows)}))
    GROUP BY path, type, example`
  const shown = `groupArraySortedIf(${MAX_KEPT_EXAMPLES})((-toInt64(times), example), example != '')`
  const types = `SELECT path, type, sum(times) AS count, arrayMap(e -> (-e.1, e.2), ${shown}) AS examples
    FROM (${values}) GROUP BY path, type`
  const sql = `SELECT path, type, count, examples FROM (${types})
    ORDER BY length(path) > 1, count DESC, path, type LIMIT ${statement.count(MAX_PROPERTIES)}`
  return statement.query(sql)
}

/** Rows `members`: the paths and tokens in an event's properties, and an empty member for the event itself. */
function selectMembers(statement: Statement, rows: string): string {
  const parse = (text: string) => `JSONExtractKeysAndValuesRaw(${text})`
  const isRefused = `empty(found) AND NOT isValidJSON(properties)`
  const { repairsTexts } = statement.context
  const taken = repairsTexts
    ? `if(is_refused, ${parse(repairText('properties'))}, found)`
    : `if(${failIf('is_refused')}, [], found)`
  // A subquery for each level, because ClickHouse would plan an expression again wherever it is used.
  let levels = `(SELECT properties, ${parse('properties')} AS found, ${isRefused} AS is_refused,
      arrayMap(m -> ([m.1], m.2), ${taken}) AS all_0, ${pickFirst('all_0')} AS level_0 FROM ${rows})`
  for (let i = 1; i < MAX_DEPTH; i++) {
    const inner = `arrayMap(m -> (arrayPushBack(o.1, m.1), m.2), arraySlice(${parse('o.2')}, 1, ${MAX_MEMBERS}))`
    const objects = `arrayFilter(o -> startsWith(o.2, '{'), level_${i - 1})`
    levels = `(SELECT *, arrayFlatten(arrayMap(o -> ${inner}, ${objects})) AS all_${i}, ${pickFirst(`all_${i}`)} AS level_${i}
      FROM ${levels})`
  }
  const all = `arrayConcat(${Array.from({ length: MAX_DEPTH }, (_, i) => `level_${i}`).join(', ')})`
  const tokens = repairsTexts ? `if(is_refused, arrayMap(m -> (m.1, ${unmarkToken('m.2')}), ${all}), ${all})` : all
  return `SELECT arrayPushBack(${tokens}, (CAST([], 'Array(String)'), '')) AS members FROM ${levels}`
}

/** The members that are set; the first of duplicate names counts. */
function pickFirst(members: string): string {
  return `arrayFilter((m, nth) -> nth = 1 AND m.2 != 'null', ${members}, arrayEnumerateUniq(${members}.1))`
}

/** Time limit of the search for a name in all events, after the newest ones lacked it, s. */
const SEARCH_LIMIT_S = 0.4

/**
 * Query that returns one row if the properties of any event contain a name, at any depth. It fails if the search takes
 * too long.
 * @param events names of events; null for all
 */
export function queryNameInTexts(
  context: QueryContext,
  { name, events }: { name: string; events: readonly string[] | null },
): Query {
  const statement = new Statement(context)
  const text = JSON.stringify(name)
  const escaped = text.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
  const conditions = [`project_id = ${statement.project}`]
  if (events !== null) conditions.push(`event IN ${statement.texts(events)}`)
  const sql = `SELECT 1 AS found FROM ${context.shards.table('events')} PREWHERE ${conditions.join(' AND ')}
    WHERE multiSearchAny(properties, ${statement.texts([...new Set([text, escaped])])}) LIMIT 1`
  return statement.query(sql, { max_execution_time: SEARCH_LIMIT_S, max_threads: 1 })
}

/** Operand of FROM: the events of a range. */
function selectSample(statement: Statement, range: IdRange): string {
  const columns = ['event', 'distinct_id', 'timestamp', 'properties', ...CONTEXT_NAMES]
  const events = `SELECT ${columns.join(', ')} FROM ${statement.context.shards.table('events')}
    PREWHERE project_id = ${statement.project} AND ${buildConditions(statement, range).join(' AND ')}`
  if (range.newest === undefined) return `(${events})`
  // In the order of the table, so that ClickHouse reads the table from its end until there are enough events.
  return `(${events} ORDER BY project_id DESC, toUInt128(event_id) DESC LIMIT ${statement.count(range.newest)})`
}

/** `value` is JSON: `null` if the field is not set, empty if it is too long. */
export interface ValueRow {
  value: string
  count: string
}

/** Query for the ValueRows of a field, the most frequent first. */
export function queryFieldValues(context: QueryContext, range: IdRange, field: FieldName): Query {
  const statement = new Statement(context)
  const rows = new EventRows(statement)
  const value = formatFieldJson(rows.field(field), context)
  const sample = rows.of(selectSample(statement, range), ['event', 'distinct_id', 'timestamp'])
  const sql = `SELECT if(length(json) <= ${MAX_VALUE_BYTES}, json, '') AS value, count() AS count
    FROM (SELECT ${value} AS json FROM ${sample} AS rows)
    GROUP BY value ORDER BY count DESC, value`
  return statement.query(sql)
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
  const children = new Map<string, Map<string, PropertyRow[]>>()
  for (const row of rows) {
    if (row.type === 'none') continue
    const siblings = getOrAdd(children, JSON.stringify(row.path.slice(0, -1)), () => new Map<string, PropertyRow[]>())
    getOrAdd(siblings, row.path.at(-1) ?? '', () => []).push(row)
  }
  const list = (parent: string[]): PropertyName[] => {
    const properties = [...(children.get(JSON.stringify(parent)) ?? [])].map(([name, types]) => {
      const within = list([...parent, name])
      return { ...toProperty(name, types, sampled), ...(within.length > 0 && { properties: within }) }
    })
    return properties.sort((a, b) => b.share - a.share || (a.property < b.property ? -1 : 1))
  }
  return list([])
}

function toProperty(name: string, rows: readonly PropertyRow[], sampled: number): PropertyName {
  const types = rows.map(({ type, count }) => ({ type: type as PropertyType, count: Number(count) }))
  const count = types.reduce((sum, { count }) => sum + count, 0)
  const examples = rows.flatMap(({ examples }) => examples).sort(([a], [b]) => Number(b) - Number(a))
  return {
    property: unmarkName(name),
    share: count / sampled,
    types: types.map(({ type, count: of }) => ({ type, share: of / count })),
    examples: examples.slice(0, MAX_EXAMPLES).map(([, token]) => JSON.parse(token) as unknown),
  }
}

function getOrAdd<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key) ?? make()
  map.set(key, known)
  return known
}

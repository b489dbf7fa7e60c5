import type { FieldName } from '../contract/questions.js'
import type { PropertyName, PropertyType } from '../contract/responses.js'
import { parseEventId } from '../model/event-id.js'
import { millisecondsOf, START } from '../model/position.js'
import { failureIf, repaired, unmarked, unmarkedName } from './json-sql.js'
import type { Query } from './kind.js'
import { EventRows, fieldJson } from './rows.js'
import { type Asked, Statement } from './statement.js'

/** A range of a project's events by their ids. */
export interface IdRange {
  /** since the first where it is null */
  after: string | null
  upTo: string
  /** only events of this name */
  event?: string | undefined
}

/** Of a project with more names than this the most frequent ones are known. */
export const MAX_NAMES = 10_000
/** Of a sample with more names of properties, the most frequent ones. */
const MAX_PROPERTIES = 2_000
const MAX_EXAMPLES = 5
/** Longer values, in bytes of JSON, are no examples, and nothing to choose from. */
const MAX_VALUE_BYTES = 200

export interface EventRow {
  event: string
  count: string
  first: number
  last: number
}

/** EventRows: how many events of each name there are, and the times of the first and the last; the most frequent first. */
export function eventNames(asked: Asked, range: IdRange): Query {
  const statement = new Statement(asked)
  const sql = `SELECT event, count() AS count, min(timestamp) AS first, max(timestamp) AS last
    FROM (${timedEvents(statement, range)})
    GROUP BY event ORDER BY count DESC, event LIMIT ${statement.count(MAX_NAMES + 1)}`
  // Names with ids in them may be as many as events.
  const settings = { max_rows_to_group_by: String(10 * MAX_NAMES), group_by_overflow_mode: 'any' as const }
  return { sql, parameters: statement.parameters, settings }
}

/** Rows `event` and `timestamp`. Of months that are over, all are meant, and their ids, which are most to read, are left. */
function timedEvents(statement: Statement, range: IdRange): string {
  const select = `SELECT event, timestamp FROM ${statement.asked.shards.table('events')}
    PREWHERE project_id = ${statement.project}`
  const inRange = `${select} AND ${conditions(statement, range).join(' AND ')}`
  if (range.after !== null) return inRange
  const month = statement.text(monthOf(range.upTo))
  return `${select} WHERE _partition_id < ${month} UNION ALL ${inRange} WHERE _partition_id >= ${month}`
}

/** The partition that an event is in by its id. */
function monthOf(id: string): string {
  const ms = millisecondsOf(parseEventId(id)?.position ?? START)
  return new Date(ms).toISOString().slice(0, 7).replace('-', '')
}

/** Of one type of a property's values, `none` of all events; `examples` are `[count, token]`, the most frequent first. */
export interface PropertyRow {
  name: string
  type: PropertyType | 'none'
  count: string
  examples: [count: string, token: string][]
}

/** PropertyRows of the properties at the top level. */
export function propertyNames(asked: Asked, range: IdRange): Query {
  const statement = new Statement(asked)
  // Of a name that is given twice the first counts. One member more stands for the event itself.
  const members = `arrayPushBack(arrayFilter((member, nth) -> nth = 1 AND member.2 != 'null',
    members, arrayEnumerateUniq(members.1)), ('', ''))`
  const type = `multiIf(value = '', 'none', startsWith(value, '"'), 'string', startsWith(value, '['), 'array',
    startsWith(value, '{'), 'object', value IN ('true', 'false'), 'boolean', 'number')`
  const values = `SELECT member.1 AS name, ${type} AS type, if(length(value) <= ${MAX_VALUE_BYTES}, value, '') AS example,
      count() AS times
    FROM (SELECT arrayJoin(${members}) AS member, member.2 AS value FROM (${memberRows(statement, range)}))
    GROUP BY name, type, example`
  const shown = `groupArraySortedIf(${MAX_EXAMPLES})((-toInt64(times), example), example != '')`
  const types = `SELECT name, type, sum(times) AS count, arrayMap(e -> (-e.1, e.2), ${shown}) AS examples
    FROM (${values}) GROUP BY name, type`
  const sql = `SELECT name, type, count, examples FROM (${types})
    ORDER BY count DESC, name, type LIMIT ${statement.count(MAX_PROPERTIES)}`
  return { sql, parameters: statement.parameters }
}

/** Rows `members`: the names and tokens in an event's properties. */
function memberRows(statement: Statement, range: IdRange): string {
  const parsed = (text: string) => `JSONExtractKeysAndValuesRaw(${text})`
  const isRefused = `empty(found) AND NOT isValidJSON(properties)`
  const repairedMembers = `arrayMap(m -> (m.1, ${unmarked('m.2')}), ${parsed(repaired('properties'))})`
  const members = statement.asked.repairsTexts
    ? `if(${isRefused}, ${repairedMembers}, found)`
    : `if(${failureIf(isRefused)}, [], found)`
  return `SELECT ${parsed('properties')} AS found, ${members} AS members
    FROM ${statement.asked.shards.table('events')}
    PREWHERE project_id = ${statement.project} AND ${conditions(statement, range).join(' AND ')}`
}

/** `value` is a JSON text: `null` where the field is not set, empty where it is too long. */
export interface ValueRow {
  value: string
  count: string
}

/** ValueRows of a field, the most frequent first. */
export function fieldValues(asked: Asked, range: IdRange, field: FieldName): Query {
  const statement = new Statement(asked)
  const rows = new EventRows(statement)
  const value = fieldJson(rows.field(field), asked)
  const sample = rows.sql(conditions(statement, range), ['event', 'distinct_id', 'timestamp'])
  const sql = `SELECT if(length(json) <= ${MAX_VALUE_BYTES}, json, '') AS value, count() AS count
    FROM (SELECT ${value} AS json FROM ${sample} AS rows)
    GROUP BY value ORDER BY count DESC, value`
  return { sql, parameters: statement.parameters }
}

function conditions(statement: Statement, { after, upTo, event }: IdRange): string[] {
  return [
    // First, as it is the least to read.
    ...(event === undefined ? [] : [`event = ${statement.text(event)}`]),
    `toUInt128(event_id) <= toUInt128(toUUID(${statement.text(upTo)}))`,
    ...(after === null ? [] : [`toUInt128(event_id) > toUInt128(toUUID(${statement.text(after)}))`]),
  ]
}

/** The properties in PropertyRows, most first. @param sampled how many events were looked at */
export function propertiesOf(rows: readonly PropertyRow[], sampled: number): PropertyName[] {
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
      property: unmarkedName(name),
      share: count / sampled,
      types: types.map(({ type, count: of }) => ({ type, share: of / count })),
      examples: examples.slice(0, MAX_EXAMPLES).map(([, token]) => JSON.parse(token) as unknown),
    }
  })
  return properties.sort((a, b) => b.share - a.share || (a.property < b.property ? -1 : 1))
}

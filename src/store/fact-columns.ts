import { CONTEXT_COLUMNS } from './context-sql.js'
import { isPath, toLiteral, type ValueColumn } from './fact-values.js'
import { FirstTexts } from './first-texts.js'

/** The columns of `event_facts` in order. */
export const FACT_COLUMNS: readonly string[] = [
  ...['project_id', 'event', 'day', 'user', 'timestamp', 'event_id', 'distinct_id', 'session', 'session_id'],
  ...CONTEXT_COLUMNS,
  ...['properties', 'refused', 'step'],
]

/** SQL for the day of an event in facts. @param timestamp SQL for a number, epoch ms */
export function toDay(timestamp: string): string {
  return `toDate32(fromUnixTimestamp64Milli(toInt64(${timestamp}), 'UTC'))`
}

/** SQL for the month in which an event was accepted: its partition of `events`. @param id SQL for its number */
export function toMonth(id: string): string {
  return `toYYYYMM(fromUnixTimestamp64Milli(toInt64(bitShiftRight(${id}, 80)), 'UTC'))`
}

/** SQL for the hash that identifies users and sessions. */
export function hashName(name: string): string {
  return `sipHash64(${name})`
}

/** SQL for the hash of a session; 0 without one. */
export function hashSession(id: string): string {
  return `if(${id} = '', 0, ${hashName(id)})`
}

/** SQL for the columns that are computed. @param refused SQL for whether the parser rejects the text */
function selectColumns(refused: string, step: string): string[] {
  const computed: Record<string, string> = {
    day: toDay('timestamp'),
    user: hashName('distinct_id'),
    session: hashSession('session_id'),
    refused,
    step,
  }
  return FACT_COLUMNS.map((name) => (name in computed ? `${computed[name]} AS ${name}` : name))
}

const IS_REFUSED = 'NOT isValidJSON(properties)'

/**
 * SELECT that computes rows of `event_facts` from rows of `events`, with the columns of FACT_COLUMNS.
 * @param events operand of FROM
 * @param where condition on columns of `events`
 * @param step SQL for the number of the step
 */
export function selectFacts(events: string, where: string, step: string): string {
  return `SELECT ${selectColumns(IS_REFUSED, step).join(', ')} FROM ${events} WHERE ${where}`
}

/**
 * INSERT of the rows of `selectFacts`, with the values of the existing columns. Each text is parsed once for all
 * outermost names, once for all first texts, and by ClickHouse once more for each other column.
 */
export function insertFacts(columns: Iterable<ValueColumn>, where: string, step: string): string {
  const values = new Map<string, string>()
  const firstOf = new Map<string, readonly (readonly string[])[]>()
  for (const { name, source } of columns) {
    if (!isPath(source)) firstOf.set(name, source.firstOf)
    // The first of equal names counts, as for JSONExtractRaw.
    else if (source.length === 1) {
      values.set(name, `arrayElement(members.2, indexOf(members.1, ${source.map(toLiteral)}))`)
    }
  }
  const texts = new FirstTexts(firstOf, toLiteral)
  const parsed = [
    ...(values.size > 0 ? ['JSONExtractKeysAndValuesRaw(properties) AS members'] : []),
    ...(firstOf.size > 0 ? [`${texts.parse('properties')} AS parsed`] : []),
  ]
  // A rejected text has no members.
  const refused = values.size > 0 ? `empty(members) AND ${IS_REFUSED}` : IS_REFUSED
  for (const [name, found] of texts.find('parsed', 'properties'))
    values.set(name, texts.check(name, found, 'properties'))
  const names = [...FACT_COLUMNS, ...values.keys()]
  const selected = [...selectColumns(refused, step), ...Array.from(values, ([name, value]) => `${value} AS ${name}`)]
  const events = `SELECT ${['*', ...parsed].join(', ')} FROM events WHERE ${where}`
  return `INSERT INTO event_facts (${names.join(', ')}) SELECT ${selected.join(', ')} FROM (${events})`
}

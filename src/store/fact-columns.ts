import { CONTEXT_COLUMNS } from './context-sql.js'
import { toLiteral, type ValueColumn } from './fact-values.js'

/** The columns of `event_facts` in their order. */
export const FACT_COLUMNS: readonly string[] = [
  ...['project_id', 'event', 'day', 'user', 'timestamp', 'event_id', 'distinct_id', 'session', 'session_id'],
  ...CONTEXT_COLUMNS,
  ...['properties', 'refused', 'step'],
]

/** SQL for the day of an event in facts. @param timestamp SQL for a number, epoch ms */
export function toDay(timestamp: string): string {
  return `toDate32(fromUnixTimestamp64Milli(toInt64(${timestamp}), 'UTC'))`
}

/** SQL for the hash by which users and sessions are told apart. */
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
 * SELECT of the rows of `event_facts` that rows of `events` lead to, with the columns of FACT_COLUMNS.
 * @param events operand of FROM
 * @param where condition on columns of `events`
 * @param step SQL for the number of the step
 */
export function selectFacts(events: string, where: string, step: string): string {
  return `SELECT ${selectColumns(IS_REFUSED, step).join(', ')} FROM ${events} WHERE ${where}`
}

/**
 * INSERT of what `selectFacts` selects of `events`, with the values of the existing columns. Each text is taken apart
 * once for all outermost names; ClickHouse takes it apart again for each of the other columns.
 */
export function insertFacts(columns: Iterable<ValueColumn>, where: string, step: string): string {
  const outermost = [...columns].filter(({ path }) => path.length === 1)
  const names = [...FACT_COLUMNS, ...outermost.map(({ name }) => name)]
  const insert = `INSERT INTO event_facts (${names.join(', ')})`
  if (outermost.length === 0) return `${insert} ${selectFacts('events', where, step)}`
  // As for JSONExtractRaw, the first of equal names counts.
  const values = outermost.map(({ name, path }) => {
    return `arrayElement(members.2, indexOf(members.1, ${path.map(toLiteral)})) AS ${name}`
  })
  // A text that is rejected has no members.
  const selected = [...selectColumns(`empty(members) AND ${IS_REFUSED}`, step), ...values]
  const events = `SELECT *, JSONExtractKeysAndValuesRaw(properties) AS members FROM events WHERE ${where}`
  return `${insert} SELECT ${selected.join(', ')} FROM (${events})`
}

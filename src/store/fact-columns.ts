import { CONTEXT_COLUMNS } from './context-sql.js'

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

/**
 * SELECT of the rows of `event_facts` that rows of `events` lead to, with the columns of FACT_COLUMNS.
 * @param events operand of FROM
 * @param where condition on columns of `events`
 * @param step SQL for the number of the step
 */
export function selectFacts(events: string, where: string, step: string): string {
  const computed: Record<string, string> = {
    day: toDay('timestamp'),
    user: hashName('distinct_id'),
    session: hashSession('session_id'),
    refused: 'NOT isValidJSON(properties)',
    step,
  }
  const columns = FACT_COLUMNS.map((name) => (name in computed ? `${computed[name]} AS ${name}` : name))
  return `SELECT ${columns.join(', ')} FROM ${events} WHERE ${where}`
}

import { CONTEXT_COLUMNS } from './context-sql.js'
import { repairText } from './json-sql.js'

/** The columns of `event_facts` in their order. */
export const FACT_COLUMNS: readonly string[] = [
  ...['project_id', 'event', 'day', 'user', 'timestamp', 'event_id', 'distinct_id', 'session', 'session_id'],
  ...CONTEXT_COLUMNS,
  ...['props', 'repaired', 'step'],
]

const COPIED = ['project_id', 'event', 'timestamp', 'event_id', 'distinct_id', 'session_id', ...CONTEXT_COLUMNS]

/**
 * SQL for `props`. Of a name that is there twice, ClickHouse finds the first value in a text, but either in a map.
 * @param pairs SQL for the names and tokens of the properties
 */
function toProps(pairs: string): string {
  const names = `tupleElement(${pairs}, 1)`
  const firsts = `arrayFilter((pair, number) -> number = 1, ${pairs}, arrayEnumerateUniq(${names}))`
  return `CAST(if(arrayUniq(${names}) = length(${pairs}), ${pairs}, ${firsts}) AS Map(LowCardinality(String), String))`
}

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
    props: toProps('found'),
    step,
  }
  const columns = FACT_COLUMNS.map((name) => (name in computed ? `${computed[name]} AS ${name}` : name))
  // In steps, because ClickHouse would compute a shared expression for every row.
  const parsed = `SELECT ${COPIED.join(', ')}, properties, JSONExtractKeysAndValuesRaw(properties) AS pairs
      FROM ${events} WHERE ${where}`
  const checked = `SELECT *, toUInt8(empty(pairs) AND NOT isValidJSON(properties)) AS repaired FROM (${parsed})`
  const repaired = `SELECT *, if(repaired, ${repairText('properties')}, '') AS repaired_text FROM (${checked})`
  const found = 'SELECT *, if(repaired, JSONExtractKeysAndValuesRaw(repaired_text), pairs) AS found'
  return `SELECT ${columns.join(', ')} FROM (${found} FROM (${repaired}))`
}

/**
 * Settings of `event_facts` by which the values of a property are apart from those of most others, so that a question
 * reads few besides those that it needs. Servers before 26.4 refuse them, and read all properties.
 */
export const BUCKET_SETTINGS = [
  "map_serialization_version = 'with_buckets'",
  "map_buckets_strategy = 'constant'",
  'max_buckets_in_map = 32',
  'map_buckets_min_avg_size = 0',
].join(', ')

import type { ClickHouse } from '../clickhouse/client.js'
import { DELETE_LIMIT_MS } from './deleted-events.js'
import type { FactRange } from './fact-backlog.js'

/** Maximum number of properties of a project that get columns before any question asks for them. */
const MAX_GUESSED = 20
/** How many of the newest events, and how many of the next ones to copy, are sampled. */
const SAMPLED = 10_000
/** A property gets a column only if it has at least this share of the events of the most frequent property. */
const LEAST_SHARE = 0.01
/** Maximum mean length of values in bytes: a column of longer ones is not worth its disk space. */
const MAX_MEAN_LENGTH = 100

/**
 * The names of the outermost properties that most events of a project have, most frequent first. Objects are left out,
 * because questions ask for their members.
 */
export async function findFrequentNames(clickhouse: ClickHouse, { projectId, lo, hi }: FactRange): Promise<string[]> {
  const id = 'toUInt128(event_id)'
  const project = 'project_id = {project:String}'
  const texts = (where: string, order: string) =>
    `(SELECT properties FROM events WHERE ${where} ORDER BY ${order} LIMIT ${SAMPLED})`
  const rows = await clickhouse.rows<{ name: string }>(
    `SELECT name FROM (
       SELECT member.1 AS name, count() AS events, avg(length(member.2)) AS size, countIf(startsWith(member.2, '{')) AS objects,
         max(events) OVER () AS most
       FROM (
         SELECT arrayJoin(JSONExtractKeysAndValuesRaw(properties)) AS member FROM (
           ${texts(project, `${id} DESC`)} UNION ALL
           ${texts(`${project} AND ${id} > {lo:UInt128} AND ${id} <= {hi:UInt128}`, id)}
         )
       )
       GROUP BY name
     )
     WHERE events >= ${LEAST_SHARE} * most AND size <= ${MAX_MEAN_LENGTH} AND objects * 2 < events
     ORDER BY events DESC, name LIMIT ${MAX_GUESSED}`,
    { project: projectId, lo: String(lo), hi: String(hi) },
    // Texts may be long.
    { max_threads: 1, max_block_size: '1024' },
    { limitMs: DELETE_LIMIT_MS },
  )
  return rows.map(({ name }) => name)
}

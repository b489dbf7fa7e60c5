import type { ClickHouse } from '../clickhouse/client.js'
import { DELETE_LIMIT_MS } from './deleted-events.js'
import { SETTLED } from './event-changes.js'

/** Whether the facts of a generation were found to be complete since ClickHouse has started. */
export async function isChecked(clickhouse: ClickHouse, generation: number): Promise<boolean> {
  const rows = await clickhouse.rows('SELECT 1 WHERE {generation:UInt32} IN facts_checked', {
    generation,
  })
  return rows.length > 0
}

/** What the facts of a shard look like, next to its events. */
export type Comparison = 'equal' | 'different' | 'changing'

/**
 * Compares the number of rows of each project with its events, as far as they are copied. ClickHouse starts without parts
 * that are damaged or missing, so that rows of facts are missing, or deleted ones are back.
 * @returns `changing` if they differ in projects whose events are being changed
 */
export async function compareFacts(clickhouse: ClickHouse, generation: number): Promise<Comparison> {
  const before = await readChanges(clickhouse)
  const rows = await clickhouse.rows<{ project: string }>(
    `SELECT project FROM (
       SELECT project_id AS project, toInt64(count()) AS difference FROM event_facts GROUP BY project
       UNION ALL
       SELECT project_id AS project, -toInt64(countIf(toUInt128(event_id) <= hi)) AS difference FROM events
       INNER JOIN (
         SELECT project_id, argMax(hi, step) AS hi FROM facts_progress WHERE generation = {generation:UInt32} GROUP BY project_id
       ) AS known USING (project_id) GROUP BY project
     ) GROUP BY project HAVING sum(difference) != 0`,
    { generation },
    { max_threads: 1 },
    { limitMs: DELETE_LIMIT_MS },
  )
  if (rows.length === 0) return 'equal'
  const after = await readChanges(clickhouse)
  const isChanging = ({ project }: { project: string }) => after.get(project) !== before.get(project) || isOpen(project)
  const isOpen = (project: string) => after.get(project)?.startsWith('open') ?? false
  return rows.every(isChanging) ? 'changing' : 'different'
}

/** By project: differs after each change. */
async function readChanges(clickhouse: ClickHouse): Promise<Map<string, string>> {
  const rows = await clickhouse.rows<{ project: string; last: string; open: string }>(
    `SELECT project_id AS project, toString(max(noted_at)) AS last, countIf(state < ${SETTLED}) AS open
     FROM event_changes FINAL GROUP BY project`,
  )
  return new Map(rows.map(({ project, last, open }) => [project, `${Number(open) > 0 ? 'open' : 'settled'} ${last}`]))
}

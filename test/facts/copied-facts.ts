import type { ClickHouse } from '../../src/clickhouse/client.js'
import { FACT_COLUMNS, selectFacts } from '../../src/store/fact-columns.js'
import { readFactsPoint } from '../../src/store/fact-points.js'
import { until } from '../helper.js'

/** For tests, and for soaks and the fuzz, which run without tap. */

/** The statements of a leader, in the order in which it sends them. */
export const LEADER_STATEMENTS = [
  'INSERT INTO facts_state',
  'DELETE FROM event_facts WHERE step',
  'DELETE FROM event_facts WHERE (',
  'INSERT INTO event_facts',
  'INSERT INTO facts_progress',
  'INSERT INTO event_change_log',
  'INSERT INTO event_changes',
]

/** Waits until the facts of these projects have all stored events and all changes. @param limitMs for each project */
export async function completeFacts(
  clickhouse: ClickHouse,
  projects: readonly string[],
  limitMs?: number,
): Promise<void> {
  for (const project of projects) await until(`the facts of ${project}`, () => isComplete(clickhouse, project), limitMs)
}

/** A `FactsReader` would ask again and again until facts have followed a change. */
async function isComplete(clickhouse: ClickHouse, project: string): Promise<boolean> {
  const { point, isOpen } = await readFactsPoint(clickhouse, project)
  if (isOpen || point?.hasLater) return false
  const open = await clickhouse.rows('SELECT 1 FROM event_changes FINAL WHERE state < 3 LIMIT 1')
  if (open.length > 0) return false
  return point !== null || (await clickhouse.rows(EVENT_OF, { project })).length === 0
}

const EVENT_OF = 'SELECT 1 FROM events WHERE project_id = {project:String} LIMIT 1'

/** The number of rows that facts have but should not, or should but do not. */
export async function countDifferences(clickhouse: ClickHouse): Promise<number> {
  const columns = FACT_COLUMNS.filter((name) => name !== 'step')
  const row = `cityHash64(toString(tuple(${columns.join()})))`
  const isCopied = 'toUInt128(event_id) <= arrayElement(known.2, indexOf(known.1, project_id))'
  const [found] = await clickhouse.rows<{ count: string }>(`
    WITH (SELECT (groupArray(project_id), groupArray(hi)) FROM (
      SELECT project_id, argMax(hi, step) AS hi FROM facts_progress
      WHERE generation = (SELECT argMax(generation, version) FROM facts_state) GROUP BY project_id
    )) AS known
    SELECT count() AS count FROM (
      SELECT hash, sum(sign) AS sum FROM (
        SELECT ${row} AS hash, 1 AS sign FROM event_facts
        UNION ALL
        SELECT ${row} AS hash, -1 AS sign FROM (${selectFacts('events', isCopied, '0')})
      ) GROUP BY hash HAVING sum != 0
    )`)
  return Number(found?.count)
}

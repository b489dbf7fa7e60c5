import { randomUUID } from 'node:crypto'
import type { ClickHouse } from '../clickhouse/client.js'

/** Events that this process has deleted on a server. */
interface Deleted {
  /** id of this process in the table */
  process: string
  /** number of deleted events by project */
  counts: Map<string, number>
}

const deletedOn = new WeakMap<ClickHouse, Deleted>()

/**
 * Counts events of a project as deleted, for the ledger. Call it before the DELETE: if that fails, or the process is
 * killed in between, the ledger has counted too many, which it reports without raising an alarm.
 */
export async function countDeleted(clickhouse: ClickHouse, projectId: string, count: number): Promise<void> {
  if (count === 0) return
  const deleted = deletedOn.get(clickhouse) ?? { process: randomUUID(), counts: new Map() }
  deletedOn.set(clickhouse, deleted)
  const sum = (deleted.counts.get(projectId) ?? 0) + count
  deleted.counts.set(projectId, sum)
  await clickhouse.command(
    'INSERT INTO deleted_events (project_id, process, count) SELECT {project:String}, {process:UUID}, {sum:UInt64}',
    { project: projectId, process: deleted.process, sum },
  )
}

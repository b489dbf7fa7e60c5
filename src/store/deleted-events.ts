import { randomUUID } from 'node:crypto'
import type { ClickHouse } from '../clickhouse/client.js'

/** What this process has deleted on a server, under the name by which it is counted there. */
interface Deleted {
  process: string
  counts: Map<string, number>
}

const deletedOn = new WeakMap<ClickHouse, Deleted>()

/**
 * Counts events of a project as deleted, for the ledger. Call it before the DELETE: if that fails, or the process is killed
 * between the two, the ledger has counted too many, which it says, and raises no alarm.
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

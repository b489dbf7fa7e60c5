import { randomUUID } from 'node:crypto'
import type { ClickHouse } from '../clickhouse/client.js'
import { literalRows } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import { DAY_MS } from '../contract/durations.js'
import type { Actor, AuditAction, AuditChanges, AuditEntry, StoredAuditEntry } from '../model/audit-entry.js'

/** Epoch milliseconds by the store's clock. */
const NOW = 'toUnixTimestamp64Milli(now64(3))'
/** How long an entry is kept, ms; `schema/audit.sql` removes it from the disk. */
const KEPT_MS = 365 * DAY_MS

/** Adds entries to the audit logs of their projects, all or none. Their times are by the store's clock. */
export async function insertAuditEntries(clickhouse: ClickHouse, entries: readonly AuditEntry[]): Promise<void> {
  if (entries.length === 0) return
  const rows = entries.map(({ projectId, actor, action, target, changes }) => {
    const key = actor.type === 'key' ? actor : { id: '', label: '' }
    const named = [actor.type, key.id, key.label, action, target?.id ?? '', target?.label ?? '']
    return [projectId, ...named, JSON.stringify(changes), randomUUID()]
  })
  const types = Array.from({ length: 9 }, () => 'String').join(', ')
  await clickhouse.command(
    `INSERT INTO audit (changed_at, project_id, actor, key_id, key_label, action, target_id, target_label, changes, id)
     SELECT ${NOW}, r.1, r.2, r.3, r.4, r.5, r.6, r.7, r.8, toUUID(r.9)
     FROM (SELECT arrayJoin(${literalRows(rows, types)}) AS r)`,
  )
}

/** Like `insertAuditEntries`; the audit log is on the first shard. */
export async function addAuditEntries(shards: Shards, entries: readonly AuditEntry[]): Promise<void> {
  await shards.onFirst((clickhouse) => insertAuditEntries(clickhouse, entries))
}

interface AuditRow {
  changed_at: string
  actor: Actor['type']
  key_id: string
  key_label: string
  action: AuditAction
  target_id: string
  target_label: string
  changes: string
}

/** The newest entries of a project's audit log, newest first. */
export async function listAuditEntries(
  clickhouse: ClickHouse,
  { projectId, limit, offset }: { projectId: string; limit: number; offset: number },
): Promise<StoredAuditEntry[]> {
  const rows = await clickhouse.rows<AuditRow>(
    `SELECT changed_at, actor, key_id, key_label, action, target_id, target_label, changes FROM audit FINAL
     WHERE project_id = {project:String} AND changed_at > ${NOW} - ${KEPT_MS}
     ORDER BY changed_at DESC, id LIMIT {offset:UInt64}, {limit:UInt32}`,
    { project: projectId, limit, offset },
  )
  return rows.map(({ changed_at, actor, key_id, key_label, action, target_id, target_label, changes }) => ({
    projectId,
    changedAt: Number(changed_at),
    actor: actor === 'key' ? { type: actor, id: key_id, label: key_label } : { type: actor },
    action,
    target: target_id === '' ? null : { id: target_id, label: target_label },
    changes: JSON.parse(changes) as AuditChanges,
  }))
}

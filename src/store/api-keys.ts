import type { KeyKind, StoredKey } from '../keys.js'
import type { ClickHouse } from './clickhouse.js'
import { Fields } from './fields.js'

export async function readKeys(clickhouse: ClickHouse): Promise<StoredKey[]> {
  const rows = await clickhouse.rows<{ hash: string; project_id: string; kind: KeyKind }>(
    'SELECT hash, project_id, kind FROM api_keys FINAL',
  )
  return rows.map(({ hash, project_id, kind }) => ({ hash, projectId: project_id, kind }))
}

/** Adds keys, all or none. */
export async function insertKeys(clickhouse: ClickHouse, keys: StoredKey[], now: number): Promise<void> {
  const fields = new Fields()
  const rows = keys.map(({ hash, projectId, kind }) => {
    return `(${fields.text(hash)}, ${fields.text(projectId)}, ${fields.text(kind)}, ${now}, ${now}, 0)`
  })
  await clickhouse.command(
    `INSERT INTO api_keys SELECT * FROM values('hash String, project_id String, kind String, created_at Int64, version UInt64, is_deleted UInt8', ${rows.join(', ')})`,
    fields.parameters,
  )
}

import type { KeyKind, StoredKey } from '../keys.js'
import type { ClickHouse } from './clickhouse.js'

export async function readKeys(clickhouse: ClickHouse): Promise<StoredKey[]> {
  const rows = await clickhouse.rows<{ hash: string; project_id: string; kind: KeyKind }>(
    'SELECT hash, project_id, kind FROM api_keys FINAL',
  )
  return rows.map(({ hash, project_id, kind }) => ({ hash, projectId: project_id, kind }))
}

export async function insertKey(clickhouse: ClickHouse, { hash, projectId, kind }: StoredKey, now: number) {
  await clickhouse.command(
    'INSERT INTO api_keys SELECT {hash:String}, {project:String}, {kind:String}, {now:Int64}, {now:UInt64}, 0',
    { hash, project: projectId, kind, now },
  )
}

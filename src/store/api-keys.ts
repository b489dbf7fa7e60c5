import type { ClickHouse } from '../clickhouse/client.js'
import { QueryParameters } from '../clickhouse/parameters.js'
import type { KeyTable } from '../keys/key-refresh.js'
import type { Grant, KeyKind, StoredKey } from '../keys/keys.js'

/** A stored key without its hash. */
export interface KeyRecord extends Grant {
  id: string
  /** epoch milliseconds */
  createdAt: number
  /** when it stops working, epoch ms, possibly in the future; null if it was not revoked */
  revokedAt: number | null
}

/** The columns of a `Grant`. */
const GRANT = 'project_id, kind, origins, events_only'

interface GrantRow {
  id: string
  project_id: string
  kind: KeyKind
  origins: string[]
  events_only: number
}

function toGrant({ project_id: projectId, kind, origins, events_only }: GrantRow): Grant {
  return { projectId, kind, origins, eventsOnly: events_only === 1 }
}

/** Epoch milliseconds by the store's clock, which every process that reads and revokes keys shares. */
const NOW = 'toUnixTimestamp64Milli(now64(3))'

/** The time by the store's clock, epoch ms. */
export async function readStoreTime(clickhouse: ClickHouse): Promise<number> {
  const [row] = await clickhouse.rows<{ now: string }>(`SELECT ${NOW} AS now`)
  return Number(row?.now)
}

/** The keys that are valid now. */
export async function readKeys(clickhouse: ClickHouse): Promise<StoredKey[]> {
  const rows = await clickhouse.rows<GrantRow & { hash: string }>(
    `SELECT id, hash, ${GRANT} FROM api_keys FINAL WHERE revoked_at IS NULL OR revoked_at > ${NOW}`,
  )
  return rows.map((row) => ({ id: row.id, hash: row.hash, ...toGrant(row) }))
}

/** All keys, including revoked ones, by project and age. */
export async function listKeys(clickhouse: ClickHouse): Promise<KeyRecord[]> {
  const rows = await clickhouse.rows<GrantRow & { created_at: string; revoked_at: string | null }>(
    `SELECT id, ${GRANT}, created_at, revoked_at FROM api_keys FINAL ORDER BY project_id, created_at, kind, id`,
  )
  return rows.map((row) => ({
    id: row.id,
    ...toGrant(row),
    createdAt: Number(row.created_at),
    revokedAt: row.revoked_at === null ? null : Number(row.revoked_at),
  }))
}

/** Adds keys, all or none. */
export async function insertKeys(clickhouse: ClickHouse, keys: StoredKey[], now: number): Promise<void> {
  const fields = new QueryParameters()
  const rows = keys.map(({ id, hash, projectId, kind, origins, eventsOnly }) => {
    const values = [id, hash, projectId, kind].map((value) => fields.text(value))
    return `(${values.join(', ')}, ${fields.array([...origins])}, ${Number(eventsOnly)}, ${now}, ${now}, 0)`
  })
  await clickhouse.command(
    `INSERT INTO api_keys (id, hash, ${GRANT}, created_at, version, is_deleted)
     SELECT * FROM values('id String, hash String, project_id String, kind String, origins Array(String), events_only UInt8, created_at Int64, version UInt64, is_deleted UInt8', ${rows.join(', ')})`,
    fields.parameters,
  )
}

/** Revokes keys after `delayMs`. A key that was revoked for an earlier time keeps that time. */
export async function revokeKeys(clickhouse: ClickHouse, keys: StoredKey[], delayMs = 0): Promise<void> {
  const fields = new QueryParameters()
  const hashes = fields.array(keys.map(({ hash }) => hash))
  const at = `${NOW} + ${delayMs}`
  await clickhouse.command(
    `INSERT INTO api_keys (id, hash, ${GRANT}, created_at, version, is_deleted, revoked_at)
     SELECT id, hash, ${GRANT}, created_at, toUInt64(greatest(version + 1, ${NOW})), 0, least(ifNull(revoked_at, ${at}), ${at})
     FROM api_keys FINAL WHERE hash IN ${hashes}`,
    fields.parameters,
  )
}

/** The stored keys, for the key ring of a service. */
export function openKeyTable(clickhouse: ClickHouse): KeyTable {
  return {
    read: () => readKeys(clickhouse),
    isEmpty: async () => (await listKeys(clickhouse)).length === 0,
    insert: (keys) => insertKeys(clickhouse, keys, Date.now()),
  }
}

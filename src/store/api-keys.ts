import type { ClickHouse } from '../clickhouse/client.js'
import { literalRows, QueryParameters } from '../clickhouse/parameters.js'
import { ApiError } from '../contract/errors.js'
import type { KeyFields, KeyStore } from '../keys/key-changes.js'
import type { KeyTable } from '../keys/key-refresh.js'
import type { KeyKind, KeyRecord, StoredKey } from '../keys/keys.js'
import { insertAuditEntries } from './audit.js'
import { deduplicateBy } from './insert.js'
import { claimTurn } from './job-turns.js'

/** The columns of a `StoredKey`. */
const KEY = 'id, hash, project_id, kind, label, origins, events_only'

interface KeyRow {
  id: string
  hash: string
  project_id: string
  kind: KeyKind
  label: string
  origins: string[]
  events_only: number
}

function toKey({ id, hash, project_id: projectId, kind, label, origins, events_only }: KeyRow): StoredKey {
  return { id, hash, projectId, kind, label, origins, eventsOnly: events_only === 1 }
}

const MAX_LISTED = 1_000

/** Epoch milliseconds by the store's clock, which every process that reads and revokes keys shares. */
const NOW = 'toUnixTimestamp64Milli(now64(3))'
const IS_VALID = `(revoked_at IS NULL OR revoked_at > ${NOW})`

/**
 * The version of a row that replaces another. A change and a revocation of one key may read the same row. Then the row
 * with the earlier end wins, so that changing a label cannot bring back a key that was revoked at the same time. 2^42
 * ms is in 2109.
 * @param end the row's `revoked_at`
 */
const nextVersion = (end: string) =>
  `greatest(version + 1, ifNull(bitShiftLeft(toUInt64(4398046511104 - ${end}), 20), toUInt64(${NOW})))`

/** The time by the store's clock, epoch ms. */
export async function readStoreTime(clickhouse: ClickHouse): Promise<number> {
  const [row] = await clickhouse.rows<{ now: string }>(`SELECT ${NOW} AS now`)
  return Number(row?.now)
}

/** The keys that are valid now. */
export async function readKeys(clickhouse: ClickHouse): Promise<StoredKey[]> {
  const rows = await clickhouse.rows<KeyRow>(`SELECT ${KEY} FROM api_keys FINAL WHERE ${IS_VALID}`)
  return rows.map(toKey)
}

/**
 * The keys of one or all projects, by project and age. For one project, at most `MAX_LISTED`: all valid keys, and those
 * that were revoked last.
 */
export async function listKeys(clickhouse: ClickHouse, projectId?: string): Promise<KeyRecord[]> {
  const fields = new QueryParameters()
  const only =
    projectId === undefined
      ? ''
      : `WHERE project_id = ${fields.text(projectId)} ORDER BY is_valid DESC, revoked_at DESC LIMIT ${MAX_LISTED}`
  const rows = await clickhouse.rows<KeyRow & { created_at: string; revoked_at: string | null; is_valid: number }>(
    `SELECT * FROM (
       SELECT ${KEY}, created_at, revoked_at, ${IS_VALID} AS is_valid FROM api_keys FINAL ${only})
     ORDER BY project_id, created_at, kind, id`,
    fields.parameters,
  )
  return rows.map((row) => ({
    ...toKey(row),
    createdAt: Number(row.created_at),
    revokedAt: row.revoked_at === null ? null : Number(row.revoked_at),
    isValid: row.is_valid === 1,
  }))
}

/** Adds keys, all or none. @param now epoch ms */
export async function insertKeys(clickhouse: ClickHouse, keys: StoredKey[], now: number): Promise<void> {
  const rows = keys.map(({ id, hash, projectId, kind, label, origins, eventsOnly }) => {
    return [id, hash, projectId, kind, label, origins, Number(eventsOnly)]
  })
  const types = 'String, String, String, String, String, Array(String), UInt8'
  await clickhouse.command(
    `INSERT INTO api_keys (${KEY}, created_at, version, is_deleted)
     SELECT r.1, r.2, r.3, r.4, r.5, r.6, r.7, ${now}, ${now}, 0 FROM (SELECT arrayJoin(${literalRows(rows, types)}) AS r)`,
  )
}

/** Maximum number of attempts to change a key that others are changing at the same time. */
const MAX_TRIES = 20

/**
 * Sets the given fields of a key, and keeps what others set at the same time.
 * @throws ApiError `key_conflict` if others keep setting the same fields
 */
async function changeKey(
  clickhouse: ClickHouse,
  { hash }: StoredKey,
  { label, origins, eventsOnly }: Partial<KeyFields>,
): Promise<void> {
  const fields = new QueryParameters()
  const ofKey = `FROM api_keys FINAL WHERE hash = ${fields.text(hash)}`
  const values = {
    label: label === undefined ? 'label' : fields.text(label),
    origins: origins === undefined ? 'origins' : fields.array([...origins]),
    events_only: eventsOnly === undefined ? 'events_only' : `${Number(eventsOnly)}`,
  }
  const isSet = Object.entries(values).map(([column, value]) => `${column} = ${value}`)
  let before = ''
  let lost = 0
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const [row] = await clickhouse.rows<{ version: string; is_set: number }>(
      `SELECT toString(version) AS version, ${isSet.join(' AND ')} AS is_set ${ofKey}`,
      fields.parameters,
    )
    if (!row || row.is_set === 1) return
    // ClickHouse can lose a row, but not its token.
    lost = row.version === before ? lost + 1 : 0
    before = row.version
    await clickhouse.command(
      `INSERT INTO api_keys (${KEY}, created_at, version, is_deleted, revoked_at)
       SELECT id, hash, project_id, kind, ${Object.values(values).join(', ')}, created_at, ${nextVersion('revoked_at')}, 0, revoked_at
       ${ofKey}`,
      fields.parameters,
      deduplicateBy(JSON.stringify(['key', hash, row.version, lost])),
    )
  }
  throw new ApiError(
    'key_conflict',
    'The key was changed by others at the same time. Read it again, and repeat the change.',
  )
}

/**
 * Revokes keys after `delayMs`. A key whose revocation is already set for an earlier time keeps that time.
 * @param token of several calls with the same token, one revokes anything; absent: each does
 */
export async function revokeKeys(
  clickhouse: ClickHouse,
  keys: StoredKey[],
  delayMs = 0,
  token?: string,
): Promise<void> {
  const fields = new QueryParameters()
  const hashes = fields.array(keys.map(({ hash }) => hash))
  const at = `${NOW} + ${delayMs}`
  await clickhouse.command(
    `INSERT INTO api_keys (${KEY}, created_at, version, is_deleted, revoked_at)
     SELECT ${KEY}, created_at, ${nextVersion('ends_at')}, 0, ends_at
     FROM (SELECT *, least(ifNull(revoked_at, ${at}), ${at}) AS ends_at FROM api_keys FINAL WHERE hash IN ${hashes})`,
    fields.parameters,
    token === undefined ? {} : deduplicateBy(token),
  )
}

/** How long a process that has claimed to make the first keys has for it, at least, ms. */
const FIRST_CLAIM_MS = 10_000

async function claimFirst(clickhouse: ClickHouse, turn: number, id: string): Promise<boolean> {
  return await claimTurn(clickhouse, 'first keys', turn, id)
}

/** The stored keys, as a service's key ring reads them. @param now epoch ms; default: the clock */
export function openKeyTable(clickhouse: ClickHouse, now = Date.now): KeyTable {
  return {
    read: () => readKeys(clickhouse),
    isEmpty: async () => (await clickhouse.rows('SELECT id FROM api_keys LIMIT 1')).length === 0,
    claimFirst: async (id) => {
      const turn = Math.floor(now() / FIRST_CLAIM_MS)
      // A claim that was made at the end of a turn is valid for the whole next one.
      return (await claimFirst(clickhouse, turn - 1, id)) && (await claimFirst(clickhouse, turn, id))
    },
    insert: (keys) => insertKeys(clickhouse, keys, now()),
    audit: (entries) => insertAuditEntries(clickhouse, entries),
  }
}

/** The stored keys, as `KeyChanges` changes them. */
export function openKeyStore(clickhouse: ClickHouse): KeyStore {
  return {
    list: (projectId) => listKeys(clickhouse, projectId),
    insert: async (keys) => {
      const now = await readStoreTime(clickhouse)
      await insertKeys(clickhouse, keys, now)
      return now
    },
    change: (key, fields) => changeKey(clickhouse, key, fields),
    revoke: (keys, delayMs, token) => revokeKeys(clickhouse, keys, delayMs, token),
    audit: (entries) => insertAuditEntries(clickhouse, entries),
  }
}

import type { Readable } from 'node:stream'
import type { ClickHouse } from '../clickhouse/client.js'
import { propertiesUpTo, QueryParameters } from '../clickhouse/parameters.js'
import type { Entry } from '../journal/journal.js'
import type { Profile } from '../model/profile.js'
import { formatProperties, parseProperties } from '../model/properties.js'
import type { StoredValue } from '../pipeline/state-store.js'
import { insertEntries, versionedRows } from './insert.js'
import { PAGE_SETTINGS, pageOf } from './page.js'

const INSERT = `
INSERT INTO profiles (project_id, distinct_id, properties, created_at, updated_at, version, is_deleted)
SELECT r.project_id, r.distinct_id, r.properties, r.created_at, r.updated_at, version, r.is_deleted
FROM input('
    version UInt64,
    rows Array(Tuple(project_id String, distinct_id String, properties String, created_at Int64, updated_at Int64, is_deleted UInt8))')
ARRAY JOIN rows AS r
FORMAT JSONEachRow`

/** The row of a profile, without the version that the journal gives it; null is a deleted one. */
export function profileRow(projectId: string, distinctId: string, profile: Profile | null): string {
  return JSON.stringify({
    project_id: projectId,
    distinct_id: distinctId,
    properties: profile ? formatProperties(profile.properties) : '',
    created_at: profile?.createdAt ?? 0,
    updated_at: profile?.updatedAt ?? 0,
    is_deleted: profile ? 0 : 1,
  })
}

/** Stores rows; doing so again changes nothing, as a row's version is its journal position. */
export async function insertProfiles(clickhouse: ClickHouse, entries: Entry[], signal: AbortSignal): Promise<void> {
  await insertEntries(clickhouse, INSERT, entries, versionedRows, signal)
}

interface ProfileRow {
  distinct_id: string
  properties: string
  bytes: string
  created_at: string
  updated_at: string
  version: string
}

/** The stored profiles by their distinct_id, those with over `maxBytes` of properties as null; who has none is missing. */
export async function readProfiles(
  clickhouse: ClickHouse,
  projectId: string,
  distinctIds: string[],
  maxBytes: number,
): Promise<Map<string, StoredValue<Profile>>> {
  const fields = new QueryParameters()
  const rows = await clickhouse.rows<ProfileRow>(
    `SELECT distinct_id, ${propertiesUpTo(maxBytes)}, created_at, updated_at, version
     FROM profiles AS t FINAL
     WHERE project_id = ${fields.text(projectId)} AND distinct_id IN ${fields.array(distinctIds)}`,
    fields.parameters,
  )
  return new Map(
    rows.map((row) => [
      row.distinct_id,
      {
        version: BigInt(row.version),
        bytes: Number(row.bytes),
        value:
          Number(row.bytes) > maxBytes
            ? null
            : {
                properties: parseProperties(row.properties),
                createdAt: Number(row.created_at),
                updatedAt: Number(row.updated_at),
              },
      },
    ]),
  )
}

const PROFILE_JSON = `concat(
    '{"distinct_id":', toJSONString(distinct_id),
    ',"properties":', properties,
    ',"created_at":', toString(created_at),
    ',"updated_at":', toString(updated_at), '}')`

/** A page of profiles as JSON texts, in the order of their distinct_id. */
export async function readProfilePage(
  clickhouse: ClickHouse,
  { projectId, limit, offset }: { projectId: string; limit: number; offset: number },
  signal?: AbortSignal,
): Promise<Readable> {
  const query = pageOf({
    json: PROFILE_JSON,
    nextId: "repeat('-', 36)",
    from: `
      SELECT distinct_id, properties, created_at, updated_at
      FROM profiles FINAL
      WHERE project_id = {project:String}
      ORDER BY project_id, distinct_id`,
  })
  return await clickhouse.bytes(query, { project: projectId, limit, offset }, PAGE_SETTINGS, {
    signal,
    project: projectId,
  })
}

import type { Readable } from 'node:stream'
import type { ClickHouse } from '../clickhouse/client.js'
import type { Profile } from '../model/profile.js'
import { PAGE_SETTINGS, pageOf } from './page.js'
import { versionedTable } from './versioned.js'

interface ProfileRow {
  created_at: string
  updated_at: string
}

export const PROFILES = versionedTable<Profile, ProfileRow>({
  kind: 'profiles',
  columns: { created_at: 'Int64', updated_at: 'Int64' },
  toColumns: (profile) => ({ created_at: profile?.createdAt ?? 0, updated_at: profile?.updatedAt ?? 0 }),
  toValue: ({ created_at, updated_at }, properties) => ({
    properties,
    createdAt: Number(created_at),
    updatedAt: Number(updated_at),
  }),
})

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

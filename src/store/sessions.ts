import type { Entry } from '../journal/journal.js'
import { formatProperties, parseProperties } from '../profile.js'
import type { Session } from '../session.js'
import type { ClickHouse } from './clickhouse.js'
import { Fields } from './fields.js'
import { insertEntries, versionedRows } from './insert.js'

const INSERT = `
INSERT INTO sessions
    (project_id, session_id, distinct_id, state, properties, duration, started_at, updated_at, ended_at, version, is_deleted)
SELECT
    r.project_id, r.session_id, r.distinct_id, r.state, r.properties, r.duration, r.started_at, r.updated_at, r.ended_at,
    version, r.is_deleted
FROM input('
    version UInt64,
    rows Array(Tuple(
        project_id String, session_id String, distinct_id String, state String, properties String,
        duration Nullable(Float64), started_at Int64, updated_at Int64, ended_at Nullable(Int64), is_deleted UInt8))')
ARRAY JOIN rows AS r
FORMAT JSONEachRow`

/** The row of a session, without the version that the journal gives it; null is a deleted one. */
export function sessionRow(projectId: string, sessionId: string, session: Session | null): string {
  return JSON.stringify({
    project_id: projectId,
    session_id: sessionId,
    distinct_id: session?.distinctId ?? '',
    state: session?.state ?? '',
    properties: session ? formatProperties(session.properties) : '',
    duration: session?.duration ?? null,
    started_at: session?.startedAt ?? 0,
    updated_at: session?.updatedAt ?? 0,
    ended_at: session?.endedAt ?? null,
    is_deleted: session ? 0 : 1,
  })
}

/** Stores rows; doing so again changes nothing, as a row's version is its journal position. */
export async function insertSessions(clickhouse: ClickHouse, entries: Entry[], signal: AbortSignal): Promise<void> {
  await insertEntries(clickhouse, INSERT, entries, versionedRows, signal)
}

interface SessionRow {
  session_id: string
  distinct_id: string
  state: Session['state']
  properties: string
  duration: number | null
  started_at: string
  updated_at: string
  ended_at: string | null
  version: string
}

/** The stored sessions by their session_id; ids that have none are missing. */
export async function readSessions(
  clickhouse: ClickHouse,
  projectId: string,
  sessionIds: string[],
): Promise<Map<string, { version: bigint; value: Session }>> {
  const fields = new Fields()
  const rows = await clickhouse.rows<SessionRow>(
    `SELECT session_id, distinct_id, state, properties, duration, started_at, updated_at, ended_at, version
     FROM sessions FINAL
     WHERE project_id = ${fields.text(projectId)} AND session_id IN ${fields.array(sessionIds)}`,
    fields.parameters,
  )
  return new Map(
    rows.map((row) => [
      row.session_id,
      {
        version: BigInt(row.version),
        value: {
          distinctId: row.distinct_id,
          state: row.state,
          properties: parseProperties(row.properties),
          duration: row.duration,
          startedAt: Number(row.started_at),
          updatedAt: Number(row.updated_at),
          endedAt: row.ended_at === null ? null : Number(row.ended_at),
        },
      },
    ]),
  )
}

/** All sessions that these users have in the store. */
export async function sessionsOfUsers(
  clickhouse: ClickHouse,
  projectId: string,
  distinctIds: string[],
): Promise<{ sessionId: string; distinctId: string }[]> {
  const fields = new Fields()
  const rows = await clickhouse.rows<{ session_id: string; distinct_id: string }>(
    `SELECT session_id, distinct_id FROM sessions FINAL
     WHERE project_id = ${fields.text(projectId)} AND distinct_id IN ${fields.array(distinctIds)}`,
    fields.parameters,
  )
  return rows.map(({ session_id, distinct_id }) => ({ sessionId: session_id, distinctId: distinct_id }))
}

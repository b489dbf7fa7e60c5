import type { Readable } from 'node:stream'
import type { ClickHouse, Reading } from '../clickhouse/client.js'
import type { Scalars } from '../clickhouse/parameters.js'
import { propertiesUpTo, QueryParameters } from '../clickhouse/parameters.js'
import type { Entry } from '../journal/journal.js'
import { formatProperties, parseProperties } from '../model/properties.js'
import type { Session } from '../model/session.js'
import type { StoredValue } from '../pipeline/state-store.js'
import { insertEntries, versionedRows } from './insert.js'
import { ONE_LINE, PAGE_SETTINGS, pageOf, STREAMED } from './page.js'

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
  bytes: string
  duration: number | null
  started_at: string
  updated_at: string
  ended_at: string | null
  version: string
}

/** The stored sessions by their session_id, those with over `maxBytes` of properties as null; ids that have none are missing. */
export async function readSessions(
  clickhouse: ClickHouse,
  projectId: string,
  sessionIds: string[],
  maxBytes: number,
): Promise<Map<string, StoredValue<Session>>> {
  const fields = new QueryParameters()
  const rows = await clickhouse.rows<SessionRow>(
    `SELECT session_id, distinct_id, state, ${propertiesUpTo(maxBytes)}, duration, started_at, updated_at, ended_at, version
     FROM sessions AS t FINAL
     WHERE project_id = ${fields.text(projectId)} AND session_id IN ${fields.array(sessionIds)}`,
    fields.parameters,
  )
  return new Map(
    rows.map((row) => [
      row.session_id,
      {
        version: BigInt(row.version),
        bytes: Number(row.bytes),
        value:
          Number(row.bytes) > maxBytes
            ? null
            : {
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
  const fields = new QueryParameters()
  const rows = await clickhouse.rows<{ session_id: string; distinct_id: string }>(
    `SELECT session_id, distinct_id FROM sessions FINAL
     WHERE project_id = ${fields.text(projectId)} AND distinct_id IN ${fields.array(distinctIds)}`,
    fields.parameters,
  )
  return rows.map(({ session_id, distinct_id }) => ({ sessionId: session_id, distinctId: distinct_id }))
}

export interface SessionFilter {
  distinctId?: string
  state?: Session['state']
  /** of its start, epoch milliseconds, inclusive */
  from?: number
  /** of its start, epoch milliseconds, exclusive */
  to?: number
}

/** As the API gives a session out; `durationOf` says how long it is. */
const sessionJson = (properties: string) => `concat(
    '{"session_id":', toJSONString(session_id),
    ',"distinct_id":', toJSONString(distinct_id),
    ',"state":', toJSONString(state),
    ',"properties":', ${properties},
    ',"duration":', toString(ifNull(duration, (updated_at - started_at) / 1000)),
    ',"started_at":', toString(started_at),
    ',"updated_at":', toString(updated_at),
    ',"ended_at":', ifNull(toString(ended_at), 'null'), '}')`

const NEWEST_FIRST = 'ORDER BY started_at DESC, session_id DESC'

/** A page of sessions as JSON texts, the one that started last first. */
export async function readSessionPage(
  clickhouse: ClickHouse,
  { projectId, limit, offset, ...filter }: { projectId: string; limit: number; offset: number } & SessionFilter,
  signal?: AbortSignal,
): Promise<Readable> {
  const { where, parameters } = conditionsOf(projectId, filter)
  // Which sessions these are is found without reading any properties, which are most of the bytes.
  const query = pageOf({
    json: sessionJson('properties'),
    nextId: "repeat('-', 36)",
    from: `
      SELECT * FROM (
        SELECT * FROM sessions FINAL
        WHERE ${where} AND session_id IN (
          SELECT session_id FROM sessions FINAL WHERE ${where} ${NEWEST_FIRST} LIMIT {skipped:UInt64}, {limit:UInt32} + 1
        )
      )
      ${NEWEST_FIRST}`,
  })
  return await clickhouse.bytes(query, { ...parameters, limit, offset: 0, skipped: offset }, PAGE_SETTINGS, {
    signal,
    project: projectId,
  })
}

/** All sessions of a user, the one that started first first, as lines of NDJSON that begin with `{"type":"session",`. */
export async function readSessionsOfUser(
  clickhouse: ClickHouse,
  { projectId, distinctId }: { projectId: string; distinctId: string },
  reading: Reading,
): Promise<Readable> {
  const { where, parameters } = conditionsOf(projectId, { distinctId })
  const line = `concat('{"type":"session",', substring(${sessionJson(ONE_LINE)}, 2))`
  return await clickhouse.bytes(
    `SELECT ${line} FROM sessions FINAL WHERE ${where} ORDER BY started_at, session_id FORMAT TSVRaw`,
    parameters,
    { ...PAGE_SETTINGS, ...STREAMED },
    reading,
  )
}

function conditionsOf(
  projectId: string,
  { distinctId, state, from, to }: SessionFilter,
): { where: string; parameters: Scalars } {
  const conditions = ['project_id = {project:String}']
  const parameters: Scalars = { project: projectId }
  const add = (condition: string, name: string, value: string | number | undefined) => {
    if (value === undefined) return
    conditions.push(condition)
    parameters[name] = value
  }
  add('distinct_id = {distinctId:String}', 'distinctId', distinctId)
  add('state = {state:String}', 'state', state)
  add('started_at >= {from:Int64}', 'from', from)
  add('started_at < {to:Int64}', 'to', to)
  return { where: conditions.join(' AND '), parameters }
}

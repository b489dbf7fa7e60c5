import type { Readable } from 'node:stream'
import type { ReadOptions } from '../clickhouse/client.js'
import { LARGE_QUERY, literalArray, QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import { type CONTEXT_TEXTS, type GivenContext, trimContext } from '../contract/context.js'
import type { Session } from '../model/session.js'
import { CONTEXT_MEMBER, CONTEXT_TYPES } from './context-sql.js'
import { allVersions, newestRows } from './newest-rows.js'
import { ONE_LINE, PAGE_SETTINGS, STREAMED } from './page.js'
import { createVersionedTable } from './versioned-table.js'

interface SessionRow extends Record<(typeof CONTEXT_TEXTS)[number], string> {
  distinct_id: string
  state: Session['state']
  duration: number | null
  started_at: string
  updated_at: string
  ended_at: string | null
  bot: number
}

export const SESSIONS = createVersionedTable<Session, SessionRow>({
  kind: 'sessions',
  columns: {
    distinct_id: 'String',
    state: 'String',
    duration: 'Nullable(Float64)',
    started_at: 'Int64',
    updated_at: 'Int64',
    ended_at: 'Nullable(Int64)',
    ...CONTEXT_TYPES,
  },
  toColumns: (session) => ({
    distinct_id: session?.distinctId ?? '',
    state: session?.state ?? '',
    duration: session?.duration ?? null,
    started_at: session?.startedAt ?? 0,
    updated_at: session?.updatedAt ?? 0,
    ended_at: session?.endedAt ?? null,
    ...session?.context,
    ...(session?.context.bot && { bot: 1 }),
  }),
  toValue: (row, properties) => ({
    distinctId: row.distinct_id,
    state: row.state,
    properties,
    duration: row.duration,
    startedAt: Number(row.started_at),
    updatedAt: Number(row.updated_at),
    endedAt: row.ended_at === null ? null : Number(row.ended_at),
    context: trimContext({ ...row, bot: row.bot === 1 } as GivenContext),
  }),
})

/** All sessions of these users in ClickHouse. */
export async function findUserSessions(
  shards: Shards,
  projectId: string,
  distinctIds: string[],
): Promise<{ sessionId: string; distinctId: string }[]> {
  const fields = new QueryParameters()
  const ofProject = `project_id = ${fields.text(projectId)}`
  const from = newestRows(shards, 'sessions', { keys: ofProject, columns: ['distinct_id'] })
  const rows = await shards.rows<{ session_id: string; distinct_id: string }>(
    `SELECT session_id, distinct_id FROM ${from}
     WHERE ${ofProject} AND distinct_id IN ${fields.array(distinctIds)}`,
    fields.parameters,
  )
  return rows.map(({ session_id, distinct_id }) => ({ sessionId: session_id, distinctId: distinct_id }))
}

/** SQL expression for a session as the API returns it. The duration is computed like `measureDuration`. */
export const sessionJson = (properties: string) => `concat(
    '{"session_id":', toJSONString(session_id),
    ',"distinct_id":', toJSONString(distinct_id),
    ',"state":', toJSONString(state),
    ',"properties":', ${properties},
    ',"duration":', toString(ifNull(duration, (updated_at - started_at) / 1000)),
    ',"started_at":', toString(started_at),
    ',"updated_at":', toString(updated_at),
    ',"ended_at":', ifNull(toString(ended_at), 'null'),
    ${CONTEXT_MEMBER}, '}')`

export const OF_PROJECT = 'project_id = {project:String}'

/**
 * All sessions of a user under these names, earliest start first, as lines of NDJSON that begin with
 * `{"type":"session",`.
 */
export async function readSessionsOfUser(
  shards: Shards,
  { projectId, distinctIds }: { projectId: string; distinctIds: string[] },
  reading: ReadOptions,
): Promise<Readable> {
  const isOne = `distinct_id IN ${literalArray(distinctIds)}`
  const line = `concat('{"type":"session",', substring(${sessionJson(ONE_LINE)}, 2))`
  return await shards.bytes(
    `SELECT ${line} FROM ${newestRows(shards, 'sessions', { keys: matchSessionsThatHad(shards, isOne) })}
     WHERE ${OF_PROJECT} AND ${isOne} ORDER BY started_at, session_id FORMAT TSVRaw`,
    { project: projectId },
    { ...PAGE_SETTINGS, ...STREAMED, ...LARGE_QUERY },
    reading,
  )
}

/** SQL condition for sessions with any version of this user; the caller checks the newest version. */
function matchSessionsThatHad(shards: Shards, user: string): string {
  const had = `SELECT session_id FROM ${allVersions(shards, 'sessions')} WHERE ${OF_PROJECT} AND ${user}`
  return `${OF_PROJECT} AND session_id GLOBAL IN (${had})`
}

import type { Readable } from 'node:stream'
import type { Reading } from '../clickhouse/client.js'
import { LARGE_QUERY, literalArray, QueryParameters, type Scalars } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import type { Session } from '../model/session.js'
import { ONE_LINE, PAGE_SETTINGS, pageOf, STREAMED } from './page.js'
import { versionedTable } from './versioned.js'

interface SessionRow {
  distinct_id: string
  state: Session['state']
  duration: number | null
  started_at: string
  updated_at: string
  ended_at: string | null
}

export const SESSIONS = versionedTable<Session, SessionRow>({
  kind: 'sessions',
  columns: {
    distinct_id: 'String',
    state: 'String',
    duration: 'Nullable(Float64)',
    started_at: 'Int64',
    updated_at: 'Int64',
    ended_at: 'Nullable(Int64)',
  },
  toColumns: (session) => ({
    distinct_id: session?.distinctId ?? '',
    state: session?.state ?? '',
    duration: session?.duration ?? null,
    started_at: session?.startedAt ?? 0,
    updated_at: session?.updatedAt ?? 0,
    ended_at: session?.endedAt ?? null,
  }),
  toValue: (row, properties) => ({
    distinctId: row.distinct_id,
    state: row.state,
    properties,
    duration: row.duration,
    startedAt: Number(row.started_at),
    updatedAt: Number(row.updated_at),
    endedAt: row.ended_at === null ? null : Number(row.ended_at),
  }),
})

/** All sessions that these users have in the store. */
export async function sessionsOfUsers(
  shards: Shards,
  projectId: string,
  distinctIds: string[],
): Promise<{ sessionId: string; distinctId: string }[]> {
  const fields = new QueryParameters()
  const ofProject = `project_id = ${fields.text(projectId)}`
  const from = shards.newest('sessions', { keys: ofProject, columns: ['distinct_id'] })
  const rows = await shards.rows<{ session_id: string; distinct_id: string }>(
    `SELECT session_id, distinct_id FROM ${from}
     WHERE ${ofProject} AND distinct_id IN ${fields.array(distinctIds)}`,
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

const OF_PROJECT = 'project_id = {project:String}'
const NEWEST_FIRST = 'ORDER BY started_at DESC, session_id DESC'

/** A page of sessions as JSON texts, the one that started last first. */
export async function readSessionPage(
  shards: Shards,
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
        ${
          shards.areSeveral
            ? sessionsOfPage(shards, where)
            : `SELECT * FROM sessions FINAL
        WHERE ${where} AND session_id IN (
          SELECT session_id FROM sessions FINAL WHERE ${where} ${NEWEST_FIRST} LIMIT {skipped:UInt64}, {limit:UInt32} + 1
        )`
        }
      )
      ${NEWEST_FIRST}`,
  })
  return await shards.bytes(query, { ...parameters, limit, offset: 0, skipped: offset }, PAGE_SETTINGS, {
    signal,
    project: projectId,
  })
}

/** Only the shards' own condition on names keeps them from sending every session of the project. */
function sessionsOfPage(shards: Shards, where: string): string {
  const columns = ['distinct_id', 'state', 'started_at']
  const found = shards.newest('sessions', { keys: OF_PROJECT, columns })
  const ids = `SELECT session_id FROM ${found} WHERE ${where} ${NEWEST_FIRST} LIMIT {skipped:UInt64}, {limit:UInt32} + 1`
  return `SELECT * FROM ${shards.newest('sessions', { keys: `${OF_PROJECT} AND session_id GLOBAL IN (${ids})` })}`
}

/**
 * All sessions under these names of a user, the one that started first first, as lines of NDJSON that begin with
 * `{"type":"session",`.
 */
export async function readSessionsOfUser(
  shards: Shards,
  { projectId, distinctIds }: { projectId: string; distinctIds: string[] },
  reading: Reading,
): Promise<Readable> {
  const isOne = `distinct_id IN ${literalArray(distinctIds)}`
  const line = `concat('{"type":"session",', substring(${sessionJson(ONE_LINE)}, 2))`
  return await shards.bytes(
    `SELECT ${line} FROM ${shards.newest('sessions', { keys: sessionsThatHad(shards, isOne) })}
     WHERE ${OF_PROJECT} AND ${isOne} ORDER BY started_at, session_id FORMAT TSVRaw`,
    { project: projectId },
    { ...PAGE_SETTINGS, ...STREAMED, ...LARGE_QUERY },
    reading,
  )
}

/** Sessions that a user has had, by any of their versions; what they are now is looked at in the newest. */
function sessionsThatHad(shards: Shards, user: string): string {
  const had = `SELECT session_id FROM ${shards.versionsOf('sessions')} WHERE ${OF_PROJECT} AND ${user}`
  return `${OF_PROJECT} AND session_id GLOBAL IN (${had})`
}

function conditionsOf(
  projectId: string,
  { distinctId, state, from, to }: SessionFilter,
): { where: string; parameters: Scalars } {
  const conditions = [OF_PROJECT]
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

import type { ClickHouse } from '../clickhouse/client.js'
import type { ClickHouseSettings, Parameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import type { KeptTimes } from '../contract/project-settings.js'
import type { Expired } from '../contract/responses.js'
import { groupSql } from '../contract/user-names.js'
import { aliasEndsSql } from './aliases.js'
import { newestRows } from './newest-rows.js'
import { partitionSizes } from './parts.js'
import { mutate } from './rewrite.js'
import { removeSessionFacts } from './session-facts.js'

/**
 * SQL conditions for the rows that are kept. A row that marks a deletion has no time, and must keep hiding the rows
 * before it.
 */
const IS_KEPT = {
  events: (since: number) => `timestamp >= ${since}`,
  sessions: (since: number) => `(updated_at >= ${since} OR is_deleted = 1)`,
}
/** The names of a table in queries: on one shard, over all shards, and with all versions over all shards. */
const NAMES = {
  events: ['events', 'events_all', 'event_facts', 'event_facts_all'],
  sessions: ['sessions', 'sessions_rows'],
}

/**
 * Hides expired data from a query, whatever it reads: ClickHouse adds the condition wherever the query names one of
 * these tables. Profiles are not hidden, because their rows do not say when the user was last seen.
 */
export function hideExpired(kept: KeptTimes): ClickHouseSettings {
  const filters: string[] = []
  for (const table of ['events', 'sessions'] as const) {
    const since = kept[table]
    if (since !== undefined)
      filters.push(...NAMES[table].map((name) => `'${name}':'${IS_KEPT[table](Math.trunc(since))}'`))
  }
  return filters.length === 0 ? {} : { additional_table_filters: `{${filters.join(',')}}` }
}

/** Time limit for counting, ms, which reads the times of all events of a project. */
const COUNT_LIMIT_MS = 10 * 60_000

/** Counts the events of a project that are older than a time. @param shards for the project's erasures */
export async function countExpiredEvents(shards: Shards, projectId: string, before: number): Promise<Expired> {
  return await countOnShards(
    shards,
    'events',
    { project: projectId, before },
    `
    SELECT _partition_id AS id, count() AS n, min(timestamp) AS first_at, max(timestamp) AS last_at FROM events
    WHERE project_id = {project:String} AND timestamp < {before:Float64} GROUP BY id`,
  )
}

/** Counts the sessions of a project that were last changed before a time. @param shards as for events */
export async function countExpiredSessions(shards: Shards, projectId: string, before: number): Promise<Expired> {
  return await countOnShards(
    shards,
    'sessions',
    { project: projectId, before },
    `
    SELECT 'all' AS id, count() AS n, min(updated_at) AS first_at, max(updated_at) AS last_at FROM sessions FINAL
    WHERE project_id = {project:String} AND updated_at < {before:Float64}`,
  )
}

/** Estimates the bytes from the share of the rows of each month or table. */
async function countOnShards(shards: Shards, table: string, values: Parameters, counts: string): Promise<Expired> {
  const found = await shards.each(({ clickhouse }) =>
    clickhouse.rows<{ count: string; first: number; last: number; bytes: string }>(
      `SELECT sum(n) AS count, min(first_at) AS first, max(last_at) AS last, toUInt64(sum(n * size / all_rows)) AS bytes
       FROM (SELECT * FROM (${counts}) WHERE n > 0) AS counted
       INNER JOIN ${partitionSizes(table)} AS parts USING (id)
       HAVING count > 0`,
      values,
      {},
      { limitMs: COUNT_LIMIT_MS },
    ),
  )
  const rows = found.flat()
  const sum = (field: 'count' | 'bytes') => rows.reduce((all, row) => all + Number(row[field]), 0)
  return {
    count: sum('count'),
    from: rows.length === 0 ? null : Math.min(...rows.map(({ first }) => Number(first))),
    to: rows.length === 0 ? null : Math.max(...rows.map(({ last }) => Number(last))),
    bytes: sum('bytes'),
  }
}

/** Deletes the sessions of a project that were last changed before a time from one shard, and from its disk. */
export async function deleteExpiredSessions(
  clickhouse: ClickHouse,
  projectId: string,
  before: number,
  signal: AbortSignal,
): Promise<number> {
  const condition = 'project_id = {project:String} AND is_deleted = 0 AND updated_at < {before:Int64}'
  const values = { project: projectId, before: Math.trunc(before) }
  const [found] = await clickhouse.rows<{ count: string }>(
    // Without FINAL, earlier versions of sessions that were changed since would count, too.
    `SELECT count() AS count FROM sessions FINAL WHERE ${condition}`,
    values,
  )
  const count = Number(found?.count ?? 0)
  if (count === 0) return 0
  const removeFacts = () => removeSessionFacts(clickhouse, projectId, { before: values.before })
  await removeFacts()
  try {
    await mutate(clickhouse, 'sessions', `DELETE WHERE ${condition}`, signal, values)
  } finally {
    // If the retention setting was raised in the meantime, session facts may have been filled from these calls again.
    await removeFacts()
  }
  return count
}

/**
 * Finds profiles that were last changed before a time, of users who were not seen since then: neither their profile
 * changed, nor did they have an event or session, under any of their names. Events and sessions that have expired do
 * not count, whether or not they have been removed. The profile that an alias had before it became one is as old as its
 * user, who gets it back when the alias is removed. Profiles of groups are not found, because the events and sessions
 * are those of their members.
 * @param shards for the project's erasures
 * @param limit maximum number to return
 */
export async function findUnseenProfiles(
  shards: Shards,
  projectId: string,
  { profiles: before, events = before, sessions = before }: KeptTimes & { profiles: number },
  limit: number,
): Promise<string[]> {
  const ofProject = 'project_id = {project:String}'
  const table = (name: 'sessions' | 'profiles', columns: string[], alias = '') =>
    newestRows(shards, name, { keys: ofProject, columns, alias })
  const links = `(${aliasEndsSql(shards, '{project:String}')}) AS links`
  const user = (name: string) => `if(links.user = '', ${name}.distinct_id, links.user)`
  const seen = `
    SELECT distinct_id FROM ${shards.table('events')} WHERE ${ofProject} AND timestamp >= {events:Float64}
    UNION DISTINCT
    SELECT distinct_id FROM ${table('sessions', ['distinct_id', 'updated_at'])}
    WHERE ${ofProject} AND updated_at >= {sessions:Float64}
    UNION DISTINCT
    SELECT distinct_id FROM ${table('profiles', ['updated_at'])}
    WHERE ${ofProject} AND updated_at >= {before:Float64}`
  const rows = await shards.rows<{ name: string }>(
    `SELECT old.distinct_id AS name
     FROM ${table('profiles', ['updated_at'], 'old')} ANY LEFT JOIN ${links} ON old.distinct_id = links.alias
     WHERE old.${ofProject} AND old.updated_at < {before:Float64} AND NOT ${groupSql('old.distinct_id')}
       AND ${user('old')} GLOBAL NOT IN (
         SELECT ${user('seen')} FROM (${seen}) AS seen ANY LEFT JOIN ${links} ON seen.distinct_id = links.alias
       )
     LIMIT {limit:UInt32}`,
    { project: projectId, before, events: Math.max(before, events), sessions: Math.max(before, sessions), limit },
    { join_use_nulls: 0 },
    { limitMs: COUNT_LIMIT_MS },
  )
  return rows.map(({ name }) => name)
}

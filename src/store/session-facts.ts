import type { ClickHouse } from '../clickhouse/client.js'
import { type ClickHouseSettings, LARGE_QUERY, literalArray, type Parameters } from '../clickhouse/parameters.js'
import { DAY_MS } from '../contract/durations.js'
import { CONTEXT_COLUMNS } from './context-sql.js'
import { noteCalls } from './event-changes.js'
import { hashName } from './fact-columns.js'

/** The columns of `session_facts` in order. */
export const SESSION_FACT_COLUMNS: readonly string[] = [
  ...['project_id', 'definition', 'day', 'fill', 'key', 'start', 'until', 'session_id', 'place', 'events', 'pages'],
  ...['distinct_id', 'user', 'caller'],
  ...CONTEXT_COLUMNS,
  ...['entry_host', 'entry_path', 'entry_referrer', 'entry_source', 'entry_medium', 'entry_campaign', 'entry_term'],
  ...['entry_content', 'entry_channel', 'exit_host', 'exit_path', 'names', 'is_irregular'],
]

/** Defines the rows of `session_facts`. */
export interface SessionFactsMaker {
  /** UInt64 in decimal digits; it changes if the sessions of the project have to be filled again */
  define(projectId: string): string
  /** epoch ms before which events or calls of the project may have expired; null if nothing expires */
  since(projectId: string): number | null
  /**
   * SELECT of the sessions that start on the UTC days of [from, to), epoch ms, with SESSION_FACT_COLUMNS except
   * `project_id`, `definition` and `fill`, from the facts of steps up to `step` and all calls.
   * @param range `repairsTexts`: whether the statement repairs texts that the parser rejects, instead of failing with
   *   FUNCTION_THROW_IF_VALUE_IS_NON_ZERO
   */
  select(
    projectId: string,
    range: { from: number; to: number; step: number; repairsTexts: boolean },
  ): Promise<{ definition: string; sql: string; parameters: Parameters; settings?: ClickHouseSettings }>
}

/**
 * The first day, since 1970, whose rows may be read. Data that has expired since the rows were filled is hidden from
 * questions, but may be part of any session of earlier days.
 * @param expiry epoch ms before which events or calls may have expired; null: none have
 */
export function findFirstDay(expiry: number | null): number {
  return expiry === null ? Number.NEGATIVE_INFINITY : Math.floor(expiry / DAY_MS) + 2
}

/** A UTC day with rows in `session_facts`. */
export interface SessionDay {
  definition: string
  /** days since 1970 */
  day: number
  /** fill that wrote its rows */
  fill: string
  /** its rows cover all facts of steps up to this one */
  step: number
  /** its rows cover all rows of `sessions` up to this version */
  calls: string
}

/** Time limit for reading the days, ms; after that, a question groups the events. */
const LIMIT_MS = 5_000

/** The days of a project whose rows may be read, as long as its facts do not change after the call. */
export async function readSessionDays(clickhouse: ClickHouse, projectId: string): Promise<SessionDay[]> {
  const rows = await clickhouse.rows<{ definition: string; day: number; last: string; step: number; calls: string }>(
    `SELECT toString(definition) AS definition, toInt32(day) AS day, toString(max(fill)) AS last,
       argMax(step, fill) AS step, toString(argMax(calls, fill)) AS calls
     FROM session_fact_days WHERE project_id = {project:String} GROUP BY definition, day HAVING step > 0`,
    { project: projectId },
    {},
    { limitMs: LIMIT_MS },
  )
  return rows.map(({ definition, day, last, step, calls }) => ({ definition, day, fill: last, step, calls }))
}

/** How long a project's session facts are kept after the last request, days. */
const ASKED_DAYS = 7

/** The projects with a recent request for session facts. */
export async function readRequestingProjects(clickhouse: ClickHouse): Promise<Set<string>> {
  const rows = await clickhouse.rows<{ project: string }>(
    `SELECT DISTINCT project_id AS project FROM session_facts_asked WHERE asked_at > now64(3) - INTERVAL ${ASKED_DAYS} DAY`,
  )
  return new Set(rows.map(({ project }) => project))
}

/** Requests session facts of a project: they are kept for a week after the last call. */
export async function requestSessionFacts(clickhouse: ClickHouse, projectId: string): Promise<void> {
  await clickhouse.command('INSERT INTO session_facts_asked (project_id) SELECT {project:String}', {
    project: projectId,
  })
}

/** With more sessions than this, they are not named, and all rows of their project are filled again. */
const MAX_NAMED = 1_000

/**
 * Requests that the rows of sessions are removed, including from the disk, if the project has any. To be called after
 * the deletions of their calls are stored, but before the calls leave the store: rows filled from then on are correct,
 * and if the process dies in between, the calls are still there.
 * @param which `ids` of the sessions, null for all; or `before`: sessions whose calls were last changed before this
 *   time, epoch ms
 */
export async function removeSessionFacts(
  clickhouse: ClickHouse,
  projectId: string,
  which: { ids: readonly string[] | null } | { before: number },
): Promise<void> {
  const ids = 'ids' in which ? which.ids : []
  const [found] = await clickhouse.rows<{ keys: string[]; has: number }>(
    `SELECT arrayMap(name -> toString(${hashName('name')}), ${literalArray(ids?.slice(0, MAX_NAMED) ?? [])}) AS keys,
       {project:String} IN (SELECT project_id FROM session_facts_asked)
       OR {project:String} IN (SELECT project_id FROM session_facts WHERE project_id = {project:String} LIMIT 1) AS has`,
    { project: projectId },
    LARGE_QUERY,
  )
  if (found?.has !== 1) return
  const scope = 'before' in which ? which : { keys: ids === null || ids.length > MAX_NAMED ? null : found.keys }
  await noteCalls(clickhouse, projectId, scope)
}

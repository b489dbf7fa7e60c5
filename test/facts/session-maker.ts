import type { SessionFactsMaker } from '../../src/store/session-facts.js'

const DAY_MS = 86_400_000
/** The columns that the tests compare. */
export const COMPARED = ['day', 'key', 'start', 'until', 'session_id', 'events', 'distinct_id', 'user', 'caller']
const TEXTS = ['browser', 'browser_version', 'os', 'os_version', 'device', 'country', 'region', 'city', 'language']
const PAGES = ['host', 'path', 'referrer', 'source', 'medium', 'campaign', 'term', 'content', 'channel']

/**
 * SELECT of the sessions that start on the UTC days of [from, to), epoch ms, with the greatest step and version of
 * their events and calls.
 * @param projectId a name without quotes
 */
export function selectSessions(projectId: string, { from, to }: { from: number; to: number }): string {
  const within = (at: string) => `${at} >= ${from - DAY_MS} AND ${at} < ${to + 2 * DAY_MS}`
  const moments = `
    SELECT session AS k, timestamp AS at, session_id AS id, distinct_id AS person, 1 AS is_event, step AS s, 0 AS v
    FROM event_facts WHERE project_id = '${projectId}' AND session != 0 AND ${within('timestamp')}
    UNION ALL
    SELECT sipHash64(session_id), toFloat64(started_at), session_id, distinct_id, 0, 0, version
    FROM sessions FINAL WHERE project_id = '${projectId}' AND ${within('started_at')}`
  return `
    SELECT toDate32(fromUnixTimestamp64Milli(toInt64(start), 'UTC')) AS day, k AS key, min(at) AS start, max(at) AS until,
      any(id) AS session_id, countIf(is_event = 1) AS events,
      if(events = 0, anyIf(person, is_event = 0), argMaxIf(person, at, is_event = 1)) AS distinct_id,
      sipHash64(distinct_id) AS user, if(countIf(is_event = 0) = 0, 0, sipHash64(anyIf(person, is_event = 0))) AS caller,
      max(s) AS last_step, max(v) AS last_call
    FROM (${moments}) GROUP BY k HAVING start >= ${from} AND start < ${to}`
}

/** Builds session facts of any project, without fields of pages. */
export function openMaker(parts: Partial<SessionFactsMaker> = {}): SessionFactsMaker {
  const rest = [
    '0 AS place',
    '0 AS pages',
    ...TEXTS.map((name) => `'' AS ${name}`),
    '0 AS bot',
    ...PAGES.map((name) => `'' AS entry_${name}`),
    "'' AS exit_host",
    "'' AS exit_path",
    '[] AS names',
    '0 AS is_irregular',
  ]
  const { define = () => '18446744073709551615' } = parts
  return {
    define,
    since: () => null,
    select: async (projectId, range) => ({
      definition: define(projectId),
      sql: `SELECT ${[...COMPARED, ...rest].join(', ')} FROM (${selectSessions(projectId, range)})`,
      parameters: {},
    }),
    ...parts,
  }
}

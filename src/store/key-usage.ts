import type { ClickHouse } from '../clickhouse/client.js'
import { literalRows, QueryParameters } from '../clickhouse/parameters.js'
import type { UsageTable } from '../keys/key-usage.js'

/** How a key was used. Days are in UTC, such as 2026-11-26; null for never. */
export interface StoredKeyUse {
  lastUsed: string | null
  /** refused requests that the key was not allowed to make */
  refused: number
  lastRefused: string | null
}

export const NEVER_USED: StoredKeyUse = { lastUsed: null, refused: 0, lastRefused: null }
/** The value of the columns for "never". */
const NO_DAY = '1970-01-01'

/** Stores the use of keys that a process has counted. */
export function openUsageTable(clickhouse: ClickHouse): UsageTable {
  return {
    add: async (uses) => {
      const rows = uses.map(({ projectId, id, usedOn, refused, refusedOn }) => {
        return [projectId, id, usedOn ?? NO_DAY, refused, refusedOn ?? NO_DAY]
      })
      await clickhouse.command(
        `INSERT INTO key_usage (project_id, key_id, last_used, refused, last_refused)
         SELECT r.1, r.2, toDate(r.3), r.4, toDate(r.5)
         FROM (SELECT arrayJoin(${literalRows(rows, 'String, String, String, UInt64, String')}) AS r)`,
      )
    },
  }
}

/** Names a key of a project. */
type KeyName = { projectId: string; id: string }

/**
 * How the keys of one or all projects were used. Processes store this once a minute.
 * @returns a look-up by key
 */
export async function readKeyUse(clickhouse: ClickHouse, projectId?: string): Promise<(key: KeyName) => StoredKeyUse> {
  const fields = new QueryParameters()
  const condition = projectId === undefined ? '1' : `project_id = ${fields.text(projectId)}`
  const rows = await clickhouse.rows<{ project_id: string; key_id: string; used: string; count: string; at: string }>(
    `SELECT project_id, key_id, toString(max(last_used)) AS used, sum(refused) AS count, toString(max(last_refused)) AS at
     FROM key_usage WHERE ${condition} GROUP BY project_id, key_id`,
    fields.parameters,
  )
  const toName = ({ projectId, id }: KeyName) => JSON.stringify([projectId, id])
  const toDay = (text: string) => (text === NO_DAY ? null : text)
  const byName = new Map(
    rows.map(({ project_id, key_id, used, count, at }): [string, StoredKeyUse] => [
      toName({ projectId: project_id, id: key_id }),
      { lastUsed: toDay(used), refused: Number(count), lastRefused: toDay(at) },
    ]),
  )
  return (key) => byName.get(toName(key)) ?? NEVER_USED
}

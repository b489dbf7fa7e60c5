import { QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import type { Alias } from '../model/alias.js'
import { insertEntries, versionedRows } from './insert.js'
import { BY_KEY, insertOf, storedKeysOf, type VersionedTable } from './versioned.js'

const INSERT = insertOf('aliases', {
  project_id: 'String',
  alias: 'String',
  distinct_id: 'String',
  created_at: 'Int64',
  is_deleted: 'UInt8',
})

/** The table of aliases. Its values are small, so `maxBytes` is ignored. */
export const ALIASES: VersionedTable<Alias> = {
  kind: 'aliases',
  ...storedKeysOf('aliases'),

  row: (projectId, alias, value) =>
    JSON.stringify({
      project_id: projectId,
      alias,
      distinct_id: value?.distinctId ?? '',
      created_at: value?.createdAt ?? 0,
      is_deleted: value ? 0 : 1,
    }),

  insert: (clickhouse, entries, signal) => insertEntries(clickhouse, INSERT, entries, versionedRows, signal),

  async read(shards, projectId, names) {
    const fields = new QueryParameters()
    const keys = `project_id = ${fields.text(projectId)} AND alias IN ${fields.array(names)}`
    const rows = await shards.rows<{ alias: string; distinct_id: string; created_at: string; version: string }>(
      `SELECT alias, distinct_id, created_at, version FROM ${shards.newest('aliases', { keys })} WHERE ${keys}`,
      fields.parameters,
      BY_KEY,
    )
    return new Map(
      rows.map(({ alias, distinct_id, created_at, version }) => {
        const value = { distinctId: distinct_id, createdAt: Number(created_at) }
        return [alias, { version: BigInt(version), bytes: 0, value }]
      }),
    )
  },
}

/** Whether ClickHouse has a version of any alias of the project. */
export async function hasAliases(shards: Shards, projectId: string): Promise<boolean> {
  const fields = new QueryParameters()
  const rows = await shards.rows(
    `SELECT 1 FROM ${shards.versionsOf('aliases')} WHERE project_id = ${fields.text(projectId)} LIMIT 1`,
    fields.parameters,
  )
  return rows.length > 0
}

export interface NamedAlias {
  alias: string
  /** the name that it points at, which may be an alias itself */
  distinctId: string
}

/** The aliases in ClickHouse that point at one of these names. */
export async function aliasesOf(shards: Shards, projectId: string, distinctIds: string[]): Promise<NamedAlias[]> {
  const fields = new QueryParameters()
  const named = `distinct_id IN ${fields.array(distinctIds)}`
  const project = `project_id = ${fields.text(projectId)}`
  // Found by any version, then filtered by the newest one.
  const have = `SELECT alias FROM ${shards.versionsOf('aliases')} WHERE ${project} AND ${named}`
  const keys = `${project} AND alias GLOBAL IN (${have})`
  return await shards.rows<NamedAlias>(
    `SELECT alias, distinct_id AS distinctId FROM ${shards.newest('aliases', { keys })} WHERE ${keys} AND ${named}`,
    fields.parameters,
  )
}

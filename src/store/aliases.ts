import { QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import { reservedSql } from '../contract/user-names.js'
import type { Alias } from '../model/alias.js'
import { allVersions, newestRows } from './newest-rows.js'
import { BY_KEY, buildInsert, createStoredKeys, type VersionedTable } from './versioned-table.js'

/**
 * SQL condition for rows that link a name to a user. A row without a distinct_id marks a user that has aliases. A
 * restored store may contain names that no user can have.
 */
export const ARE_LINKS = `distinct_id != '' AND NOT ${reservedSql('alias')} AND NOT ${reservedSql('distinct_id')}`

/** The table of aliases. Its values are small, so `maxBytes` is ignored. */
export const ALIASES: VersionedTable<Alias> = {
  kind: 'aliases',
  ...createStoredKeys('aliases'),

  insertQuery: buildInsert('aliases', {
    project_id: 'String',
    alias: 'String',
    distinct_id: 'String',
    said: 'String',
    created_at: 'Int64',
    given_to: 'String',
    given: 'Array(String)',
    is_pending: 'UInt8',
    is_leaving: 'UInt8',
    step_at: 'Int64',
    is_deleted: 'UInt8',
  }),

  row: (projectId, alias, value) =>
    JSON.stringify({
      project_id: projectId,
      alias,
      distinct_id: value?.distinctId ?? '',
      said: value?.said ?? '',
      created_at: value?.createdAt ?? 0,
      given_to: value?.givenTo ?? '',
      given: value?.given ?? [],
      is_pending: value?.isPending ? 1 : 0,
      is_leaving: value?.isLeaving ? 1 : 0,
      step_at: value?.stepAt ?? 0,
      is_deleted: value ? 0 : 1,
    }),

  async read(shards, projectId, names) {
    const fields = new QueryParameters()
    const keys = `project_id = ${fields.text(projectId)} AND alias IN ${fields.array(names)}`
    const rows = await shards.rows<AliasRow>(
      `SELECT alias, distinct_id, said, created_at, given_to, given, is_pending, is_leaving, step_at,
         version
       FROM ${newestRows(shards, 'aliases', { keys })} WHERE ${keys}`,
      fields.parameters,
      BY_KEY,
    )
    return new Map(rows.map((row) => [row.alias, { version: BigInt(row.version), bytes: 0, value: toAlias(row) }]))
  },
}

interface AliasRow {
  alias: string
  distinct_id: string
  said: string
  created_at: string
  given_to: string
  given: string[]
  is_pending: number
  is_leaving: number
  step_at: string
  version: string
}

function toAlias({ distinct_id, said, created_at, given_to, given, is_pending, is_leaving, step_at }: AliasRow): Alias {
  return {
    distinctId: distinct_id,
    said,
    createdAt: Number(created_at),
    givenTo: given_to,
    given,
    isPending: is_pending === 1,
    isLeaving: is_leaving === 1,
    stepAt: Number(step_at),
  }
}

/** Whether ClickHouse has a version of any alias of the project. */
export async function hasAliases(shards: Shards, projectId: string): Promise<boolean> {
  const fields = new QueryParameters()
  const rows = await shards.rows(
    `SELECT 1 FROM ${allVersions(shards, 'aliases')} WHERE project_id = ${fields.text(projectId)} LIMIT 1`,
    fields.parameters,
  )
  return rows.length > 0
}

export interface NamedAlias {
  alias: string
  /** the name that it points at, which may be an alias itself */
  distinctId: string
}

/** The aliases in ClickHouse that point at one of these names, in the order of the aliases; not more than `limit`. */
export async function findAliases(
  shards: Shards,
  projectId: string,
  distinctIds: string[],
  limit = Number.POSITIVE_INFINITY,
): Promise<NamedAlias[]> {
  const fields = new QueryParameters()
  const limited = Number.isFinite(limit) ? `LIMIT ${limit}` : ''
  return await shards.rows<NamedAlias>(
    `SELECT alias, distinct_id AS distinctId FROM ${aliasesTo(shards, projectId, distinctIds, fields)}
     ORDER BY alias ${limited}`,
    fields.parameters,
  )
}

/** Finds which of the names have aliases in ClickHouse. */
export async function findTargets(shards: Shards, projectId: string, distinctIds: string[]): Promise<string[]> {
  const fields = new QueryParameters()
  const rows = await shards.rows<{ distinct_id: string }>(
    `SELECT DISTINCT distinct_id FROM ${aliasesTo(shards, projectId, distinctIds, fields)}`,
    fields.parameters,
  )
  return rows.map(({ distinct_id }) => distinct_id)
}

/** `FROM` and `WHERE` of the aliases that point at one of these names. */
function aliasesTo(shards: Shards, projectId: string, distinctIds: string[], fields: QueryParameters): string {
  const named = `distinct_id IN ${fields.array(distinctIds)}`
  const project = `project_id = ${fields.text(projectId)}`
  // Find aliases by any version, then filter by the newest one.
  const have = `SELECT alias FROM ${allVersions(shards, 'aliases')} WHERE ${project} AND ${named}`
  const keys = `${project} AND alias GLOBAL IN (${have})`
  return `${newestRows(shards, 'aliases', { keys })} WHERE ${keys} AND ${named} AND ${ARE_LINKS}`
}

/** An alias that other aliases may point at. */
export interface Step extends NamedAlias {
  stepAt: number
}

/**
 * SELECT of the project's aliases that other aliases may point at. There are hardly ever any, so finding them by any
 * version costs next to nothing; the newest version then decides.
 * @param project placeholder of its name
 */
function stepsSql(shards: Pick<Shards, 'areSeveral'>, project: string): string {
  const found = `SELECT alias FROM ${allVersions(shards, 'aliases')} WHERE project_id = ${project} AND step_at > 0`
  const keys = `project_id = ${project} AND alias GLOBAL IN (${found})`
  const newest = newestRows(shards, 'aliases', { keys, columns: ['distinct_id', 'created_at', 'step_at'] })
  return `SELECT alias, distinct_id, created_at, step_at FROM ${newest} WHERE ${keys} AND step_at > 0 AND ${ARE_LINKS}`
}

/**
 * SELECT of `alias` and `user`: each alias of the project with its user. Chains are followed to their end; each round of
 * the recursion doubles the distance. Two concurrent calls can create a cycle until the later one undoes it: its latest
 * alias counts as the user, as in `Aliases`.
 * @param project placeholder of its name
 */
export function aliasEndsSql(shards: Pick<Shards, 'areSeveral'>, project: string): string {
  const keys = `project_id = ${project}`
  const links = `SELECT alias, distinct_id FROM ${newestRows(shards, 'aliases', { keys, columns: ['distinct_id'] })}
    WHERE ${keys} AND ${ARE_LINKS}`
  const steps = stepsSql(shards, project)
  return `WITH RECURSIVE ways AS (
      SELECT alias, distinct_id AS user, (created_at, alias) AS latest, toUInt64(1) AS length, count() OVER () AS all_steps
      FROM (${steps})
      UNION ALL
      SELECT
        w.alias,
        multiIf(n.alias = '', w.user, w.length >= w.all_steps, n.latest.2, n.user),
        if(n.alias != '' AND n.latest > w.latest, n.latest, w.latest),
        2 * w.length,
        w.all_steps
      FROM ways AS w LEFT JOIN ways AS n ON n.alias = w.user
      WHERE w.length < 2 * w.all_steps
    )
    SELECT l.alias AS alias, if(e.alias = '', l.distinct_id, e.user) AS user
    FROM (${links}) AS l
    ${shards.areSeveral ? 'GLOBAL ' : ''}ANY LEFT JOIN (SELECT alias, argMax(user, length) AS user FROM ways GROUP BY alias) AS e
      ON e.alias = l.distinct_id`
}

/** The aliases of a project in ClickHouse that other aliases may point at. */
export async function findSteps(shards: Shards, projectId: string): Promise<Step[]> {
  const fields = new QueryParameters()
  const rows = await shards.rows<{ alias: string; distinct_id: string; step_at: string }>(
    stepsSql(shards, fields.text(projectId)),
    fields.parameters,
  )
  return rows.map(({ alias, distinct_id, step_at }) => ({ alias, distinctId: distinct_id, stepAt: Number(step_at) }))
}

/** The projects that have, or had, aliases that other aliases point at. */
export async function findProjectsWithSteps(shards: Shards): Promise<string[]> {
  const rows = await shards.rows<{ project_id: string }>(
    `SELECT DISTINCT project_id FROM ${allVersions(shards, 'aliases')} WHERE step_at > 0`,
  )
  return rows.map(({ project_id }) => project_id)
}

import { ARE_LINKS } from '../store/aliases.js'
import { newestRows } from '../store/newest-rows.js'
import { decodeText, isText, repairText, unmarkToken } from './json-sql.js'
import type { Query } from './kind.js'
import { type QueryContext, Statement } from './statement.js'
import { selectAliasEnds } from './users-join.js'

/** A search for users, and the page of its results. */
export interface UserSearch {
  /** at least one character */
  text: string
  offset: number
  limit: number
}

export interface FoundUser {
  name: string
  /** 1 if the text is the user's name, or an alias of it */
  isExact: number
}

/**
 * Query for FoundUsers: users with a profile whose name, alias or top-level string property contains the text, ignoring
 * case. An exact match of the name comes first, then the others by name.
 */
export function queryUserSearch(asked: QueryContext, { text, offset, limit }: UserSearch): Query {
  const statement = new Statement(asked)
  const { shards, hasAliases } = asked
  const sought = statement.text(text)
  const holds = (value: string) => `positionCaseInsensitiveUTF8(${value}, ${sought}) > 0`
  const keys = `project_id = ${statement.project}`
  const profiles = `SELECT distinct_id, properties FROM ${newestRows(shards, 'profiles', { keys, columns: ['properties'] })}
    WHERE ${keys}`
  const conditions = [holds('p.distinct_id'), hasText('p.properties', holds), ...(hasAliases ? [`a.user != ''`] : [])]
  const named = `SELECT user, max(alias = ${sought}) AS is_exact FROM (${selectAliasEnds(statement)})
    WHERE ${holds('alias')} GROUP BY user`
  // Excludes the profiles of names that have become aliases.
  const aliases = `SELECT alias FROM ${newestRows(shards, 'aliases', { keys, columns: ['distinct_id'] })} WHERE ${keys} AND ${ARE_LINKS}`
  const sql = `SELECT p.distinct_id AS name, p.distinct_id = ${sought}${hasAliases ? ' OR a.is_exact' : ''} AS isExact
    FROM (${profiles}) AS p
    ${hasAliases ? `${statement.global}ANY LEFT JOIN (${named}) AS a ON a.user = p.distinct_id` : ''}
    WHERE (${conditions.join(' OR ')})
      ${hasAliases ? `AND p.distinct_id ${statement.global}NOT IN (${aliases})` : ''}
    ORDER BY isExact DESC, name LIMIT ${statement.count(offset)}, ${statement.count(limit)}`
  return { sql, parameters: statement.parameters }
}

/**
 * SQL for whether a string at the top level of properties matches. Most properties are excluded without being parsed,
 * and only those that ClickHouse's parser rejects are repaired.
 */
function hasText(properties: string, holds: (value: string) => string): string {
  const member = unmarkToken('m.2')
  const found = someMember(properties, `${isText('m.2')} AND ${holds(decodeText('m.2', false))}`)
  const foundRepaired = someMember(repairText(properties), `${isText(member)} AND ${holds(decodeText(member, true))}`)
  const may = `(${holds(properties)} OR position(${properties}, '\\\\') > 0)`
  return `(${may} AND (${found} OR (NOT isValidJSON(${properties}) AND ${foundRepaired})))`
}

/** @param condition on `m.2`, the token of a member */
function someMember(object: string, condition: string): string {
  return `arrayExists(m -> ${condition}, JSONExtractKeysAndValuesRaw(${object}))`
}

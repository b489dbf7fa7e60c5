import { ANONYMOUS } from '../contract/user-names.js'
import { ARE_LINKS, aliasEndsSql } from '../store/aliases.js'
import { hashName } from '../store/fact-columns.js'
import { newestRows } from '../store/newest-rows.js'
import type { Statement } from './statement.js'

/** The distinct_id that SDKs send for an unknown user. */
export const NOBODY = ANONYMOUS

/** SQL for the user of an event row `e` after `joinUsers`: the end of its chain of aliases. */
export function userSql({ context }: Statement): string {
  return context.hasAliases ? `if(a.user = '', e.distinct_id, a.user)` : 'e.distinct_id'
}

/** SQL for the hash of NOBODY. */
export const NOBODY_HASH = hashName(`'${ANONYMOUS}'`)

/** SQL for the hash of an event row's user after `joinUserHashes`. @param own SQL for the hash of `distinct_id` */
export function userHashSql({ context }: Statement, own: string): string {
  return context.hasAliases ? `if(a.user_hash = 0, ${own}, a.user_hash)` : own
}

/** Joins the hashes of aliases to event rows, if the project has any. @param own SQL for the hash of `distinct_id` */
export function joinUserHashes(statement: Statement, own: string): string {
  if (!statement.context.hasAliases) return ''
  const hashes = `SELECT ${hashName('alias')} AS alias_hash, ${hashName('user')} AS user_hash FROM (${selectAliasEnds(statement)})`
  return `${statement.global}ANY LEFT JOIN (${hashes}) AS a ON a.alias_hash = ${own}`
}

/** Joins aliases to event rows `e`, if the project has any. */
export function joinAliases(statement: Statement): string {
  if (!statement.context.hasAliases) return ''
  return `${statement.global}ANY LEFT JOIN (${selectAliasEnds(statement)}) AS a ON a.alias = e.distinct_id`
}

/** The tokens that a question needs from a profile's properties. */
export interface ProfileTokens {
  raws: string[]
  tokens: string[]
  names: string[]
}

/**
 * Joins users to event rows `e`: aliases if the project has any, and profiles if the question uses them.
 * @param events operand of FROM for the rows, if they are few, so that only the profiles of their users are read
 */
export function joinUsers(statement: Statement, profile: ProfileTokens | null, events: string | null): string {
  const aliases = joinAliases(statement)
  if (!profile) return aliases
  const users = events && `SELECT ${userSql(statement)} FROM ${events} AS e ${aliases}`
  return `${aliases} ${joinProfiles(statement, profile, userSql(statement), users)}`
}

/**
 * Joins profiles to rows.
 * @param user SQL for the name of a row's user
 * @param users SELECT of the names of the users, if they are few, so that only their profiles are read
 */
export function joinProfiles(statement: Statement, profile: ProfileTokens, user: string, users: string | null): string {
  const { context, global } = statement
  const keys = `project_id = ${statement.project}${users === null ? '' : ` AND distinct_id ${global}IN (${users})`}`
  const newest = newestRows(context.shards, 'profiles', { keys, columns: ['properties'] })
  const raws = `SELECT distinct_id AS name, properties, ${profile.raws.join(', ')} FROM ${newest} WHERE ${keys}`
  const tokens = `SELECT name, ${profile.tokens.join(', ')} FROM (${raws})`
  const profiles = `SELECT name, ${profile.names.join(', ')} FROM (${tokens})`
  return `${global}ANY LEFT JOIN (${profiles}) AS u ON u.name = ${user}`
}

/** The code of INFINITE_LOOP, which no statement of ours fails with otherwise. */
const CHAIN_CODE = 269

/**
 * SELECT of `alias` and `user`: each alias with its user. That takes one step, unless a user has just become an alias.
 * Without `hasChains`, the statement then fails with INFINITE_LOOP: planning the recursion takes longer than most
 * questions do.
 */
export function selectAliasEnds(statement: Statement): string {
  const { context, project } = statement
  if (context.hasChains) return aliasEndsSql(context.shards, project)
  const keys = `project_id = ${project}`
  const newest = newestRows(context.shards, 'aliases', { keys, columns: ['distinct_id', 'step_at'] })
  statement.set({ allow_custom_error_code_in_throwif: 1 })
  // ClickHouse may evaluate it for rows of other projects.
  const isStep = `throwIf(step_at > 0 AND ${keys}, 'aliases have to be followed', toInt16(${CHAIN_CODE}))`
  return `SELECT alias, distinct_id AS user FROM ${newest} WHERE ${keys} AND ${ARE_LINKS} AND NOT ${isStep}`
}

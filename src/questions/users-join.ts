import { ARE_LINKS } from '../store/aliases.js'
import type { Statement } from './statement.js'

/** The distinct_id that SDKs send for an unknown user. */
export { ANONYMOUS as NOBODY } from '../model/user-names.js'

/** The user of an event row `e` that usersJoin has joined: the end of its chain of aliases. */
export function userOf({ asked }: Statement): string {
  return asked.hasAliases ? `if(a.user = '', e.distinct_id, a.user)` : 'e.distinct_id'
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
export function usersJoin(statement: Statement, profile: ProfileTokens | null, events: string | null): string {
  const { asked, global } = statement
  const aliases = asked.hasAliases
    ? `${global}ANY LEFT JOIN (${aliasEnds(statement)}) AS a ON a.alias = e.distinct_id`
    : ''
  if (!profile) return aliases
  const users = `SELECT ${userOf(statement)} FROM ${events} AS e ${aliases}`
  const keys = `project_id = ${statement.project}${events === null ? '' : ` AND distinct_id ${global}IN (${users})`}`
  const newest = asked.shards.newest('profiles', { keys, columns: ['properties'] })
  const raws = `SELECT distinct_id AS name, properties, ${profile.raws.join(', ')} FROM ${newest} WHERE ${keys}`
  const tokens = `SELECT name, ${profile.tokens.join(', ')} FROM (${raws})`
  const profiles = `SELECT name, ${profile.names.join(', ')} FROM (${tokens})`
  return `${aliases} ${global}ANY LEFT JOIN (${profiles}) AS u ON u.name = ${userOf(statement)}`
}

/** Maximum number of steps by which a chain of aliases is followed. */
const MAX_CHAIN = 900

/** Rows `alias` and `user`: each alias with the user at the end of its chain. */
export function aliasEnds(statement: Statement): string {
  const keys = `project_id = ${statement.project}`
  const newest = statement.asked.shards.newest('aliases', { keys, columns: ['distinct_id'] })
  const links = `SELECT alias, distinct_id FROM ${newest} WHERE ${keys} AND ${ARE_LINKS}`
  // Few aliases point at another alias.
  const further = `SELECT alias, distinct_id FROM (${links}) WHERE alias ${statement.global}IN (SELECT distinct_id FROM (${links}))`
  return `WITH RECURSIVE ways AS (
      SELECT alias, distinct_id AS user, 1 AS steps FROM (${links})
      UNION ALL
      SELECT ways.alias, further.distinct_id, ways.steps + 1
      FROM ways INNER JOIN (${further}) AS further ON further.alias = ways.user WHERE ways.steps < ${MAX_CHAIN}
    )
    SELECT alias, argMax(user, steps) AS user FROM ways GROUP BY alias`
}

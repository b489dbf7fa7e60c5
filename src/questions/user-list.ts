import { DAY_MS, HOUR_MS } from '../contract/durations.js'
import { splitField } from '../contract/filters.js'
import type { FieldName, Filter } from '../contract/questions.js'
import { groupSql } from '../contract/user-names.js'
import { decodeText, isText, repairText, unmarkToken } from '../store/json-sql.js'
import { allVersions, newestRows } from '../store/newest-rows.js'
import { EventRows } from './event-rows.js'
import { Faults } from './faults.js'
import { parseJsonOrText } from './field-name.js'
import { buildCondition } from './filter.js'
import { FilterCheck } from './filter-check.js'
import { findPatterns } from './patterns.js'
import type { Questions } from './run.js'
import { type Query, type QueryContext, Statement } from './statement.js'
import { joinAliases, NOBODY, selectAliasEnds, userSql } from './users-join.js'

/** Which users to list, and the page of the list. */
export interface UserList {
  /** what a name, alias or property has to contain; empty: anything */
  text: string
  where: Filter | null
  offset: number
  limit: number
}

/** A user with events or a profile. */
export interface ListedUser {
  name: string
  /** epoch ms of the latest event; `NEVER` without events */
  last_seen: number
}

/** Instead of the time of the latest event; lower than any other. */
export const NEVER = -1

/**
 * A page near the top of the list needs recent events only. The latest events are searched first, then longer and
 * longer periods: the index on `timestamp` skips what is older.
 */
const WINDOWS_MS = [2 * HOUR_MS, DAY_MS, 12 * DAY_MS]
/** With fewer events and profiles, one statement about all users takes less time than several about times. */
const FEW_ROWS = 500_000

/**
 * The users of a page, without duplicates for aliases, most recently seen first. A user with `text` as a name comes
 * before all others. The caller has waited at the read barrier.
 * @throws ApiError `invalid_request` if a pattern is invalid, `query_too_large`, `overloaded`
 */
export async function listUsers(
  questions: Pick<Questions, 'read'>,
  projectId: string,
  { list, signal, few = FEW_ROWS }: { list: UserList; signal: AbortSignal; few?: number },
): Promise<ListedUser[]> {
  const patterns = findPatterns(list.where, '/where')
  const options = { advice: 'Search for the distinct_id, or try again later.', signal, patterns }
  const read = async (since: number | null) => {
    return (await questions.read(projectId, (context) => queryUsers(context, list, since), options)) as ListedUser[]
  }
  const now = Date.now()
  const hasMany = async () => {
    const [row] = await questions.read(projectId, (context) => queryRows(context, few), options)
    return (row as { found: number }).found >= few
  }
  // An exact name comes first, however long ago it was seen.
  for (const window of list.text === '' && (await hasMany()) ? WINDOWS_MS : []) {
    const found = await read(now - window)
    if (found.length === list.limit) return found
  }
  return await read(null)
}

/** How many events and profiles the project has; of each, at most `limit` are counted. */
function queryRows(context: QueryContext, limit: number): Query {
  const statement = new Statement(context)
  const rows = [context.shards.table('events'), allVersions(context.shards, 'profiles')].map((table) => {
    return `SELECT 1 FROM ${table} WHERE project_id = ${statement.project} LIMIT ${statement.count(limit)}`
  })
  return statement.query(`SELECT toUInt32(count()) AS found FROM (${rows.join(' UNION ALL ')})`)
}

/** @param since epoch ms: only users with an event since then; null: all users */
function queryUsers(context: QueryContext, { text, where, offset, limit }: UserList, since: number | null): Query {
  const statement = new Statement(context)
  const rows = new EventRows(statement)
  const sought = text === '' ? null : statement.text(text)
  const users = selectUsers(statement, sought, since)
  // The zone is only for `timestamp`, which a filter of users cannot use.
  const filter = where ? `WHERE ${buildCondition({ rows, timezone: 'UTC' }, where)}` : ''
  const sql = `SELECT distinct_id AS name, timestamp AS last_seen
    FROM ${rows.ofUsers(users, ['distinct_id', 'timestamp'], since === null)} AS rows ${filter}
    ORDER BY ${sought ? `${isNamed(statement, 'name', sought)} DESC, ` : ''}last_seen DESC, name
    LIMIT ${statement.count(offset)}, ${statement.count(limit)}`
  return statement.query(sql)
}

/** Operand of FROM: the users who have the text, with the columns `distinct_id` and `timestamp` of the latest event. */
function selectUsers(statement: Statement, sought: string | null, since: number | null): string {
  const { shards } = statement.context
  const isUser = `distinct_id != '${NOBODY}' AND NOT ${groupSql('distinct_id')}`
  const keys = `project_id = ${statement.project}`
  const recent = since === null ? '' : ` AND timestamp >= ${statement.number(since)}`
  const sources = [
    `SELECT distinct_id, max(timestamp) AS seen FROM ${shards.table('events')}
      PREWHERE ${keys}${recent} WHERE ${isUser} GROUP BY distinct_id`,
  ]
  if (since === null) {
    const profiles = newestRows(shards, 'profiles', { keys, columns: ['created_at'] })
    sources.push(`SELECT distinct_id, toFloat64(${NEVER}) AS seen FROM ${profiles} WHERE ${keys} AND ${isUser}`)
  }
  const names = `SELECT ${userSql(statement)} AS person, e.seen AS seen
    FROM (${sources.join(' UNION ALL ')}) AS e ${joinAliases(statement)}`
  return `(SELECT person AS distinct_id, max(seen) AS timestamp FROM (${names})
    ${sought ? `WHERE ${hasSought(statement, 'person', sought)}` : ''} GROUP BY person)`
}

/** SQL for whether the text is a user's name or alias. */
function isNamed(statement: Statement, user: string, sought: string): string {
  const isName = `${user} = ${sought}`
  if (!statement.context.hasAliases) return isName
  return `(${isName} OR ${user} ${statement.global}IN (${selectByAlias(statement, `alias = ${sought}`)}))`
}

/** SQL for whether a user's name, aliases or properties contain the text. */
function hasSought(statement: Statement, user: string, sought: string): string {
  const { context, project } = statement
  const keys = `project_id = ${project}`
  const profiles = newestRows(context.shards, 'profiles', { keys, columns: ['properties'] })
  const users = [`SELECT distinct_id FROM ${profiles} WHERE ${keys} AND ${hasText('properties', sought)}`]
  if (context.hasAliases) users.push(selectByAlias(statement, holds('alias', sought)))
  return `(${holds(user, sought)} OR ${user} ${statement.global}IN (${users.join(' UNION ALL ')}))`
}

/** @param condition on `alias` */
function selectByAlias(statement: Statement, condition: string): string {
  return `SELECT user FROM (${selectAliasEnds(statement)}) WHERE ${condition}`
}

function holds(text: string, sought: string): string {
  return `positionCaseInsensitiveUTF8(${text}, ${sought}) > 0`
}

/**
 * SQL for whether a string at the top level of properties contains the text, ignoring case. Most properties are
 * excluded without being parsed, and only those that ClickHouse's parser rejects are repaired.
 */
function hasText(properties: string, sought: string): string {
  const member = unmarkToken('m.2')
  const found = someMember(properties, `${isText('m.2')} AND ${holds(decodeText('m.2', false), sought)}`)
  const foundRepaired = someMember(
    repairText(properties),
    `${isText(member)} AND ${holds(decodeText(member, true), sought)}`,
  )
  const may = `(${holds(properties, sought)} OR position(${properties}, '\\\\') > 0)`
  return `(${may} AND (${found} OR (NOT isValidJSON(${properties}) AND ${foundRepaired})))`
}

/** @param condition on `m.2`, the token of a member */
function someMember(object: string, condition: string): string {
  return `arrayExists(m -> ${condition}, JSONExtractKeysAndValuesRaw(${object}))`
}

/**
 * Parses a filter of users from a query parameter.
 * @throws ApiError `invalid_request`
 */
export function parseUserFilter(text: string): Filter {
  const faults = new Faults()
  const filter = parseJsonOrText(text)
  const check = new FilterCheck((path, message) => faults.add(path, message))
  if (typeof filter === 'string') faults.add('/where', 'must be a filter as JSON, such as ["is","user.plan",["pro"]]')
  else check.check(filter, '/where')
  faults.throwIfAny()
  checkFields(filter as Filter, '/where', faults)
  faults.throwIfAny()
  return filter as Filter
}

/** Adds a fault for each field that users do not have. */
function checkFields(filter: Filter, path: string, faults: Faults): void {
  if (filter[0] === 'not') checkFields(filter[1], `${path}/1`, faults)
  else if (filter[0] === 'and' || filter[0] === 'or') {
    for (const [i, one] of filter[1].entries()) checkFields(one, `${path}/1/${i}`, faults)
  } else {
    const [source = ''] = filter[0] === 'session_has' ? [] : splitField(filter[1] as FieldName)
    if (source !== 'user' && source !== 'distinct_id') {
      faults.add(`${path}/1`, 'must be distinct_id or a property of the user, such as user.plan')
    }
  }
}

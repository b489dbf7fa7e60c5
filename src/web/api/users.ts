import { formatExactJson } from '../../contract/exact-json.js'
import type { Filter } from '../../contract/filters.js'
import type { Properties, Session, SessionPage, User } from '../../contract/responses.js'
import type { ErasedUsers, ListedUser as StoredUser, UserAliases } from '../../contract/schemas.js'
import type { Warning } from '../../contract/warning.js'
import { BASE_URL } from '../lib/base-url.js'
import { type Exact, parseAllExact, parseExact } from '../lib/json-text.js'
import { CallError, call, readExact, toPath } from './call.js'

/** A user, found by any of its names. */
export interface FoundUser {
  /** the canonical name, which the others are aliases of */
  distinctId: string
  aliases: string[]
  /** whether there are more aliases than listed */
  hasMoreAliases: boolean
  /** null if only events or sessions of the user exist */
  profile: Exact<User> | null
}

/** A user in a list, with or without a profile. */
export type ListedUser = Exact<Required<StoredUser>>

/** @throws CallError */
export async function readUser(userId: string, signal: AbortSignal): Promise<FoundUser> {
  const [profile, { distinct_id, aliases, hasMore }] = await Promise.all([
    readProfile(userId, signal),
    call<UserAliases>('GET', toPath('users', userId, '/aliases'), undefined, signal),
  ])
  return { distinctId: distinct_id, aliases, hasMoreAliases: hasMore, profile }
}

/** The profile of a user, by any of its names; null if there is none. */
async function readProfile(userId: string, signal: AbortSignal): Promise<Exact<User> | null> {
  try {
    return parseExact<User>((await readExact(toPath('users', userId), signal)).get('user'))
  } catch (error) {
    if (error instanceof CallError && error.status === 404) return null
    throw error
  }
}

/** Which users to list. */
export interface UsersQuery {
  /** what a name, an alias or a property contains */
  search?: string
  /** by `distinct_id` and properties of users */
  filter?: Filter | null
  page?: number
  limit: number
}

/** The matching users with events or a profile, most recently seen first. @throws CallError */
export async function listUsers(
  { search = '', filter = null, page = 1, limit }: UsersQuery,
  signal?: AbortSignal,
): Promise<{ users: ListedUser[]; hasMore: boolean; warnings: Warning[] }> {
  const query = new URLSearchParams({ order: 'last_seen', page: String(page), limit: String(limit) })
  if (search) query.set('search', search)
  if (filter) query.set('where', formatExactJson(filter))
  const members = await readExact(`/public/users?${query}`, signal)
  return {
    users: parseAllExact<Required<StoredUser>>(members.get('users')),
    hasMore: members.get('hasMore') === 'true',
    warnings: JSON.parse(members.get('warnings') ?? '[]'),
  }
}

/** Names that fit into the URL of a call: a filter has up to 8000 characters. */
const MAX_NAMES_LENGTH = 6000

/** The profiles of users; those without one are missing. @param ids names of users @throws CallError */
export async function readProfiles(ids: string[], signal?: AbortSignal): Promise<Map<string, Properties>> {
  const profiles = new Map<string, Properties>()
  for (const part of splitByLength(ids)) {
    const filter: Filter = ['is', 'distinct_id', part]
    const { users } = await listUsers({ filter, limit: part.length }, signal)
    for (const { distinct_id, properties } of users) profiles.set(distinct_id, properties)
  }
  return profiles
}

/** Splits names so that each part fits into a URL. */
function splitByLength(ids: string[]): string[][] {
  const parts: string[][] = []
  let length = Number.POSITIVE_INFINITY
  for (const id of ids) {
    const size = encodeURIComponent(JSON.stringify([id])).length
    length += size
    if (length > MAX_NAMES_LENGTH) {
      parts.push([])
      length = size
    }
    parts.at(-1)?.push(id)
  }
  return parts
}

/** Which sessions to list. */
export interface SessionsQuery {
  distinctId: string
  limit: number
  /** the earliest start, epoch ms */
  from?: number
}

/** The sessions of a user, the latest start first. @throws CallError */
export async function listSessions(
  { distinctId, limit, from = 0 }: SessionsQuery,
  signal: AbortSignal,
): Promise<{ sessions: Exact<Session>[] } & Pick<SessionPage, 'hasMore'>> {
  const query = new URLSearchParams({ distinct_id: distinctId, limit: String(limit), from: String(from) })
  const members = await readExact(`/public/sessions?${query}`, signal)
  return {
    sessions: parseAllExact<Session>(members.get('sessions')),
    hasMore: members.get('hasMore') === 'true',
  }
}

/** @throws CallError `not_found` */
export async function readSession(id: string, signal: AbortSignal): Promise<Session> {
  return (await call<{ session: Session }>('GET', toPath('sessions', id), undefined, signal)).session
}

/** Erases a user and all of its data. @throws CallError */
export async function eraseUser(distinctId: string): Promise<ErasedUsers> {
  return await call<ErasedUsers>('POST', '/public/users/erase', { distinct_ids: [distinctId] })
}

/** Whether the page can remove an alias: `.` and `..` cannot be path segments of a URL. */
export function canRemove(alias: string): boolean {
  return alias !== '.' && alias !== '..'
}

/** Removes an alias of a user. @throws CallError */
export async function removeAlias(distinctId: string, alias: string): Promise<void> {
  await call('DELETE', toPath('users', distinctId, `/aliases/${encodeURIComponent(alias)}`))
}

/** The URL from which all data of a user can be downloaded. */
export function toExportUrl(distinctId: string): string {
  return `${BASE_URL}${toPath('users', distinctId, '/export')}`
}

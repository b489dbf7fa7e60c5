import { Readable } from 'node:stream'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Shards } from '../clickhouse/shards.js'
import { ApiError, invalidField } from '../contract/errors.js'
import { MEDIA_TYPES } from '../contract/formats.js'
import type { ErasedUsers } from '../contract/schemas.js'
import { ANONYMOUS } from '../contract/user-names.js'
import { getSender } from '../http/admission/authenticate.js'
import { parseIdempotencyKey } from '../http/admission/idempotency-key.js'
import { identifyWarnings, profileWarnings, withWarnings } from '../http/field-warnings.js'
import { readJson } from '../json/value.js'
import { applyOperations, identify, type Profile } from '../model/profile.js'
import { parseOperations } from '../model/profile-operations.js'
import { readProperties } from '../model/properties.js'
import type { Catalog } from '../questions/catalog.js'
import type { Questions } from '../questions/run.js'
import { listUsers, NEVER, parseUserFilter, type UserList } from '../questions/user-list.js'
import type { Barrier } from '../reads/read-barrier.js'
import type { States } from '../states/state-store.js'
import { withUserToll } from '../states/toll.js'
import { toOffset, wrapRows } from '../store/page.js'
import { readListedUsers, readProfilePage } from '../store/profiles.js'
import type { AliasLinks } from '../users/aliases/alias-links.js'
import type { Aliases } from '../users/aliases/aliases.js'
import { deleteProfile } from '../users/delete-profile.js'
import type { Erased, Erasure } from '../users/erasure/erasure.js'
import type { Purge } from '../users/erasure/purge.js'
import { purgeAndReport } from '../users/erasure/purge-report.js'
import { exportUser } from '../users/export-user.js'
import { readUser } from '../users/read-user.js'
import { CALLS } from './users.calls.js'

interface UsersOptions {
  profiles: States<Profile>
  aliases: Aliases
  barrier: Barrier
}

export interface UserChangesOptions extends UsersOptions {
  links: AliasLinks
  erasure: Erasure
  purge: Purge
  /** whether deleting a user also deletes its events and sessions */
  deletesEvents: boolean
}

export interface UserReadsOptions extends UsersOptions {
  shards: Shards
  questions: Questions
  catalog: Pick<Catalog, 'reviewUsers'>
}

/** Aliases of a user in a response. */
const MAX_ALIASES = 1000

/** Changes, links and erases users. */
export const userChanges: FastifyPluginAsyncTypebox<UserChangesOptions> = async (
  app,
  { profiles, aliases, links, barrier, erasure, purge, deletesEvents },
) => {
  app.post('/users/identify', CALLS.identify, async (request) => {
    const { toll, body, rawBody } = request
    const { projectId, keyClass } = getSender(request)
    const properties = body.properties ? readProperties(readJson(rawBody)?.member('properties')) : null
    const change = (profile: Profile | null) => identify(profile, properties, Date.now())
    await links.changeProfile(projectId, { name: body.distinct_id }, withUserToll(change, toll), { keyClass })
    return { status: 1, error: null, ...withWarnings(identifyWarnings(request)) } as const
  })

  app.post('/users/profile', CALLS.changeProfile, async (request) => {
    const { toll, body, rawBody } = request
    const { projectId, keyClass } = getSender(request)
    const operations = parseOperations(readJson(rawBody)?.member('operations')?.text ?? '')
    const change = (profile: Profile | null) => applyOperations(profile, operations, Date.now())
    const idempotencyKey = parseIdempotencyKey(request)
    // The idempotency key belongs to the name, even if the name resolves to another user when the request is retried.
    const repetition = idempotencyKey && { idempotencyKey, insertId: `key:${idempotencyKey.key}` }
    const of = { keyClass, ...repetition }
    await links.changeProfile(projectId, { name: body.distinct_id }, withUserToll(change, toll), of)
    return { status: 1, error: null, ...withWarnings(profileWarnings(request)) } as const
  })

  app.post('/users/alias', CALLS.aliasUser, async (request) => {
    const { distinct_id, alias } = request.body
    const { projectId, keyClass } = getSender(request)
    if (distinct_id === alias) throw invalidField('/alias', 'must differ from distinct_id')
    // A key that is in a page must not merge two users.
    const link = keyClass === 'secret' ? 'merge' : 'inferred'
    await links.add(projectId, { distinctId: distinct_id, alias, link, caller: { keyClass, toll: request.toll } })
    return { status: 1, error: null } as const
  })

  app.delete('/users/:userId/aliases/:alias', CALLS.takeBackAlias, async ({ projectId, params: { userId, alias } }) => {
    if (!(await links.takeBack(projectId, userId, alias))) throw unknownAlias()
    return { status: 1, error: null } as const
  })

  // Deleting only the profile does not erase the user, so it is not audited.
  const { audit: _, ...plain } = CALLS.deleteUser.config
  const deleteUser = deletesEvents ? CALLS.deleteUser : { ...CALLS.deleteUser, config: plain }
  app.delete('/users/:userId', deleteUser, async ({ projectId, params }) => {
    if (params.userId === ANONYMOUS) {
      throw invalidField('/userId', `must be a user: the events of ${ANONYMOUS} belong to no single user`)
    }
    if (deletesEvents) {
      const { users } = await erasure.erase(projectId, [params.userId])
      if (!users.some(hadData)) throw unknownUser()
    } else {
      if (!(await deleteProfile({ profiles, aliases, barrier }, projectId, params.userId))) throw unknownUser()
    }
    return { status: 1, error: null } as const
  })

  app.post('/users/erase', CALLS.eraseUsers, async ({ projectId, body }) => {
    const { users, unreadableDeadLetters } = await erasure.erase(projectId, [...new Set(body.distinct_ids)])
    return {
      status: 1,
      error: null,
      erased: users.map(({ distinctId, profile, events, sessions, deadLetters }) => {
        return { distinct_id: distinctId, profile, events, sessions, dead_letters: deadLetters }
      }),
      unreadable_dead_letters: unreadableDeadLetters,
      // Purge last, because a purge removes what was deleted before it begins.
      ...(await purgeAndReport(purge, projectId, app.log)),
    } satisfies ErasedUsers
  })
}

/** Lists, reads and exports users. */
export const userReads: FastifyPluginAsyncTypebox<UserReadsOptions> = async (
  app,
  { profiles, aliases, shards, barrier, questions, catalog },
) => {
  app.get('/users/:userId', CALLS.readUser, async ({ projectId, params }, reply) => {
    const user = await readUser({ profiles, aliases }, projectId, params.userId)
    if (user === null) throw unknownUser()
    reply.header('content-type', MEDIA_TYPES.json.contentType)
    return `{"status":1,"error":null,"user":${user}}`
  })

  app.get('/users/:userId/export', CALLS.exportUser, async ({ projectId, params, signal }, reply) => {
    const stored = await barrier.requireProject(projectId)
    const lines = exportUser({ profiles, aliases, shards }, { projectId, distinctId: params.userId, stored }, signal)
    const first = await lines.next()
    if (first.done) throw unknownUser()
    reply.header('content-type', MEDIA_TYPES.ndjson.contentType)
    reply.header('content-disposition', 'attachment; filename="user.ndjson"')
    return Readable.from(chain(first.value, lines), { objectMode: false })
  })

  app.get('/users', CALLS.readUsers, async ({ projectId, query, signal }, reply) => {
    const { limit, page, order, search = '', where } = query
    const filter = where ? parseUserFilter(where) : null
    await barrier.requireProject(projectId)
    const wanted = { projectId, limit, offset: toOffset(page, limit) }
    const isProfiles = order !== 'last_seen' && search === '' && filter === null
    const found = isProfiles ? null : await list({ text: search, where: filter }, wanted, signal)
    const isEmpty = found?.count === 0 && page === 1
    const warned = isEmpty && filter ? await catalog.reviewUsers(projectId, filter) : {}
    const rows = found ? found.rows : await readProfilePage(shards, wanted, signal)
    reply.header('content-type', MEDIA_TYPES.json.contentType)
    return wrapRows(rows, '{"status":1,"error":null,"users":[', (nextId) => {
      const hasMore = found ? found.hasMore : nextId !== null
      return `],${JSON.stringify({ page, limit, hasMore, ...warned }).slice(1)}`
    })
  })

  app.get('/users/:userId/aliases', CALLS.readAliases, async ({ projectId, params }) => {
    const user = await aliases.resolve(projectId, params.userId)
    // They are found level by level (aliases of aliases last), so they can only be sorted together.
    const names = (await aliases.findStoredNames(projectId, user, barrier)).slice(1).flat().sort()
    const listed = names.slice(0, MAX_ALIASES)
    return { status: 1, error: null, distinct_id: user, aliases: listed, hasMore: names.length > MAX_ALIASES }
  })

  async function list(
    which: Pick<UserList, 'text' | 'where'>,
    { projectId, limit, offset }: Wanted,
    signal: AbortSignal,
  ) {
    const found = await listUsers(questions, projectId, { list: { ...which, offset, limit: limit + 1 }, signal })
    const shown = found
      .slice(0, limit)
      .map(({ name, last_seen }) => [name, last_seen === NEVER ? null : last_seen] as const)
    const rows = await readListedUsers(shards, { projectId, lastSeen: new Map(shown) }, signal)
    return { rows, count: found.length, hasMore: found.length > limit }
  }
}

interface Wanted {
  projectId: string
  limit: number
  offset: number
}

async function* chain(first: Buffer, rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  yield first
  yield* rest
}

function hadData({ profile, events, sessions, deadLetters, aliases }: Erased): boolean {
  return profile || events + sessions + deadLetters + aliases > 0
}

function unknownAlias(): ApiError {
  return new ApiError('not_found', 'The user has no such alias. GET /public/users/:userId/aliases lists them.')
}

function unknownUser(): ApiError {
  return new ApiError('not_found', 'There is no user with this distinct_id.')
}

import type { Static } from '@sinclair/typebox'
import { AliasParams, NoQuery, UserParams, UsersQuery } from '../contract/query-schemas.js'
import {
  AliasBody,
  Done,
  DoneOrWarned,
  EraseBody,
  ErasedUsers,
  IdentifyBody,
  OneUser,
  ProfileBody,
  UserAliases,
  UserPage,
} from '../contract/schemas.js'
import { describeCalls, EXAMPLE_EVENT, EXAMPLE_TIME } from '../http/openapi/description.js'
import { MAX_STATE_WEIGHT } from '../json/complexity.js'

const user = {
  distinct_id: 'ada',
  properties: { name: 'Ada', plan: 'pro' },
  created_at: EXAMPLE_TIME,
  updated_at: EXAMPLE_TIME,
}

/** Route options of the calls with which pages change users. */
const CHANGE = { access: 'send', changesUsers: true } as const
const STATE = { ...CHANGE, maxWeight: MAX_STATE_WEIGHT }

const usersErased = (count: number) =>
  ({ action: 'users_erased', changes: { users: { from: null, to: count } } }) as const

export const CALLS = describeCalls('Users', {
  identify: {
    schema: { body: IdentifyBody, response: { 200: DoneOrWarned } },
    config: STATE,
    summary: 'Create a profile, or replace all its properties',
    description:
      '`properties` replace all that the user had; `$set` of `/users/profile` sets some and leaves the others alone. ' +
      'Without `properties`, the profile is created if it does not exist, and its properties stay as they are. ' +
      '`warnings` names fields of the body that are ignored.',
    example: { distinct_id: 'ada', properties: { name: 'Ada', visits: 1, tags: ['early'] } },
    errors: ['overloaded'],
  },
  changeProfile: {
    schema: { body: ProfileBody, response: { 200: DoneOrWarned } },
    config: STATE,
    summary: 'Change a profile without overwriting it',
    description:
      '`operations` holds one or more of `$set`, `$add`, `$append`, `$set_once`, `$unset`, `$prepend`, `$union` and `$remove`. ' +
      'They are applied in this order and atomically: all of them or none. `warnings` names fields of the body that are ignored.',
    example: {
      distinct_id: 'ada',
      operations: {
        $set: { plan: 'pro' },
        $add: { visits: 1 },
        $append: { tags: 'paying' },
        $set_once: { source: 'search' },
        $unset: ['trial'],
        $prepend: { recent: 'pricing' },
        $union: { seats: ['a', 'b'] },
        $remove: { tags: 'early' },
      },
    },
    isIdempotent: true,
    errors: ['not_numeric', 'not_array', 'overloaded'],
  },
  aliasUser: {
    schema: { body: AliasBody, response: { 200: Done } },
    config: CHANGE,
    summary: 'Add an alias to a user',
    description:
      'Applies to past and future events. Nothing that is stored changes: events keep the name they were sent with. ' +
      'An alias belongs to one user; a user that has aliases can become one. The user gets the properties of the alias’s own ' +
      'profile that it does not have. With a write key, only a name that was never identified can become an alias.',
    example: { distinct_id: 'ada', alias: 'device-7' },
    errors: ['alias_conflict'],
  },
  deleteUser: {
    schema: { params: UserParams, querystring: NoQuery, response: { 200: Done } },
    summary: 'Delete a profile permanently',
    description: 'If the service runs with `DELETE_USER_EVENTS=true`, the user’s events and sessions are deleted, too.',
    parameters: { userId: 'ada' },
    errors: ['not_found', 'overloaded'],
    audit: () => usersErased(1),
  },
  takeBackAlias: {
    schema: { params: AliasParams, querystring: NoQuery, response: { 200: Done } },
    summary: 'Remove an alias',
    description:
      'Undoes the link completely: the alias is a separate user again, with its own profile and aliases, and the user ' +
      'loses the properties it got from the alias, unless they have changed since.',
    parameters: { userId: 'ada', alias: 'device-7' },
    errors: ['not_found', 'overloaded'],
  },
  eraseUsers: {
    schema: { querystring: NoQuery, body: EraseBody },
    audit: ({ body }: { body: Static<typeof EraseBody> }) => usersErased(new Set(body.distinct_ids).size),
    summary: 'Erase up to 100 users with all of their data',
    description:
      '`gone_at` says when the data has left the disk. It is null if that takes longer than the call, or has failed so far; `purge_error` then says why.',
    example: { distinct_ids: ['grace'] },
    response: {
      schema: ErasedUsers,
      example: {
        erased: [{ distinct_id: 'grace', profile: false, events: 1, sessions: 0, dead_letters: 0 }],
        unreadable_dead_letters: 0,
        gone_at: EXAMPLE_TIME,
        purge_error: null,
      },
    },
    errors: ['overloaded'],
  },
  readUser: {
    schema: { params: UserParams, querystring: NoQuery },
    summary: 'Read one profile',
    parameters: { userId: 'ada' },
    response: { schema: OneUser, example: { user } },
    errors: ['not_found'],
  },
  exportUser: {
    schema: { params: UserParams, querystring: NoQuery },
    summary: 'Export all data of a user',
    description:
      'As NDJSON: a line with `"type":"profile"`, then one for each session, then one for each event, each with the same fields ' +
      'as in the other calls. If the export fails after it has begun, the connection breaks before the response is complete.',
    parameters: { userId: 'ada' },
    response: {
      type: 'ndjson',
      example: `${JSON.stringify({ type: 'profile', ...user })}\n${JSON.stringify({ type: 'event', ...EXAMPLE_EVENT })}\n`,
    },
    errors: ['not_found'],
  },
  readUsers: {
    schema: { querystring: UsersQuery },
    summary: 'Read pages of profiles, or list and search users',
    description:
      'Profiles by their `distinct_id`. With `order`, `search` or `where`: all users with events or a profile, most recently seen first; ' +
      'a user whose name or alias equals `search` comes before all others. If no user matches `where`, `warnings` names what does ' +
      'not exist in it.',
    parameters: { limit: 10, page: 1, order: 'last_seen', search: 'ada', where: '["is","user.plan",["pro"]]' },
    response: {
      schema: UserPage,
      example: { users: [{ ...user, last_seen: EXAMPLE_TIME }], page: 1, limit: 10, hasMore: false },
    },
    errors: ['query_too_large', 'overloaded'],
  },
  readAliases: {
    schema: { params: UserParams, querystring: NoQuery },
    summary: 'Read the aliases of a user',
    description: 'At most 1000, by any of the user’s names. The list is empty if the user has none or is unknown.',
    parameters: { userId: 'ada' },
    response: { schema: UserAliases, example: { distinct_id: 'ada', aliases: ['device-7'], hasMore: false } },
  },
})

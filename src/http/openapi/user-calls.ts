import { Changed, Done, DoneOrWarned, ErasedUsers, OneUser, UserAliases, UserPage } from '../../contract/schemas.js'
import type { Call } from './call.js'

const DAY_MS = 1_733_788_800_000

const done = { schema: Done, example: { status: 1, error: null } }
const doneOrWarned = { ...done, schema: DoneOrWarned }
const user = { distinct_id: 'ada', properties: { name: 'Ada', plan: 'pro' }, created_at: DAY_MS, updated_at: DAY_MS }
const event = {
  eventId: '0193ae30-7c42-7000-8000-00005eed1234',
  event: 'signed up',
  distinct_id: 'ada',
  properties: { plan: 'pro', price: 9.9 },
  timestamp: DAY_MS,
}

/** The calls about users, by method and path. */
export const USER_CALLS: Record<string, Call> = {
  'POST /public/users/identify': {
    id: 'identify',
    tag: 'Users',
    summary: 'Create a profile, or replace all its properties',
    description:
      '`properties` replace all that the user had; `$set` of `/users/profile` sets some and leaves the others alone. ' +
      'Without `properties`, the profile is created if it does not exist, and its properties stay as they are. ' +
      '`warnings` names fields of the body that are ignored.',
    access: 'send',
    example: { distinct_id: 'ada', properties: { name: 'Ada', visits: 1, tags: ['early'] } },
    response: doneOrWarned,
    errors: ['overloaded'],
  },
  'POST /public/users/profile': {
    id: 'changeProfile',
    tag: 'Users',
    summary: 'Change a profile without overwriting it',
    description:
      '`operations` holds one or more of `$set`, `$add`, `$append`, `$set_once`, `$unset`, `$prepend`, `$union` and `$remove`. ' +
      'They are applied in this order and atomically: all of them or none. `warnings` names fields of the body that are ignored.',
    access: 'send',
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
    response: doneOrWarned,
    errors: ['not_numeric', 'not_array', 'overloaded'],
  },
  'POST /public/users/alias': {
    id: 'aliasUser',
    tag: 'Users',
    summary: 'Make a name another name of a user',
    description:
      'For the future and the past. Nothing that is stored changes: events keep the name they were sent with. ' +
      'An alias belongs to one user; a user that has aliases can become one. The user gets the properties of the alias’s own ' +
      'profile that it does not have. With a write key, only a name that nobody identified can become an alias.',
    access: 'send',
    example: { distinct_id: 'ada', alias: 'device-7' },
    response: done,
    errors: ['alias_conflict'],
  },
  'POST /public/users/batch': {
    id: 'changeUsers',
    tag: 'Users',
    summary: 'Make 1 to 1000 changes of profiles and aliases, in their order',
    description:
      'For imports: a change with a `timestamp` does not overwrite a property that was set or removed later. A change ' +
      'that is refused does not affect the others; `rejected` names it by its index. An alias without `merge` is made only if it is ' +
      'not a user itself, and one that already names another user is left as it is. Profile changes may name groups (`$group:…`).',
    access: 'manage',
    example: {
      changes: [
        { distinct_id: 'ada', alias: 'device-7' },
        {
          distinct_id: 'ada',
          identified: true,
          operations: { $set: { plan: 'pro' } },
          timestamp: DAY_MS,
          insert_id: 'c-1',
        },
      ],
    },
    response: { schema: Changed, example: { status: 1, error: null, accepted: 2, rejected: [] } },
    errors: ['overloaded'],
  },
  'DELETE /public/users/:userId': {
    id: 'deleteUser',
    tag: 'Users',
    summary: 'Delete a profile permanently',
    description: 'If the service runs with `DELETE_USER_EVENTS=true`, the user’s events and sessions are deleted, too.',
    access: 'manage',
    parameters: { userId: 'ada' },
    response: done,
    errors: ['invalid_request', 'not_found', 'overloaded'],
  },
  'DELETE /public/users/:userId/aliases/:alias': {
    id: 'takeBackAlias',
    tag: 'Users',
    summary: 'Remove an alias',
    description:
      'Everything is as if it had never been made: the alias is a user of its own again, with its own profile and aliases, and ' +
      'the user loses the properties it got from it, unless they were changed since.',
    access: 'manage',
    parameters: { userId: 'ada', alias: 'device-7' },
    response: done,
    errors: ['invalid_request', 'not_found', 'overloaded'],
  },
  'POST /public/users/erase': {
    id: 'eraseUsers',
    tag: 'Users',
    summary: 'Erase up to 100 users with all of their data',
    description:
      '`gone_at` says when the data has left the disk. It is null if that takes longer than the call, or has failed so far; `purge_error` then says why.',
    access: 'manage',
    example: { distinct_ids: ['grace'] },
    response: {
      schema: ErasedUsers,
      example: {
        status: 1,
        error: null,
        erased: [{ distinct_id: 'grace', profile: false, events: 1, sessions: 0, dead_letters: 0 }],
        unreadable_dead_letters: 0,
        gone_at: DAY_MS,
        purge_error: null,
      },
    },
    errors: ['overloaded'],
  },
  'GET /public/users/:userId': {
    id: 'readUser',
    tag: 'Users',
    summary: 'Read one profile',
    access: 'read',
    parameters: { userId: 'ada' },
    response: { schema: OneUser, example: { status: 1, error: null, user } },
    errors: ['invalid_request', 'not_found'],
  },
  'GET /public/users/:userId/export': {
    id: 'exportUser',
    tag: 'Users',
    summary: 'Export all data of a user',
    description:
      'As NDJSON: a line with `"type":"profile"`, then one for each session, then one for each event, each with the same fields ' +
      'as in the other calls. If the export fails after it has begun, the connection breaks before the response is complete.',
    access: 'read',
    parameters: { userId: 'ada' },
    response: {
      schema: 'ndjson',
      example: `${JSON.stringify({ type: 'profile', ...user })}\n${JSON.stringify({ type: 'event', ...event })}\n`,
    },
    errors: ['invalid_request', 'not_found'],
  },
  'GET /public/users': {
    id: 'readUsers',
    tag: 'Users',
    summary: 'Read pages of profiles, or list and search users',
    description:
      'Profiles by their `distinct_id`. With `order`, `search` or `where`: everybody with events or a profile, most recently seen first; ' +
      'a user of exactly the name or alias that `search` is comes before all others.',
    access: 'read',
    parameters: { limit: 10, page: 1, order: 'last_seen', search: 'ada', where: '["is","user.plan",["pro"]]' },
    response: {
      schema: UserPage,
      example: {
        status: 1,
        error: null,
        users: [{ ...user, last_seen: DAY_MS }],
        page: 1,
        limit: 10,
        hasMore: false,
      },
    },
    errors: ['invalid_request', 'query_too_large', 'overloaded'],
  },
  'GET /public/users/:userId/aliases': {
    id: 'readAliases',
    tag: 'Users',
    summary: 'Read the aliases of a user',
    description: 'At most 1000, by any of the user’s names. The list is empty if the user has none or is unknown.',
    access: 'read',
    parameters: { userId: 'ada' },
    response: {
      schema: UserAliases,
      example: { status: 1, error: null, distinct_id: 'ada', aliases: ['device-7'], hasMore: false },
    },
    errors: ['invalid_request'],
  },
}

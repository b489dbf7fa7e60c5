import type { TSchema } from '@sinclair/typebox'
import type { ErrorCode } from '../../contract/errors.js'
import type { RowFormat } from '../../contract/formats.js'
import {
  Accepted,
  Done,
  ErasedUsers,
  EventPage,
  OneEvent,
  OneSession,
  OneUser,
  Ready,
  SessionPage,
  UserPage,
} from '../../contract/schemas.js'
import type { KeyKind } from '../../keys/keys.js'

/** What the documentation says of a call besides its path and the schemas that it checks. */
export interface Call {
  /** unique, for the names of generated clients */
  id: string
  tag: 'Events' | 'Users' | 'Sessions' | 'Operation'
  summary: string
  description?: string
  /** null: none is needed */
  key: KeyKind | null
  /** of the body */
  example?: object
  /** of parameters in path and query, by their names */
  parameters?: Record<string, string | number>
  isIdempotent?: true
  /** what 200 answers; a word where it is no JSON */
  answer: { schema: TSchema | 'text' | 'ndjson'; example: unknown }
  /** what 200 answers on request */
  formats?: readonly RowFormat[]
  /** headers of a success, and what they say */
  headers?: Record<string, string>
  /** of this call alone; what every call with a key, a body or parameters may answer is added */
  errors: ErrorCode[]
}

const EVENT_ID = '0193ae30-7c42-7000-8000-00005eed1234'
const DAY_MS = 1_733_788_800_000

const done = { schema: Done, example: { status: 1, error: null } }
const event = {
  eventId: EVENT_ID,
  event: 'signed up',
  distinct_id: 'ada',
  properties: { plan: 'pro', price: 9.9 },
  timestamp: DAY_MS,
}
const user = { distinct_id: 'ada', properties: { name: 'Ada', plan: 'pro' }, created_at: DAY_MS, updated_at: DAY_MS }
const session = { distinct_id: 'ada', session_id: 'visit-7' }
const visit = {
  ...session,
  state: 'completed',
  properties: { referrer: 'https://example.com', duration: 95 },
  duration: 95,
  started_at: DAY_MS,
  updated_at: DAY_MS + 95_000,
  ended_at: DAY_MS + 95_000,
}

/** By method and path, as the routes are registered. */
export const CALLS: Record<string, Call> = {
  'POST /public/track': {
    id: 'track',
    tag: 'Events',
    summary: 'Take one event',
    description: 'Answered once the event is durable.',
    key: 'secret',
    example: {
      event: 'signed up',
      distinct_id: 'ada',
      properties: { plan: 'pro', price: 9.9 },
      timestamp: DAY_MS,
    },
    isIdempotent: true,
    answer: done,
    headers: { 'x-event-id': 'The event’s `eventId`.' },
    errors: ['overloaded'],
  },
  'POST /public/track/batch': {
    id: 'trackBatch',
    tag: 'Events',
    summary: 'Take 1 to 1000 events, all or none',
    description:
      'One invalid event stores nothing; `details` names every invalid one by its index, at most 100 of them.',
    key: 'secret',
    example: {
      events: [
        { event: 'signed up', distinct_id: 'ada', timestamp: DAY_MS },
        { event: 'order paid', distinct_id: 'grace', properties: { total: 12.5 } },
      ],
    },
    isIdempotent: true,
    answer: { schema: Accepted, example: { status: 1, error: null, accepted: 2 } },
    errors: ['too_many_events', 'overloaded'],
  },
  'GET /public/events': {
    id: 'readEvents',
    tag: 'Events',
    summary: 'Give events out in the order of their acceptance, or the newest first',
    description:
      'A walk by `page` or by `cursor`, which is the `next` of an earlier answer, never skips and never repeats an event. Every event whose ' +
      'call was answered before is there; where ClickHouse cannot catch up within 5 s, `pending` says how many are missing. As NDJSON, CSV ' +
      'and Parquet, by `format` or by `Accept`, the answer holds rows only, and the other fields are headers. An answer is sent while it is ' +
      'read; where that fails after its beginning, the connection breaks before the answer is complete. With a filter that finds little in the time, a ' +
      'page asked for without `page` holds what was found, perhaps nothing, and a `next` from which the search resumes.',
    key: 'secret',
    parameters: { limit: 10, page: 1 },
    answer: {
      schema: EventPage,
      example: {
        status: 1,
        error: null,
        events: [event],
        page: 1,
        limit: 10,
        hasMore: false,
        next: null,
        pending: 0,
      },
    },
    formats: ['ndjson', 'csv', 'parquet'],
    headers: {
      'x-next-cursor': '`next`, where the answer holds rows only; absent where there is none.',
      'x-has-more': '`hasMore`, where the answer holds rows only.',
      'x-pending': '`pending`, where the answer holds rows only.',
    },
    errors: ['invalid_request'],
  },
  'GET /public/events/:eventId': {
    id: 'readEvent',
    tag: 'Events',
    summary: 'Give one event',
    key: 'secret',
    parameters: { eventId: EVENT_ID },
    answer: { schema: OneEvent, example: { status: 1, error: null, event } },
    errors: ['invalid_request', 'not_found'],
  },
  'PUT /public/events/:eventId': {
    id: 'editEvent',
    tag: 'Events',
    summary: 'Replace the properties of an event',
    description: 'Holds at once.',
    key: 'secret',
    parameters: { eventId: EVENT_ID },
    example: { properties: { plan: 'free' } },
    answer: done,
    errors: ['not_found'],
  },
  'DELETE /public/events/:eventId': {
    id: 'deleteEvent',
    tag: 'Events',
    summary: 'Delete an event',
    description: 'Holds at once.',
    key: 'secret',
    parameters: { eventId: EVENT_ID },
    answer: done,
    errors: ['not_found'],
  },
  'POST /public/users/identify': {
    id: 'identify',
    tag: 'Users',
    summary: 'Create a profile, or overwrite its properties',
    description: 'Without `properties` it makes sure that the profile exists, and leaves its properties alone.',
    key: 'secret',
    example: { distinct_id: 'ada', properties: { name: 'Ada', visits: 1, tags: ['early'] } },
    answer: done,
    errors: ['overloaded'],
  },
  'POST /public/users/profile': {
    id: 'changeProfile',
    tag: 'Users',
    summary: 'Change a profile without overwriting it',
    description:
      '`operations` holds one or more of `$set`, `$add`, `$append`, `$set_once`, `$unset`, `$prepend`, `$union` and `$remove`; all of them are carried out, ' +
      'in this order and in one step, or none.',
    key: 'secret',
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
    answer: done,
    errors: ['not_numeric', 'not_array', 'overloaded'],
  },
  'DELETE /public/users/:userId': {
    id: 'deleteUser',
    tag: 'Users',
    summary: 'Delete a profile for good',
    description: 'Where the service runs with `DELETE_USER_EVENTS=true`, the user’s events and sessions too.',
    key: 'secret',
    parameters: { userId: 'ada' },
    answer: done,
    errors: ['not_found', 'overloaded'],
  },
  'POST /public/users/erase': {
    id: 'eraseUsers',
    tag: 'Users',
    summary: 'Erase up to 100 users with all that there is of them',
    description:
      '`gone_at` says when it has left the disk; null where that takes longer than the answer, or does not succeed for now, as `purge_error` says.',
    key: 'secret',
    example: { distinct_ids: ['grace'] },
    answer: {
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
    summary: 'Give one profile',
    key: 'secret',
    parameters: { userId: 'ada' },
    answer: { schema: OneUser, example: { status: 1, error: null, user } },
    errors: ['invalid_request', 'not_found'],
  },
  'GET /public/users/:userId/export': {
    id: 'exportUser',
    tag: 'Users',
    summary: 'Give all that there is of a user',
    description:
      'As NDJSON: a line with `"type":"profile"`, then one for each session, then one for each event, each with the fields that it has ' +
      'elsewhere. Where the answer fails after its beginning, the connection breaks before it is complete.',
    key: 'secret',
    parameters: { userId: 'ada' },
    answer: {
      schema: 'ndjson',
      example: `${JSON.stringify({ type: 'profile', ...user })}\n${JSON.stringify({ type: 'event', ...event })}\n`,
    },
    errors: ['invalid_request', 'not_found'],
  },
  'GET /public/users': {
    id: 'readUsers',
    tag: 'Users',
    summary: 'Give pages of profiles',
    key: 'secret',
    parameters: { limit: 10, page: 1 },
    answer: {
      schema: UserPage,
      example: { status: 1, error: null, users: [user], page: 1, limit: 10, hasMore: false },
    },
    errors: ['invalid_request'],
  },
  'POST /public/sessions/start': {
    id: 'startSession',
    tag: 'Sessions',
    summary: 'Begin a session',
    description: 'For one that is active already, merges its properties.',
    key: 'public',
    example: { ...session, properties: { referrer: 'https://example.com' } },
    answer: done,
    errors: ['session_ended', 'session_owner_mismatch', 'overloaded'],
  },
  'POST /public/sessions/update': {
    id: 'updateSession',
    tag: 'Sessions',
    summary: 'Say that a session goes on',
    description: 'Merges its properties; a numeric `duration` becomes the session’s, which never goes down.',
    key: 'public',
    example: { ...session, properties: { duration: 95 } },
    answer: done,
    errors: ['not_found', 'session_ended', 'session_owner_mismatch', 'overloaded'],
  },
  'POST /public/sessions/end': {
    id: 'endSession',
    tag: 'Sessions',
    summary: 'Complete a session',
    key: 'public',
    example: session,
    answer: done,
    errors: ['not_found', 'session_owner_mismatch', 'overloaded'],
  },
  'GET /public/sessions/:sessionId': {
    id: 'readSession',
    tag: 'Sessions',
    summary: 'Give one session',
    key: 'secret',
    parameters: { sessionId: session.session_id },
    answer: {
      schema: OneSession,
      example: {
        status: 1,
        error: null,
        session: visit,
      },
    },
    errors: ['invalid_request', 'not_found'],
  },
  'GET /public/sessions': {
    id: 'readSessions',
    tag: 'Sessions',
    summary: 'Give pages of sessions, the one that started last first',
    description: 'While sessions start, pages move on by as many; `to` keeps those out of a walk.',
    key: 'secret',
    parameters: { limit: 10, page: 1 },
    answer: {
      schema: SessionPage,
      example: { status: 1, error: null, sessions: [visit], page: 1, limit: 10, hasMore: false },
    },
    errors: ['invalid_request'],
  },
  'GET /health/live': {
    id: 'live',
    tag: 'Operation',
    summary: 'Whether the process serves',
    key: null,
    answer: done,
    errors: [],
  },
  'GET /health/ready': {
    id: 'ready',
    tag: 'Operation',
    summary: 'Whether journal and store answer',
    description: 'Where one does not, the 503 says in the same fields which.',
    key: null,
    answer: {
      schema: Ready,
      example: { ...done.example, journal: 'ready', store: 'ready' },
    },
    errors: ['unavailable'],
  },
  'GET /metrics': {
    id: 'metrics',
    tag: 'Operation',
    summary: 'Figures for Prometheus',
    key: null,
    answer: {
      schema: 'text',
      example:
        '# HELP tallyhouse_events_accepted_total Events that are durable in the journal.\n# TYPE tallyhouse_events_accepted_total counter\ntallyhouse_events_accepted_total 12416\n',
    },
    errors: [],
  },
}

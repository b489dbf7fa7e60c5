import {
  Accepted,
  DeletedBatches,
  Done,
  EventPage,
  OneEvent,
  OneSession,
  Ready,
  SessionPage,
} from '../../contract/schemas.js'
import type { Call } from './call.js'
import { DEAD_LETTER_CALLS } from './dead-letter-calls.js'
import { KEY_CALLS } from './key-calls.js'
import { PROJECT_CALLS } from './project-calls.js'
import { QUESTION_CALLS } from './question-calls.js'
import { SAVED_CALLS } from './saved-calls.js'
import { USER_CALLS } from './user-calls.js'

const EVENT_ID = '0193ae30-7c42-7000-8000-00005eed1234'
const DAY_MS = 1_733_788_800_000

const BATCH_IDS =
  'What the request has stored: one id, or several separated by commas, for `POST /public/events/delete`; `none` if the ' +
  '`insert_id`s of all its events were known. A retry with the same `Idempotency-Key` has the same.'

const done = { schema: Done, example: { status: 1, error: null } }
const event = {
  eventId: EVENT_ID,
  event: 'signed up',
  distinct_id: 'ada',
  properties: { plan: 'pro', price: 9.9 },
  timestamp: DAY_MS,
}
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

/** The descriptions of calls, by method and path as the routes are registered. */
export const CALLS: Record<string, Call> = {
  ...QUESTION_CALLS,
  ...SAVED_CALLS,
  ...PROJECT_CALLS,
  ...KEY_CALLS,
  ...DEAD_LETTER_CALLS,
  ...USER_CALLS,
  'POST /public/track': {
    id: 'track',
    tag: 'Events',
    summary: 'Ingest one event',
    description:
      'Acknowledged once the event is durable. With `insert_id`, it is stored once, however often it is sent within 7 days, alone or ' +
      'in a batch; a repetition has the same response, without `x-event-id`.',
    access: 'send',
    example: {
      event: 'signed up',
      distinct_id: 'ada',
      properties: { plan: 'pro', price: 9.9 },
      timestamp: DAY_MS,
    },
    isIdempotent: true,
    response: done,
    headers: { 'x-event-id': 'The event’s `eventId`.' },
    errors: ['too_old', 'quota_exceeded', 'overloaded'],
  },
  'POST /public/track/batch': {
    id: 'trackBatch',
    tag: 'Events',
    summary: 'Ingest 1 to 1000 events, all or none',
    description:
      'If one event is invalid, nothing is stored; `details` names the invalid ones by index, at most 100 of them. Of the events ' +
      'with one `insert_id` only the first within 7 days is stored; `accepted` counts the others, too. ' +
      '`warnings` names fields that are ignored, at most 20; of a large batch, those of its first events.',
    access: 'send',
    example: {
      events: [
        { event: 'signed up', distinct_id: 'ada', timestamp: DAY_MS },
        { event: 'order paid', distinct_id: 'grace', properties: { total: 12.5 } },
      ],
    },
    isIdempotent: true,
    response: { schema: Accepted, example: { status: 1, error: null, accepted: 2 } },
    headers: { 'x-batch-ids': BATCH_IDS },
    errors: ['too_many_events', 'too_old', 'quota_exceeded', 'overloaded'],
  },
  'POST /public/import': {
    id: 'importEvents',
    tag: 'Events',
    summary: 'Ingest 1 to 1000 lines, one event each, all or none',
    description:
      'NDJSON: each line holds an event as `/public/track/batch` takes it, or as `/public/export` returns it; blank lines are skipped. ' +
      'Everything else is as for a batch: `/events/0` in `details` is the first line that is not blank. A line with unknown ' +
      'fields and no `properties` is refused. Send the key in the header.',
    access: 'send',
    example: `${JSON.stringify({ event: 'signed up', distinct_id: 'ada', timestamp: DAY_MS })}\n${JSON.stringify({
      event: 'order paid',
      distinct_id: 'grace',
      properties: { total: 12.5 },
    })}\n`,
    isIdempotent: true,
    response: { schema: Accepted, example: { status: 1, error: null, accepted: 2 } },
    headers: { 'x-batch-ids': BATCH_IDS },
    errors: ['too_many_events', 'too_old', 'quota_exceeded', 'overloaded'],
  },
  'GET /public/events': {
    id: 'readEvents',
    tag: 'Events',
    summary: 'Read events in the order of acceptance, or newest first',
    description:
      'A walk by `page` or by `cursor` (the `next` of an earlier response) never skips and never repeats an event. It includes ' +
      'every event that was acknowledged before the call; if ClickHouse does not catch up within 5 s, `pending` says how many ' +
      'are missing. NDJSON, CSV and Parquet, chosen by `format` or `Accept`, have rows only, and the other fields become ' +
      'headers. The response is streamed; if reading fails after it has begun, the connection breaks before the response is ' +
      'complete. If a filter finds little within the time limit, a page requested without `page` holds what was found, perhaps ' +
      'nothing, and a `next` from which the search resumes.',
    access: 'read',
    parameters: { limit: 10, page: 1 },
    response: {
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
      'x-next-cursor': '`next`, if the response has rows only; absent after the last page.',
      'x-has-more': '`hasMore`, if the response has rows only.',
      'x-pending': '`pending`, if the response has rows only.',
    },
    errors: ['invalid_request'],
  },
  'GET /public/export': {
    id: 'exportEvents',
    tag: 'Events',
    summary: 'Export all events as one stream',
    description:
      'Every event that was acknowledged before the call, in the order of acceptance, as fast as ClickHouse returns them. NDJSON, CSV ' +
      'or Parquet, by `format` or `Accept`. If reading fails after it has begun, the connection breaks before the response is ' +
      'complete. A later call with the `x-next-cursor` of this one starts where it ended: nothing is skipped and nothing repeated.',
    access: 'read',
    parameters: { format: 'ndjson' },
    response: { schema: 'ndjson', example: `${JSON.stringify(event)}\n` },
    headers: {
      'x-next-cursor': 'The cursor from which a later call resumes after this export.',
      'x-has-more': 'Whether there are more events already, because of `limit`.',
      'x-pending':
        'How many accepted events are missing because the store did not catch up within 5 s. They come after `x-next-cursor`.',
    },
    errors: ['invalid_request'],
  },
  'GET /public/events/live': {
    id: 'followEvents',
    tag: 'Events',
    summary: 'Follow events as they become visible',
    description:
      'Server-Sent Events without an end: each accepted event once it is stored, in the order of acceptance. `id` is its ' +
      '`eventId`, and `data` the event as `GET /public/events` has it, its properties byte for byte; line breaks between their ' +
      'tokens begin another `data` line. Begins with what is accepted after the call, or after the event of `Last-Event-ID`, ' +
      'which may be any earlier one, deleted or not: nothing is skipped, and nothing is repeated. A client that reads too ' +
      'slowly is cut off, and the stream ends when the key is revoked or the service stops; connect again with ' +
      '`Last-Event-ID`.',
    access: 'read',
    parameters: { event: 'signed up' },
    response: {
      schema: 'event-stream',
      example: `retry: 2000\n\n: connected\n\nid: ${EVENT_ID}\ndata: ${JSON.stringify(event)}\n\n`,
    },
    headers: {
      'x-last-event-id': 'The stream begins after this id: resume with it if the stream ends before the first event.',
    },
    errors: ['invalid_request', 'overloaded'],
  },
  'GET /public/events/:eventId': {
    id: 'readEvent',
    tag: 'Events',
    summary: 'Read one event',
    access: 'read',
    parameters: { eventId: EVENT_ID },
    response: { schema: OneEvent, example: { status: 1, error: null, event } },
    errors: ['invalid_request', 'not_found'],
  },
  'PUT /public/events/:eventId': {
    id: 'editEvent',
    tag: 'Events',
    summary: 'Replace the properties of an event',
    description: 'Takes effect immediately.',
    access: 'manage',
    parameters: { eventId: EVENT_ID },
    example: { properties: { plan: 'free' } },
    response: done,
    errors: ['not_found'],
  },
  'DELETE /public/events/:eventId': {
    id: 'deleteEvent',
    tag: 'Events',
    summary: 'Delete an event',
    description: 'Takes effect immediately.',
    access: 'manage',
    parameters: { eventId: EVENT_ID },
    response: done,
    errors: ['invalid_request', 'not_found'],
  },
  'POST /public/events/delete': {
    id: 'deleteBatches',
    tag: 'Events',
    summary: 'Delete what batches have stored',
    description:
      'Deletes the events that 1 to 1000 requests to `/public/track/batch` or `/public/import` have stored, by the ids in ' +
      '`x-batch-ids` of their responses. An event that was skipped because its `insert_id` was known belongs to the request ' +
      'that stored it, and stays. Takes effect immediately, and can be repeated.',
    access: 'manage',
    example: { batches: ['0193ae307c4200005eed1234'], dry_run: true },
    response: {
      schema: DeletedBatches,
      example: { status: 1, error: null, events: 1000, with_insert_id: 0 },
    },
    errors: [],
  },
  'POST /public/sessions/start': {
    id: 'startSession',
    tag: 'Sessions',
    summary: 'Start a session',
    description: 'If it is already active, its properties are merged.',
    access: 'session',
    example: { ...session, properties: { referrer: 'https://example.com' } },
    response: done,
    errors: ['session_ended', 'session_owner_mismatch', 'overloaded'],
  },
  'POST /public/sessions/update': {
    id: 'updateSession',
    tag: 'Sessions',
    summary: 'Update a session: a heartbeat',
    description: 'Merges its properties. A numeric `duration` becomes the session’s duration, which never decreases.',
    access: 'session',
    example: { ...session, properties: { duration: 95 } },
    response: done,
    errors: ['not_found', 'session_ended', 'session_owner_mismatch', 'overloaded'],
  },
  'POST /public/sessions/end': {
    id: 'endSession',
    tag: 'Sessions',
    summary: 'Complete a session',
    access: 'session',
    example: session,
    response: done,
    errors: ['not_found', 'session_owner_mismatch', 'overloaded'],
  },
  'GET /public/sessions/:sessionId': {
    id: 'readSession',
    tag: 'Sessions',
    summary: 'Read one session',
    access: 'read',
    parameters: { sessionId: session.session_id },
    response: {
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
    summary: 'Read pages of sessions, latest start first',
    description: 'Sessions that start during a walk shift its pages; `to` excludes them.',
    access: 'read',
    parameters: { limit: 10, page: 1 },
    response: {
      schema: SessionPage,
      example: { status: 1, error: null, sessions: [visit], page: 1, limit: 10, hasMore: false },
    },
    errors: ['invalid_request'],
  },
  'GET /health/live': {
    id: 'live',
    tag: 'Operation',
    summary: 'Whether the process is alive',
    access: null,
    response: done,
    errors: [],
  },
  'GET /health/ready': {
    id: 'ready',
    tag: 'Operation',
    summary: 'Whether the journal and the store are available',
    description:
      'If one is unavailable, the 503 says which in the same fields; a journal also is if its disk, or Redis, has no room for ' +
      'writes. A store of several lanes or shards is ready when all are; ' +
      'with `partial=true`, when at least one lane and one shard are. ' +
      'With `strict=true` it is not ready either while the store has lost or damaged parts.',
    access: null,
    response: {
      schema: Ready,
      example: { ...done.example, journal: 'ready', store: 'ready' },
    },
    errors: ['invalid_request', 'unavailable'],
  },
  'GET /metrics': {
    id: 'metrics',
    tag: 'Operation',
    summary: 'Metrics for Prometheus',
    access: null,
    response: {
      schema: 'text',
      example:
        '# HELP tallyhouse_events_accepted_total Events that are durable in the journal.\n# TYPE tallyhouse_events_accepted_total counter\ntallyhouse_events_accepted_total 12416\n',
    },
    errors: [],
  },
}

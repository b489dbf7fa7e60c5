import { NoQuery, SendQuery, SessionParams, SessionsQuery } from '../contract/query-schemas.js'
import { Done, OneSession, SessionBody, SessionEndBody, SessionPage } from '../contract/schemas.js'
import { describeCalls, EXAMPLE_TIME } from '../http/openapi/description.js'
import { MAX_STATE_WEIGHT } from '../json/complexity.js'

const session = { distinct_id: 'ada', session_id: 'visit-7' }
const visit = {
  ...session,
  state: 'completed',
  properties: { referrer: 'https://example.com', duration: 95 },
  duration: 95,
  started_at: EXAMPLE_TIME,
  updated_at: EXAMPLE_TIME + 95_000,
  ended_at: EXAMPLE_TIME + 95_000,
}

export const CALLS = describeCalls('Sessions', {
  startSession: {
    schema: { body: SessionBody, querystring: SendQuery, response: { 200: Done } },
    config: { access: 'session', maxWeight: MAX_STATE_WEIGHT },
    summary: 'Start a session',
    description: 'If it is already active, its properties are merged.',
    example: { ...session, properties: { referrer: 'https://example.com' } },
    errors: ['session_ended', 'session_owner_mismatch', 'overloaded'],
  },
  updateSession: {
    schema: { body: SessionBody, querystring: SendQuery, response: { 200: Done } },
    config: { access: 'session', maxWeight: MAX_STATE_WEIGHT },
    summary: 'Update a session: a heartbeat',
    description: 'Merges its properties. A numeric `duration` becomes the session’s duration, which never decreases.',
    example: { ...session, properties: { duration: 95 } },
    errors: ['not_found', 'session_ended', 'session_owner_mismatch', 'overloaded'],
  },
  endSession: {
    schema: { body: SessionEndBody, querystring: SendQuery, response: { 200: Done } },
    config: { access: 'session' },
    summary: 'Complete a session',
    example: session,
    errors: ['not_found', 'session_owner_mismatch', 'overloaded'],
  },
  readSession: {
    schema: { params: SessionParams, querystring: NoQuery },
    summary: 'Read one session',
    parameters: { sessionId: session.session_id },
    response: { schema: OneSession, example: { session: visit } },
    errors: ['not_found'],
  },
  readSessions: {
    schema: { querystring: SessionsQuery },
    summary: 'Read pages of sessions, latest start first',
    description: 'Sessions that start while you page shift later pages; use `to` to exclude them.',
    parameters: { limit: 10, page: 1 },
    response: { schema: SessionPage, example: { sessions: [visit], page: 1, limit: 10, hasMore: false } },
  },
})

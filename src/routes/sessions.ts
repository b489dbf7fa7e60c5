import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { ClickHouse } from '../clickhouse/client.js'
import { ApiError } from '../contract/errors.js'
import { Done, NoQuery, SessionBody, SessionEndBody, SessionParams, SessionsQuery } from '../contract/schemas.js'
import type { SessionCalls } from '../http/session-calls.js'
import { MAX_STATE_WEIGHT } from '../json/complexity.js'
import { memberText } from '../json/spans.js'
import { given } from '../lib/given.js'
import { formatProperties, type Properties, parseProperties } from '../model/properties.js'
import { durationOf, endSession, type Session, sizeOf, startSession, updateSession } from '../model/session.js'
import type { ReadBarrier } from '../pipeline/read-barrier.js'
import type { StateStore } from '../pipeline/state-store.js'
import { offsetOf, wrapRows } from '../store/page.js'
import { readSessionPage } from '../store/sessions.js'

interface SessionsOptions {
  sessions: StateStore<Session>
}

export interface SessionCallsOptions extends SessionsOptions {
  calls: SessionCalls
}

/** Called by browsers, with the public key. */
export const sessionCalls: FastifyPluginAsyncTypebox<SessionCallsOptions> = async (app, { sessions, calls }) => {
  app.addHook('preValidation', calls.limit)
  for (const [path, call] of Object.entries({ '/start': startSession, '/update': updateSession })) {
    app.post(
      path,
      { config: { maxWeight: MAX_STATE_WEIGHT }, schema: { body: SessionBody, response: { 200: Done } } },
      async (request) => {
        const { projectId, rawBody } = request
        const { session_id, distinct_id, properties, duration } = request.body
        const sent = typeof duration === 'number' && Number.isFinite(duration) ? duration : null
        const merged = properties ? propertiesIn(rawBody) : null
        let bytes = 0
        await sessions.change(projectId, session_id, (session) => {
          const changed = call(session, distinct_id, merged, Date.now(), sent)
          bytes = sizeOf(changed)
          return changed
        })
        calls.charge(request, bytes)
        return { status: 1, error: null } as const
      },
    )
  }

  app.post(
    '/end',
    { schema: { body: SessionEndBody, response: { 200: Done } } },
    async ({ projectId, body: { session_id, distinct_id } }) => {
      await sessions.change(projectId, session_id, (session) => endSession(session, distinct_id, Date.now()))
      return { status: 1, error: null } as const
    },
  )
}

export interface SessionReadsOptions extends SessionsOptions {
  clickhouse: ClickHouse
  barrier: ReadBarrier
}

/** Reads sessions, with the secret key. */
export const sessionReads: FastifyPluginAsyncTypebox<SessionReadsOptions> = async (
  app,
  { sessions, clickhouse, barrier },
) => {
  app.get('/sessions', { schema: { querystring: SessionsQuery } }, async ({ projectId, query, signal }, reply) => {
    const { limit, page, distinct_id: distinctId, state, from, to } = query
    const filter = given({ distinctId, state, from, to })
    await barrier.waitForAll()
    const rows = await readSessionPage(
      clickhouse,
      { projectId, limit, offset: offsetOf(page, limit), ...filter },
      signal,
    )
    reply.header('content-type', 'application/json; charset=utf-8')
    return wrapRows(rows, '{"status":1,"error":null,"sessions":[', (nextId) => {
      return `],"page":${page},"limit":${limit},"hasMore":${nextId !== null}}`
    })
  })

  app.get(
    '/sessions/:sessionId',
    { schema: { params: SessionParams, querystring: NoQuery } },
    async ({ projectId, params }, reply) => {
      const session = await sessions.get(projectId, params.sessionId)
      if (!session) throw new ApiError('not_found', 'There is no session with this session_id.')
      const { distinctId, state, properties, startedAt, updatedAt, endedAt } = session
      const head = JSON.stringify({ session_id: params.sessionId, distinct_id: distinctId, state }).slice(0, -1)
      const tail = JSON.stringify({
        duration: durationOf(session),
        started_at: startedAt,
        updated_at: updatedAt,
        ended_at: endedAt,
      }).slice(1)
      reply.header('content-type', 'application/json; charset=utf-8')
      return `{"status":1,"error":null,"session":${head},"properties":${formatProperties(properties)},${tail}}`
    },
  )
}

function propertiesIn(rawBody: Buffer): Properties {
  return parseProperties(memberText(rawBody.toString(), 'properties') ?? '{}')
}

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import type { Shards } from '../clickhouse/shards.js'
import type { Contexts } from '../context/contexts.js'
import { ApiError } from '../contract/errors.js'
import { MEDIA_TYPES } from '../contract/formats.js'
import { isDailyVisitor } from '../contract/user-names.js'
import { getSender } from '../http/admission/authenticate.js'
import { RequestSource } from '../http/request-source.js'
import { readJson } from '../json/value.js'
import { omitUndefined } from '../lib/omit-undefined.js'
import { formatProperties, type Properties, readProperties } from '../model/properties.js'
import { endSession, measureDuration, type Session, startSession, updateSession } from '../model/session.js'
import type { Barrier } from '../reads/read-barrier.js'
import type { States } from '../states/state-store.js'
import { withToll } from '../states/toll.js'
import { toOffset, wrapRows } from '../store/page.js'
import { readSessionPage } from '../store/session-pages.js'
import type { Aliases } from '../users/aliases/aliases.js'
import { CALLS } from './sessions.calls.js'

interface SessionsOptions {
  sessions: States<Session>
}

export interface SessionCallsOptions extends SessionsOptions {
  aliases: Aliases
  contexts: Contexts
}

type SessionChange = (session: Session | null, distinctId: string) => Session

/** Called by browsers, with the public key. */
export const sessionCalls: FastifyPluginAsyncTypebox<SessionCallsOptions> = async (
  app,
  { sessions, aliases, contexts },
) => {
  for (const [path, options, change] of [
    ['/start', CALLS.startSession, startSession],
    ['/update', CALLS.updateSession, updateSession],
  ] as const) {
    app.post(path, options, async (request) => {
      const { rawBody, projectId } = request
      const context = contexts.find(projectId, new RequestSource(request))?.value ?? {}
      const { session_id, distinct_id, properties, duration } = request.body
      const sent = typeof duration === 'number' && Number.isFinite(duration) ? duration : null
      const merged = properties ? propertiesIn(rawBody) : null
      await changeSession(request, session_id, distinct_id, (session, distinctId) => {
        return change(session, distinctId, merged, { now: Date.now(), duration: sent, context })
      })
      return { status: 1, error: null } as const
    })
  }

  app.post('/end', CALLS.endSession, async (request) => {
    const { session_id, distinct_id } = request.body
    await changeSession(request, session_id, distinct_id, (session, distinctId) => {
      return endSession(session, distinctId, Date.now())
    })
    return { status: 1, error: null } as const
  })

  /** A session may be started under one name of a user and continued under another. */
  async function changeSession(request: FastifyRequest, id: string, name: string, change: SessionChange) {
    const { projectId, keyClass } = getSender(request)
    const changeFor = (owner: string) => withToll<Session>((session) => change(session, owner), request.toll)
    try {
      await sessions.change(projectId, id, changeFor(name), { keyClass })
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'session_owner_mismatch') throw error
      const owner = (await sessions.get(projectId, id))?.distinctId
      // A daily visitor's name changes at midnight, even during a session.
      const isSameVisitor = owner !== undefined && isDailyVisitor(owner) && isDailyVisitor(name)
      const isSame = isSameVisitor || (owner !== undefined && (await aliases.areSameUser(projectId, owner, name)))
      if (!isSame) throw error
      await sessions.change(projectId, id, changeFor(owner), { keyClass })
    }
  }
}

export interface SessionReadsOptions extends SessionsOptions {
  shards: Shards
  barrier: Barrier
}

/** Reads sessions, with the secret key. */
export const sessionReads: FastifyPluginAsyncTypebox<SessionReadsOptions> = async (
  app,
  { sessions, shards, barrier },
) => {
  app.get('/sessions', CALLS.readSessions, async ({ projectId, query, signal }, reply) => {
    const { limit, page, distinct_id: distinctId, state, from, to } = query
    const filter = omitUndefined({ distinctId, state, from, to })
    await barrier.requireProject(projectId)
    const range = { projectId, limit, offset: toOffset(page, limit), ...filter }
    const { rows, hasMore } = await readSessionPage(shards, range, signal)
    reply.header('content-type', MEDIA_TYPES.json.contentType)
    return wrapRows(rows, '{"status":1,"error":null,"sessions":[', () => {
      return `],"page":${page},"limit":${limit},"hasMore":${hasMore}}`
    })
  })

  app.get('/sessions/:sessionId', CALLS.readSession, async ({ projectId, params }, reply) => {
    const session = await sessions.get(projectId, params.sessionId)
    if (!session) throw new ApiError('not_found', 'There is no session with this session_id.')
    const { distinctId, state, properties, startedAt, updatedAt, endedAt, context } = session
    const head = JSON.stringify({ session_id: params.sessionId, distinct_id: distinctId, state }).slice(0, -1)
    const tail = JSON.stringify({
      duration: measureDuration(session),
      started_at: startedAt,
      updated_at: updatedAt,
      ended_at: endedAt,
      ...(Object.keys(context).length > 0 && { context }),
    }).slice(1)
    reply.header('content-type', MEDIA_TYPES.json.contentType)
    return `{"status":1,"error":null,"session":${head},"properties":${formatProperties(properties)},${tail}}`
  })
}

function propertiesIn(rawBody: Buffer): Properties {
  return readProperties(readJson(rawBody)?.member('properties'))
}

import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import type { Admission } from '../http/admission.js'
import type { PageSession } from '../http/page-sessions.js'

export interface SessionOptions {
  admission: Pick<Admission, 'sessions'>
}

/** Signing in to the page with a read or secret key, and out. */
export const session: FastifyPluginAsync<SessionOptions> = async (app, { admission: { sessions } }) => {
  app.addHook('onSend', async (_request, reply) => {
    reply.header('cache-control', 'no-store')
  })

  const begin = async (request: FastifyRequest) => {
    const { grant, projectId, keyKind } = request
    if (!grant) throw new Error('a request without a key was admitted')
    const begun = sessions.begin(grant, request)
    return { begun, body: { status: 1, error: null, session: described(begun, { projectId, kind: keyKind }) } }
  }

  app.post('/session', { config: { access: 'read' } }, async (request, reply) => {
    const { begun, body } = await begin(request)
    reply.header('set-cookie', begun.cookie)
    return body
  })

  // Whoever opens the page begins anew, so that a page in use stays signed in.
  app.get('/session', async (request, reply) => {
    const { begun, body } = await begin(request)
    if (!request.key) reply.header('set-cookie', begun.cookie)
    return body
  })

  app.delete('/session', { config: { access: 'read' } }, async (request, reply) => {
    reply.header('set-cookie', sessions.end(request))
    return { status: 1, error: null }
  })
}

function described({ csrfToken, expiresAt }: PageSession, of: { projectId: string; kind: string | null }) {
  return { project: of.projectId, key_kind: of.kind, csrf_token: csrfToken, expires_at: expiresAt }
}

import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import type { Admission } from '../http/admission/admission.js'
import type { StoredKey } from '../keys/keys.js'
import type { Projects } from '../projects/projects.js'

export interface SignInOptions {
  admission: Pick<Admission, 'signIns' | 'guard'>
  projects: Pick<Projects, 'get'>
}

/** Signing in to the page with a read or secret key, and out. */
export const signIn: FastifyPluginAsync<SignInOptions> = async (app, { admission, projects }) => {
  const { signIns } = admission
  app.addHook('onSend', async (_request, reply) => {
    reply.header('cache-control', 'no-store')
  })

  const begin = (request: FastifyRequest, reply: FastifyReply, grant: StoredKey) => {
    const { cookie, csrfToken, expiresAt } = signIns.begin(grant, request)
    reply.header('set-cookie', cookie)
    const { projectId: project, kind: key_kind } = grant
    const { settings } = projects.get(project)
    const session = { project, key_kind, settings, csrf_token: csrfToken, expires_at: expiresAt }
    return { status: 1, error: null, session }
  }

  // If nobody is signed in, that is not an error. A valid sign-in is renewed, so that a page in use stays signed in.
  app.get('/session', async (request, reply) => {
    const grant = signIns.find(request)
    return grant ? begin(request, reply, grant) : { status: 1, error: null, session: null }
  })

  app.register(async (scope) => {
    admission.guard(scope, ['application/json'])

    scope.post('/session', { config: { access: 'read' } }, async (request, reply) => {
      if (!request.grant) throw new Error('a request without a key was admitted')
      return begin(request, reply, request.grant)
    })

    scope.delete('/session', { config: { access: 'read' } }, async (request, reply) => {
      reply.header('set-cookie', signIns.end(request))
      return { status: 1, error: null }
    })
  })
}

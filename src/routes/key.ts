import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { NoQuery } from '../contract/query-schemas.js'

/** Says what the key of a request is, so that a client can find out whether it is accepted, and do nothing else. */
export const key: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/key', { schema: { querystring: NoQuery } }, async ({ projectId, keyKind }) => {
    return { status: 1, error: null, key: { kind: keyKind, project: projectId } }
  })
}

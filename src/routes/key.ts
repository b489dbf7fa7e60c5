import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { NoQuery } from '../contract/query-schemas.js'

/** Describes the key of a request, so that a client can check it without doing anything else. */
export const key: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/key', { schema: { querystring: NoQuery } }, async ({ projectId, keyKind }) => {
    return { status: 1, error: null, key: { kind: keyKind, project: projectId } }
  })
}

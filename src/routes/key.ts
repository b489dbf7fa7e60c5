import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { KeyDescription } from '../contract/project-schemas.js'
import { NoQuery } from '../contract/query-schemas.js'
import { describeCalls } from '../http/openapi/description.js'

const CALLS = describeCalls('Operation', {
  describeKey: {
    schema: { querystring: NoQuery },
    summary: 'Check a key',
    description:
      'The kind of the key, and its project. It reads and changes nothing. Commands call it first, to find out whether the ' +
      'service is there and accepts their key.',
    response: { schema: KeyDescription, example: { key: { kind: 'secret', project: 'default' } } },
  },
})

/** Describes the key of a request, so that a client can check it without side effects. */
export const key: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/key', CALLS.describeKey, async ({ projectId, keyKind }) => {
    return { status: 1, error: null, key: { kind: keyKind, project: projectId } }
  })
}

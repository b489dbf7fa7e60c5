import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { formatExactJson } from '../contract/exact-json.js'
import { MEDIA_TYPES } from '../contract/formats.js'
import type { Catalog } from '../questions/catalog.js'
import { parseFieldText } from '../questions/field-name.js'
import { CALLS } from './schema.calls.js'

export interface SchemaOptions {
  catalog: Catalog
}

/** Lists the names of events and properties, and the values of a field. */
export const schema: FastifyPluginAsyncTypebox<SchemaOptions> = async (app, { catalog }) => {
  app.get('/schema/events', CALLS.readEventNames, async ({ projectId }) => {
    return { status: 1, error: null, ...(await catalog.events(projectId)) }
  })

  app.get('/schema/properties', CALLS.readPropertyNames, async ({ projectId, query }, reply) => {
    reply.header('content-type', MEDIA_TYPES.json.contentType)
    return formatExactJson({ status: 1, error: null, ...(await catalog.properties({ projectId, event: query.event })) })
  })

  app.get('/schema/values', CALLS.readFieldValues, async ({ projectId, query }, reply) => {
    const wanted = { ...query, field: parseFieldText(query.field) }
    reply.header('content-type', MEDIA_TYPES.json.contentType)
    return formatExactJson({ status: 1, error: null, ...(await catalog.values(projectId, wanted)) })
  })
}

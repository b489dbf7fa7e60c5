import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { formatExactJson } from '../contract/exact-json.js'
import { MEDIA_TYPES } from '../contract/formats.js'
import { hangUpSignal } from '../http/reply.js'
import type { Catalog } from '../questions/catalog.js'
import type { Questions } from '../questions/run.js'
import { CALLS } from './questions.calls.js'

export interface QuestionsOptions {
  questions: Questions
  catalog: Pick<Catalog, 'review'>
}

/** Answers questions about events. */
export const questions: FastifyPluginAsyncTypebox<QuestionsOptions> = async (app, { questions, catalog }) => {
  app.post('/query', CALLS.query, async ({ projectId, body }, reply) => {
    const answered = await questions.ask(projectId, body, hangUpSignal(reply), catalog.review)
    reply.header('content-type', MEDIA_TYPES.json.contentType)
    return formatExactJson({ status: 1, error: null, ...answered })
  })
}

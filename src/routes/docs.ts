import swaggerUi from '@fastify/swagger-ui'
import type { FastifyPluginAsync } from 'fastify'
import { protectPages } from '../http/page-headers.js'

/**
 * Hash of the style sheet that Swagger UI's script inlines. The browser test fails if a new
 * version inlines another.
 */
const INLINE_STYLE = "'sha256-RL3ie0nH+Lzz2YNqQN83mnU0J1ot4QL7b99vMdIX99w='"

/** The OpenAPI document, and a page to try the API. */
export const docs: FastifyPluginAsync = async (app) => {
  // One copy for all responses: a client without a key may ask for it often and read it slowly.
  let document: Buffer | undefined
  app.get('/openapi.json', async (_request, reply) => {
    document ??= Buffer.from(JSON.stringify(app.swagger()))
    reply.type('application/json; charset=utf-8')
    return document
  })

  // Use a separate scope, because only these routes serve pages to browsers.
  app.register(async (page) => {
    await protectPages(page, [INLINE_STYLE])
    await page.register(swaggerUi, { routePrefix: '/docs', theme: { title: 'Tallyhouse API' } })
  })
}

import helmet from '@fastify/helmet'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyPluginAsync } from 'fastify'

/**
 * Hash of the style sheet that Swagger UI's script inlines. The browser test fails if a new
 * version inlines another.
 */
const INLINE_STYLE = "'sha256-RL3ie0nH+Lzz2YNqQN83mnU0J1ot4QL7b99vMdIX99w='"

/** The OpenAPI document, and a page to try the API. */
export const docs: FastifyPluginAsync = async (app) => {
  app.get('/openapi.json', async () => app.swagger())

  // In its own scope: only these routes serve pages to browsers.
  app.register(async (page) => {
    await page.register(helmet, {
      contentSecurityPolicy: {
        useDefaults: false,
        directives: {
          defaultSrc: ["'self'"],
          styleSrc: ["'self'", INLINE_STYLE],
          // The logo.
          imgSrc: ["'self'", 'data:'],
          objectSrc: ["'none'"],
          baseUri: ["'none'"],
          formAction: ["'none'"],
          frameAncestors: ["'none'"],
        },
      },
      // The proxy that terminates TLS decides about this.
      strictTransportSecurity: false,
    })
    await page.register(swaggerUi, { routePrefix: '/docs', theme: { title: 'Tallyhouse API' } })
  })
}

import helmet from '@fastify/helmet'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyPluginAsync } from 'fastify'

/** Of the one style sheet that Swagger UI's script adds. The test in a browser fails where a new version adds another. */
const INLINE_STYLE = "'sha256-RL3ie0nH+Lzz2YNqQN83mnU0J1ot4QL7b99vMdIX99w='"

/** The description of the calls for programs, and a page to try them. */
export const docs: FastifyPluginAsync = async (app) => {
  app.get('/openapi.json', async () => app.swagger())

  // In a scope of its own: only here does a browser show something.
  app.register(async (page) => {
    await page.register(helmet, {
      contentSecurityPolicy: {
        useDefaults: false,
        directives: {
          defaultSrc: ["'self'"],
          styleSrc: ["'self'", INLINE_STYLE],
          // The logo of the page.
          imgSrc: ["'self'", 'data:'],
          objectSrc: ["'none'"],
          baseUri: ["'none'"],
          formAction: ["'none'"],
          frameAncestors: ["'none'"],
        },
      },
      // Whether the host speaks TLS is for whoever puts it in front to say.
      strictTransportSecurity: false,
    })
    await page.register(swaggerUi, { routePrefix: '/docs', theme: { title: 'Tallyhouse API' } })
  })
}

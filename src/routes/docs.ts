import helmet from '@fastify/helmet'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyPluginAsync } from 'fastify'

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
    await page.register(swaggerUi, { routePrefix: '/docs' })
  })
}

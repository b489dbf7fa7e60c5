import helmet from '@fastify/helmet'
import type { FastifyInstance } from 'fastify'

/**
 * Adds the headers that protect pages to all responses of a scope: nothing is loaded from another host, and no inline
 * script or style runs.
 * @param styles further sources of styles, such as a hash
 */
export async function protectPages(scope: FastifyInstance, styles: string[] = []): Promise<void> {
  await scope.register(helmet, {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'self'"],
        styleSrc: ["'self'", ...styles],
        imgSrc: ["'self'", 'data:'],
        objectSrc: ["'none'"],
        baseUri: ["'none'"],
        formAction: ["'none'"],
        frameAncestors: ["'none'"],
      },
    },
    // This is up to the proxy that terminates TLS.
    strictTransportSecurity: false,
  })
}

import { fileURLToPath } from 'node:url'
import files from '@fastify/static'
import type { FastifyPluginAsync } from 'fastify'

/** The packages that packages/build.mjs has packed; the path is the same from src/ and dist/. */
const PACKED = fileURLToPath(new URL('../../dist/packages/', import.meta.url))

/** The client packages in the version of the service, for `npm install` without a registry. */
export const packages: FastifyPluginAsync = async (app) => {
  // The address is the same in every version, so npm must ask whether the file has changed.
  await app.register(files, {
    root: PACKED,
    serve: false,
    maxAge: 0,
    contentType: false,
    setHeaders: (response) => response.setHeader('content-type', 'application/gzip'),
  })

  for (const name of ['tallyhouse-client.tgz', 'tallyhouse-browser.tgz']) {
    app.get(`/packages/${name}`, (_request, reply) => reply.sendFile(name))
  }
}

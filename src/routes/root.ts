import type { FastifyPluginAsync } from 'fastify'
import { VERSION } from '../version.js'

export interface RootOptions {
  /** paths that this role serves, by name */
  links: Record<string, string>
}

/** Names the service and its entry points. */
export const root: FastifyPluginAsync<RootOptions> = async (app, { links }) => {
  app.get('/', async () => ({ status: 1, error: null, name: 'tallyhouse', version: VERSION, ...links }))
}

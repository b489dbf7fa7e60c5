import type { FastifyPluginAsync } from 'fastify'
import { VERSION } from '../version.js'

export interface RootOptions {
  /** where to go from here, by name; what this role answers */
  links: Record<string, string>
}

/** Tells whoever opens the address what answers here, and where the rest is. */
export const root: FastifyPluginAsync<RootOptions> = async (app, { links }) => {
  app.get('/', async () => ({ status: 1, error: null, name: 'tallyhouse', version: VERSION, ...links }))
}

import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import files from '@fastify/static'
import type { FastifyPluginAsync, FastifyReply } from 'fastify'

export interface ScriptOptions {
  /** another path of the script, such as `/site.js` */
  path?: string | undefined
}

/** The scripts that packages/build.mjs has built; the path is the same from src/ and dist/. */
const BUILT = fileURLToPath(new URL('../../dist/packages/', import.meta.url))
/** The path in the page's instructions for websites; it works whatever the settings are. */
const PATH = '/t.js'
/** A new version should reach pages soon. */
const FRESH_MS = 300_000
const YEAR_MS = 31_536_000_000

/**
 * Serves the script for web pages under two names: a fixed one, and one with the hash of the content, which caches may
 * keep for a year. The first names the second in `Content-Location`, relative to its own address, because a proxy may
 * serve it below a path.
 */
export const script: FastifyPluginAsync<ScriptOptions> = async (app, { path = PATH }) => {
  const file = join(BUILT, PATH)
  if (!existsSync(file)) return
  const hash = createHash('sha256').update(readFileSync(file)).digest('hex').slice(0, 12)
  await app.register(files, { root: BUILT, serve: false, preCompressed: true })

  for (const stem of new Set([PATH, path].map((name) => basename(name, '.js')))) {
    const send = (reply: FastifyReply, isLasting: boolean) => {
      reply.headers({
        vary: 'accept-encoding',
        'content-location': `${stem}.${hash}.js`,
        // Pages of any site may load it, including those that check its hash or isolate themselves.
        'access-control-allow-origin': '*',
        'cross-origin-resource-policy': 'cross-origin',
        'x-content-type-options': 'nosniff',
      })
      return reply.sendFile(PATH, { maxAge: isLasting ? YEAR_MS : FRESH_MS, immutable: isLasting })
    }
    app.get(`/${stem}.js`, (_request, reply) => send(reply, false))
    // After an update, a page with an earlier hash gets the new script, but must not keep it under that name.
    app.get<{ Params: { hash: string } }>(`/${stem}.:hash(^[\\da-f]{12}$).js`, ({ params }, reply) =>
      send(reply, params.hash === hash),
    )
  }
}

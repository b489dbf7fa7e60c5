import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import files from '@fastify/static'
import type { FastifyPluginAsync, FastifyReply } from 'fastify'

export interface ScriptOptions {
  /** the path of the script, such as `/t.js` */
  path: string
}

/** What packages/build.mjs has built: the same place for src/ and dist/. */
const BUILT = fileURLToPath(new URL('../../dist/packages/', import.meta.url))
const NAME = 't.js'
/** A new version should reach pages soon. */
const FRESH_MS = 300_000
const YEAR_MS = 31_536_000_000

/**
 * The script of web pages, under two names: one that stays, and one with the hash of the content, which caches may keep
 * for a year. The first names the second in `Content-Location`.
 */
export const script: FastifyPluginAsync<ScriptOptions> = async (app, { path }) => {
  if (!existsSync(BUILT + NAME)) return
  const current = createHash('sha256').update(readFileSync(BUILT + NAME)).digest('hex').slice(0, 12)
  const stem = path.replace(/\.js$/, '')
  await app.register(files, { root: BUILT, serve: false, preCompressed: true })

  const send = (reply: FastifyReply, isImmutable: boolean) => {
    reply.headers({
      vary: 'accept-encoding',
      'content-location': `${stem}.${current}.js`,
      // Pages of any site load it, those that check its hash and those that isolate themselves as well.
      'access-control-allow-origin': '*',
      'cross-origin-resource-policy': 'cross-origin',
      'x-content-type-options': 'nosniff',
    })
    return reply.sendFile(NAME, { maxAge: isImmutable ? YEAR_MS : FRESH_MS, immutable: isImmutable })
  }
  app.get(path, (_request, reply) => send(reply, false))
  // After an update, pages that still have another hash get the new script, but must not keep it under that name.
  app.get<{ Params: { hash: string } }>(`${stem}.:hash(^[\\da-f]{12}$).js`, ({ params }, reply) =>
    send(reply, params.hash === current),
  )
}

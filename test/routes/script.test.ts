import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib'
import Fastify from 'fastify'
import t from 'tap'
import { script } from '../../src/routes/script.js'
import { sharedApp } from '../shared-app.js'

const BUILT = 'dist/packages/t.js'

t.test('the script is as small as docs/web.md says', async (t) => {
  const limit = Number(/less than (\d) kB with gzip/.exec(await readFile('docs/web.md', 'utf8'))?.[1]) * 1000
  const { length } = gzipSync(await readFile(BUILT), { level: 9 })
  t.ok(length < limit, `${length} bytes`)
})

t.test('the script is served without a key, to pages of any site', async (t) => {
  const { app } = await sharedApp()
  const text = await readFile(BUILT, 'utf8')
  const { statusCode, headers, body } = await app.inject({ url: '/t.js' })
  t.equal(statusCode, 200)
  t.equal(body, text)
  const open = {
    'access-control-allow-origin': '*',
    'cross-origin-resource-policy': 'cross-origin',
    'x-content-type-options': 'nosniff',
    vary: 'accept-encoding',
  }
  t.match(headers, { ...open, 'content-type': /^(text|application)\/javascript; charset=utf-8$/i })
  t.equal(headers['cache-control'], 'public, max-age=300')

  t.test('in the compression that the browser takes', async (t) => {
    for (const [coding, inflate] of [
      ['br', brotliDecompressSync],
      ['gzip', gunzipSync],
    ] as const) {
      const { rawPayload, headers } = await app.inject({ url: '/t.js', headers: { 'accept-encoding': coding } })
      t.equal(headers['content-encoding'], coding)
      t.equal(inflate(rawPayload).toString(), text)
    }
  })

  t.test('and not again until it changes', async (t) => {
    const again = await app.inject({ url: '/t.js', headers: { 'if-none-match': String(headers.etag) } })
    t.equal(again.statusCode, 304)
    t.match(again.headers, open)
  })

  t.test('under a name that caches keep', async (t) => {
    const name = String(headers['content-location'])
    t.equal(name, `t.${createHash('sha256').update(text).digest('hex').slice(0, 12)}.js`, 'relative to /t.js')
    const hashed = await app.inject({ url: `/${name}` })
    t.equal(hashed.body, text)
    t.equal(hashed.headers['content-location'], name)
    t.equal(hashed.headers['cache-control'], 'public, max-age=31536000, immutable')

    const former = await app.inject({ url: '/t.0123456789ab.js' })
    t.equal(former.body, text, 'a page that names a former version still works')
    t.equal(former.headers['cache-control'], 'public, max-age=300')
    t.equal((await app.inject({ url: '/t.other.js' })).statusCode, 404)
  })
})

t.test('SCRIPT_PATH is another path of the script', async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(script, { path: '/my.site.js' })
  const { statusCode, headers } = await app.inject({ url: '/my.site.js' })
  t.equal(statusCode, 200)
  const name = String(headers['content-location'])
  t.match(name, /^my\.site\.[\da-f]{12}\.js$/)
  const lasting = await app.inject({ url: `/${name}` })
  t.match(lasting, { statusCode: 200, headers: { 'cache-control': /immutable/, 'content-location': name } })
  t.equal((await app.inject({ url: '/t.js' })).statusCode, 200)
})

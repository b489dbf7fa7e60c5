import t from 'tap'
import { sharedApp } from '../shared-app.js'

t.test('the client packages are served without a key', async (t) => {
  const { app } = await sharedApp()
  for (const name of ['tallyhouse-client', 'tallyhouse-browser']) {
    const url = `/packages/${name}.tgz`
    const { statusCode, headers, rawPayload } = await app.inject({ url })
    t.equal(statusCode, 200, name)
    t.match(headers, { 'content-type': 'application/gzip', 'cache-control': 'public, max-age=0' })
    t.equal(rawPayload.readUInt16BE(0), 0x1f8b, 'gzip')

    const head = await app.inject({ method: 'HEAD', url })
    t.equal(head.statusCode, 200)
    t.equal(head.headers['content-length'], String(rawPayload.length))
    t.equal(head.payload, '')

    const known = await app.inject({ url, headers: { 'if-none-match': String(headers.etag) } })
    t.equal(known.statusCode, 304)
  }
  const unknown = await app.inject({ url: '/packages/tallyhouse.tgz' })
  t.equal(unknown.statusCode, 404)
  t.match(unknown.json(), { status: 0, code: 'not_found' })
})

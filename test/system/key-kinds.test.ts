import type { InjectOptions } from 'fastify'
import t from 'tap'
import { KEY_KINDS, type KeyKind } from '../../src/keys/keys.js'
import { newProject } from '../shared-app.js'

const ID = '018f0000-0000-7000-8000-000000000000'
const user = { distinct_id: 'u' }
const session = { ...user, session_id: 's' }

/** What each kind of key may do, call by call; a text is a body of lines. */
const CALLS: [InjectOptions['method'], string, object | string | undefined, KeyKind[]][] = [
  ['POST', '/public/track', { event: 'e', ...user }, ['secret', 'write']],
  ['POST', '/public/track/batch', { events: [{ event: 'e', ...user }] }, ['secret', 'write']],
  ['POST', '/public/import', JSON.stringify({ event: 'e', ...user }), ['secret', 'write']],
  ['POST', '/public/users/identify', user, ['secret', 'write']],
  ['POST', '/public/users/profile', { ...user, operations: { $set: { a: 1 } } }, ['secret', 'write']],
  ['POST', '/public/users/alias', { ...user, alias: 'other' }, ['secret', 'write']],
  ['POST', '/public/sessions/start', session, ['public', 'write']],
  ['POST', '/public/sessions/update', session, ['public', 'write']],
  ['POST', '/public/sessions/end', session, ['public', 'write']],
  ['GET', '/public/events', undefined, ['secret', 'read']],
  ['GET', `/public/events/${ID}`, undefined, ['secret', 'read']],
  ['GET', '/public/users', undefined, ['secret', 'read']],
  ['GET', '/public/users/u', undefined, ['secret', 'read']],
  ['GET', '/public/users/u/export', undefined, ['secret', 'read']],
  ['GET', '/public/sessions', undefined, ['secret', 'read']],
  ['GET', '/public/sessions/s', undefined, ['secret', 'read']],
  ['PUT', `/public/events/${ID}`, { properties: {} }, ['secret']],
  ['DELETE', `/public/events/${ID}`, undefined, ['secret']],
  ['DELETE', '/public/users/none', undefined, ['secret']],
  ['GET', '/public/keys', undefined, ['secret']],
  ['GET', '/public/audit', undefined, ['secret']],
  ['PATCH', '/public/keys/none', {}, ['secret']],
  ['POST', '/public/keys/none/rotate', {}, ['secret']],
  ['DELETE', '/public/keys/none', undefined, ['secret']],
  ['POST', '/public/users/erase', { distinct_ids: ['none'] }, ['secret']],
]

t.test('each kind of key may do what is documented, and nothing else', async (t) => {
  const { app, keys: byKind } = await newProject()
  const keys = KEY_KINDS.map((kind) => ({ kind, key: byKind[kind] }))
  const send = (method: InjectOptions['method'], url: string, body: object | string | undefined, headers: object) => {
    const type = typeof body === 'string' && { 'content-type': 'application/x-ndjson' }
    return app.inject({
      method: method ?? 'GET',
      url,
      headers: { ...headers, ...type },
      ...(body && { payload: body }),
    })
  }
  const origin = 'https://shop.example'
  for (const [method, url, body, kinds] of CALLS) {
    const isOpen = kinds.includes('write')
    const preflight = await send('OPTIONS', url, undefined, {
      origin,
      'access-control-request-method': method,
      'access-control-request-headers': 'content-type,x-api-key',
    })
    t.equal(preflight.headers['access-control-allow-origin'], isOpen ? '*' : undefined, `the preflight of ${url}`)
    if (isOpen) {
      t.match(preflight.headers['access-control-allow-headers'], 'x-api-key', url)
      t.match(preflight.headers['access-control-allow-methods'], 'POST', url)
    }
    for (const { kind, key } of keys) {
      for (const inBody of typeof body === 'object' ? [false, true] : [false]) {
        const what = `${method} ${url} with a ${kind} key in the ${inBody ? 'body' : 'header'}`
        const response = await send(method, url, inBody ? { ...(body as object), apiKey: key } : body, {
          ...(inBody ? {} : { origin, 'x-api-key': key }),
        })
        if (kinds.includes(kind)) {
          t.ok([200, 404, 409].includes(response.statusCode), `${what}: ${response.body}`)
        } else {
          t.equal(response.statusCode, 403, what)
          t.match(response.json(), { code: 'wrong_key_kind', error: new RegExp(`you sent a ${kind} key`) }, what)
        }
        t.notMatch(response.body, key, 'no key in a response')
        if (inBody) continue
        const isReadable = isOpen && !(kind === 'secret' && kinds.includes('secret'))
        t.equal(response.headers['access-control-allow-origin'], isReadable ? '*' : undefined, what)
        if (!isReadable) continue
        const exposed = String(response.headers['access-control-expose-headers'])
        for (const name of ['x-event-id', 'x-request-id']) t.match(exposed, name, `${url}: a page may read ${name}`)
      }
    }
  }
})

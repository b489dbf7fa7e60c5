import { gzipSync } from 'node:zlib'
import t from 'tap'
import { addSdkProject, basic, startSdkApp } from './sdk-app.js'

const ORIGIN = 'https://shop.example'
const track = (more: object = {}) => ({ type: 'track', event: 'e', userId: 'u', ...more })
const own = ({ properties }: { properties: Record<string, unknown> }) => {
  const { $segment: _, ...rest } = properties
  return rest
}

t.test("Segment's calls", async (t) => {
  const { keys, otherKey, inject, post, events, user } = await addSdkProject()

  await t.test('every path, with and without a trailing slash', async (t) => {
    const single = ['t', 'i', 'g', 'a', 'p', 's', 'track', 'identify', 'group', 'alias', 'page', 'screen']
    const batches = ['/v1/batch', '/v1/b', '/v1/import', '/beacon/v1/batch']
    for (const slash of ['', '/']) {
      for (const path of [...single.map((name) => `/v1/${name}`), ...batches]) {
        const message = track({ type: undefined, userId: 'paths', groupId: 'g', previousId: 'p' })
        const body = batches.includes(path) ? { batch: [track({ userId: 'paths' })] } : message
        const response = await post(`/segment${path}${slash}?whatever=%zz&_=1`, body)
        t.strictSame([response.statusCode, response.body], [200, '{"success":true}'], path + slash)
        t.equal(response.headers['content-type'], 'application/json; charset=utf-8')
        t.equal(response.headers['cache-control'], 'no-store')
      }
    }
    const names = (await events('&distinct_id=paths')).map(({ event }) => event)
    const count = (name: string) => names.filter((each) => each === name).length
    t.equal(names.length, 32)
    t.strictSame([count('e'), count('page'), count('$identify'), count('$alias')], [12, 4, 4, 4])
  })

  await t.test("Jitsu's paths: one message each, with the key in its own header", async (t) => {
    const writeKey = { 'x-write-key': `any:${keys.write}` }
    const send = (path: string, body: object, headers: Record<string, string> = writeKey) =>
      inject({ method: 'POST', url: `/jitsu/api/s${path}`, payload: JSON.stringify(body), headers })
    const userId = 'jitsu'
    const message = (more: object) => ({ userId, anonymousId: 'jitsu-anon', writeKey: 'any:***', ...more })
    const properties = { price: 9.9, nested: { unicode: 'é漢😀' } }
    for (const folder of ['', '/s2s']) {
      for (const slash of ['', '/']) {
        // A repetition has the same id.
        const track = message({ messageId: `jitsu${folder}`, event: 'e', properties })
        const response = await send(`${folder}/track${slash}`, track)
        t.strictSame([response.statusCode, response.body], [200, '{"ok":true}'], 'without the ok the SDK throws')
      }
    }
    const others = { identify: { traits: { plan: 'pro' } }, group: { groupId: 'j', traits: { seats: 5 } }, page: {} }
    for (const [name, more] of Object.entries(others)) {
      t.equal((await send(`/${name}`, message(more), { ...writeKey, origin: ORIGIN })).statusCode, 200, name)
    }
    const stored = await events('&distinct_id=jitsu')
    const names = stored.map(({ event }) => event).sort()
    t.strictSame(names, ['$group', '$identify', 'e', 'e', 'page'], 'each id once')
    for (const event of stored.filter((one) => one.event === 'e')) t.strictSame(own(event), properties)
    t.strictSame(await user('jitsu-anon'), { plan: 'pro' }, 'by its other name')
    t.strictSame(await user('$group:j'), { seats: 5 })
    t.notMatch(JSON.stringify(stored), keys.write)
    for (const headers of [{ 'x-write-key': 'any:wk_unknown' }, { 'x-write-key': keys.write.slice(1) }]) {
      const refused = await send('/track', message({ event: 'e' }), headers)
      t.strictSame([refused.statusCode, refused.json().code], [401, 'unauthorized'])
    }
    const preflight = await inject({
      method: 'OPTIONS',
      url: '/jitsu/api/s/track',
      headers: {
        origin: ORIGIN,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'content-type,x-write-key',
      },
    })
    t.equal(preflight.headers['access-control-allow-headers'], 'content-type,x-write-key')
  })

  await t.test('any content type and wrapping', async (t) => {
    const body = JSON.stringify({
      batch: [
        track({ userId: 'types', properties: { unicode: 'é漢😀', price: 9.9 }, context: { sessionId: 1_700_000_000 } }),
      ],
    })
    const types = [
      'text/plain;charset=UTF-8',
      'application/x-www-form-urlencoded',
      'application/octet-stream',
      'x/y',
      'json',
      '*/*',
      'text/plain;charset',
      '',
    ]
    for (const type of types)
      t.equal((await post('/segment/v1/batch', body, { 'content-type': type })).statusCode, 200, type)
    t.equal(
      (await inject({ method: 'POST', url: '/segment/v1/batch', headers: basic(keys.write), payload: body }))
        .statusCode,
      200,
    )
    t.equal((await post('/segment/v1/batch', gzipSync(body))).statusCode, 200, 'gzip without a header')
    const rudder = { 'content-encoding': 'gzip', 'content-type': 'application/x-www-form-urlencoded' }
    t.equal((await post('/segment/v1/batch', gzipSync(body), rudder)).statusCode, 200, 'as rudder-sdk-node sends it')
    const stored = await events('&distinct_id=types')
    t.equal(stored.length, types.length + 3)
    for (const event of stored) {
      t.strictSame(own(event), { unicode: 'é漢😀', price: 9.9 })
      t.equal(event.session_id, '1700000000')
    }
  })

  await t.test('keys in every place, and their kinds', async (t) => {
    const send = (body: object, headers = {}, query = '') =>
      inject({ method: 'POST', url: `/segment/v1/batch${query}`, headers, payload: JSON.stringify(body) })
    const batch = (more: object = {}) => ({ batch: [track({ userId: 'keys', ...more })] })
    const key = keys.write
    t.equal((await send(batch(), basic(key))).statusCode, 200)
    t.equal((await send(batch(), { authorization: `bearer ${key}` })).statusCode, 200)
    t.equal((await send({ ...batch(), writeKey: key })).statusCode, 200)
    t.equal((await send(batch({ writeKey: key }))).statusCode, 200)
    t.equal((await send(batch(), {}, `?writeKey=${key}`)).statusCode, 200)
    t.equal((await send({ ...batch(), writeKey: key }, basic('wk_unknown'))).statusCode, 200, 'the one that is known')
    t.equal((await send(batch(), basic(keys.secret))).statusCode, 200)
    const stored = await events('&distinct_id=keys')
    t.equal(stored.length, 7)
    t.notMatch(JSON.stringify(stored), /[sw]k_/, 'no key is stored')
    for (const headers of [{}, basic('wk_unknown'), basic('')]) {
      const refused = await send(batch(), headers)
      t.equal(refused.statusCode, 401, JSON.stringify(headers))
      t.match(refused.json(), { success: false, code: 'unauthorized' })
    }
    for (const kind of ['public', 'read'] as const) {
      t.match((await send(batch(), basic(keys[kind]))).json(), { success: false, code: 'wrong_key_kind' }, kind)
    }
    const mixed = {
      batch: [track({ userId: 'mixed' }), track({ userId: 'mixed', event: 'foreign', writeKey: otherKey })],
    }
    t.equal((await post('/segment/v1/batch', mixed)).statusCode, 200)
    t.strictSame(
      (await events('&distinct_id=mixed')).map(({ event }) => event),
      ['e'],
    )
  })

  await t.test('pages of any origin may call it', async (t) => {
    const cors = {
      'access-control-allow-origin': ORIGIN,
      'access-control-allow-credentials': 'true',
      vary: /Origin/i,
    }
    const preflight = await inject({
      method: 'OPTIONS',
      url: '/segment/v1/t',
      headers: {
        origin: ORIGIN,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,x-retry-count,x-own',
      },
    })
    t.equal(preflight.statusCode, 204)
    t.match(preflight.headers, {
      ...cors,
      'access-control-allow-headers': 'authorization,x-retry-count,x-own',
      'access-control-allow-methods': 'GET, POST',
      'access-control-max-age': '7200',
    })
    const sent = await post('/segment/v1/t', track(), { origin: ORIGIN })
    t.match(sent.headers, { ...cors, 'access-control-expose-headers': 'retry-after' })
    const unknown = await inject({ method: 'POST', url: '/segment/v1/t', headers: { origin: ORIGIN }, payload: '{}' })
    t.match([unknown.statusCode, unknown.headers], [401, cors], 'an error, too')
    const missing = await inject({ method: 'POST', url: '/segment/none', headers: { origin: ORIGIN }, payload: 'x' })
    t.match([missing.statusCode, missing.headers, missing.json()], [404, cors, { success: false, code: 'not_found' }])
  })

  await t.test('the settings that SDKs request at their start', async (t) => {
    const settings = async (headers: Record<string, string>) => {
      const response = await inject({ url: `/segment/v1/projects/${keys.write}/settings`, headers })
      t.match(response.headers, { 'cache-control': 'no-store' })
      return response.json().integrations['Segment.io']
    }
    const host = 'events.example:8080'
    const wanted = { apiKey: keys.write, apiHost: `${host}/segment/v1` }
    t.strictSame(await settings({ host }), { ...wanted, protocol: 'http' })
    t.strictSame(await settings({ host, origin: ORIGIN }), { ...wanted, protocol: 'https' }, 'a page with TLS')
    t.strictSame(await settings({ host, 'x-forwarded-proto': 'https, http' }), { ...wanted, protocol: 'https' })
    t.strictSame(await settings({ host, 'x-forwarded-proto': 'x"y' }), { ...wanted, protocol: 'http' })
    for (const slash of ['', '/']) {
      const rudder = await inject({ url: `/segment/sourceConfig${slash}?writeKey=x&p=web`, headers: basic('x') })
      t.strictSame(rudder.json(), {
        source: { id: 's', config: {}, enabled: true, workspaceId: 'w', destinations: [] },
      })
    }
  })

  await t.test('a message that cannot be stored does not affect the others', async (t) => {
    let deep = '1'
    for (let i = 0; i < 100; i++) deep = `[${deep}]`
    const batch = [
      track({ userId: 'faults' }),
      track({ userId: 'faults', event: '' }),
      track({ userId: 'x'.repeat(300) }),
      track({ userId: 'faults', properties: 'text' }),
      { type: 'identify', userId: 'faults', traits: { plan: 'pro' } },
      null,
    ]
    const text = JSON.stringify({ batch }).replace(
      'null]',
      `{"type":"track","event":"deep","userId":"faults","properties":${deep}}]`,
    )
    const response = await post('/segment/v1/batch', text)
    t.strictSame([response.statusCode, response.body], [200, '{"success":true}'])
    t.strictSame((await events('&distinct_id=faults')).map(({ event }) => event).sort(), ['$identify', 'e'])
    t.strictSame(await user('faults'), { plan: 'pro' })
  })

  await t.test('nesting that is too deep, anywhere', async (t) => {
    const nested = (levels: number): unknown => (levels === 0 ? 1 : { a: nested(levels - 1) })
    const count = async () => (await events('&distinct_id=deep')).length
    for (const [message, stored] of [
      [{ properties: nested(256) }, 1],
      [{ properties: nested(257) }, 1],
      [{ context: nested(254) }, 2],
      [{ context: nested(255) }, 2],
    ] as const) {
      t.equal((await post('/segment/v1/t', track({ userId: 'deep', ...message }))).statusCode, 200)
      t.equal(await count(), stored)
    }
    t.equal((await post('/segment/v1/i', { userId: 'deep', traits: nested(257) })).statusCode, 200)
    t.equal(await user('deep'), undefined)
  })

  await t.test('bodies that are not messages', async (t) => {
    for (const body of ['{', '{"batch":{}}', '[]', 'hello', '{"a":1}x', '"text"']) {
      const response = await post('/segment/v1/batch', body)
      t.equal(response.statusCode, 400, body)
      t.match(response.json(), { success: false, message: String, code: /^invalid_(json|request)$/ }, body)
    }
    t.equal((await post('/segment/v1/batch', '')).statusCode, 200, 'nothing')
    const unreadable = await post('/segment/v1/batch', '{}', { 'content-encoding': 'gzip' })
    t.equal(unreadable.statusCode, 400)
  })
})

t.test("limits of Segment's calls", async (t) => {
  const { keys, inject, post, events, client } = await startSdkApp(t, {
    BATCH_BODY_LIMIT: '1000000',
    RATE_LIMIT: '20',
    RATE_LIMIT_WINDOW: '1000',
    WRONG_KEY_LIMIT: '10',
  })
  const held = async (kind: 'known' | 'unknown') => {
    const { body } = await client.call('GET', '/metrics')
    return Number(new RegExp(`^tallyhouse_body_memory_bytes\\{key="${kind}"\\} (\\d+)$`, 'm').exec(body)?.[1])
  }

  await t.test('bodies that are too large, compressed or inflated', async (t) => {
    const large = JSON.stringify({ batch: [track({ properties: { a: 'x'.repeat(1_000_000) } })] })
    for (const [body, headers] of [
      [large, {}],
      [gzipSync(large), {}],
      [gzipSync(large), { 'content-encoding': 'gzip' }],
      [gzipSync(gzipSync(large)), { 'content-encoding': 'gzip' }],
    ] as const) {
      const response = await post('/segment/v1/batch', body, headers)
      t.equal(response.statusCode, 413)
      t.match(response.json(), { success: false, code: 'payload_too_large' })
    }
    const before = await held('unknown')
    const bomb = gzipSync(JSON.stringify({ writeKey: 'wk_unknown', batch: ['x'.repeat(900_000)] }))
    t.ok(bomb.length < 8192, 'too small to be counted on arrival')
    const refused = await inject({ method: 'POST', url: '/segment/v1/batch', payload: bomb })
    t.equal(refused.statusCode, 401)
    t.ok((await held('unknown')) - before > 900_000, 'its inflated size is counted, and stays counted for a while')
  })

  await t.test('many events, and too many values', async (t) => {
    const many = { batch: Array.from({ length: 2500 }, (_, i) => track({ userId: 'many', event: `e${i}` })) }
    t.equal((await post('/segment/v1/batch', gzipSync(JSON.stringify(many)))).statusCode, 200)
    const pages = await Promise.all([1, 2, 3].map((page) => events(`&distinct_id=many&page=${page}`)))
    t.equal(new Set(pages.flat().map(({ event }) => event)).size, 2500)
  })

  await t.test('requests of a key, and wrong keys of an address', async (t) => {
    const statuses: number[] = []
    let last = await post('/segment/v1/t', track())
    for (let i = 0; i < 30; i++) {
      last = await post('/segment/v1/t', track())
      statuses.push(last.statusCode)
    }
    t.strictSame([statuses[0], statuses.at(-1)], [200, 429], 'a rate limit, which its SDKs wait for')
    t.match(last.json(), { success: false, code: 'rate_limited' })
    t.match(last.headers, { 'retry-after': /^\d+$/ })
    const posthog = { api_key: keys.write, batch: [{ event: 'e', distinct_id: 'u' }] }
    const refused = await post('/posthog/batch', posthog)
    t.equal(refused.statusCode, 503, 'posthog-js drops what gets a 429')
    t.match(refused.headers, { 'retry-after': /^\d+$/ })
    let wrong = 0
    for (let i = 0; i < 20; i++) {
      wrong = (await inject({ method: 'POST', url: '/posthog/e', payload: '{"api_key":"wk_wrong","batch":[]}' }))
        .statusCode
    }
    t.equal(wrong, 429)
  })
})

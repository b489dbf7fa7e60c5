import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { Redis } from 'ioredis'
import t from 'tap'
import { type Client, clientOf, randomName, startApp, until } from '../helper.js'
import { newProject, sharedApp } from '../shared-app.js'

const DONE = '{"status":1,"error":null}'

interface User {
  distinct_id: string
  properties: Record<string, unknown>
  created_at: number
  updated_at: number
}

/** Ids that could be misread in a path, a query parameter, SQL or JSON. */
const AWKWARD_IDS = [
  'a/b/c',
  'a b+c&d=e;f,g:h@i!j$k(l)*m~',
  '%',
  '%2F',
  '%2e%2e',
  'a?b#c',
  '😀'.repeat(255),
  `it's "quoted" \`so\``,
  'back\\slash \\n \\0 \\x41 \\',
  'tab\tline\nreturn\rnul\u0000bell\u0007',
  "'); DROP TABLE profiles --",
  '{id:String}',
  '__proto__',
  'null',
  ' ',
  '\ufeffmark\u2028',
  'é',
  'e\u0301',
]

/** A name for an assertion, which must be one short line. */
const nameOf = (id: string) => encodeURIComponent([...id].slice(0, 20).join(''))

const path = (id: string) => `/public/users/${encodeURIComponent(id)}`

function callsOf({ call }: Client) {
  const identify = (distinct_id: string, properties?: unknown) =>
    call('POST', '/public/users/identify', { distinct_id, ...(properties !== undefined && { properties }) })
  const change = (distinct_id: string, operations: unknown, headers = {}) =>
    call('POST', '/public/users/profile', { distinct_id, operations }, headers)
  const read = async (id: string): Promise<User> => {
    const response = await call('GET', path(id))
    if (response.statusCode !== 200) throw new Error(`${response.statusCode} ${response.body}`)
    return response.json().user
  }
  const properties = async (id: string) => (await read(id)).properties
  const list = async (query = ''): Promise<User[]> => {
    const users: User[] = []
    for (let page = 1; ; page++) {
      const answer = (await call('GET', `/public/users?limit=1000&page=${page}${query}`)).json()
      users.push(...answer.users)
      if (!answer.hasMore) return users
    }
  }
  return { identify, change, read, properties, list }
}

t.test('users', async (t) => {
  const { env, ...service } = await sharedApp('lanes')
  const client = await newProject(service)
  const { call, browser, keys } = client
  const other = await startApp(t, { ...env, DELETE_USER_EVENTS: 'true' })
  /** the same project at a service that deletes events with their user */
  const deleting = clientOf(other.app, other.config, keys)
  const { identify, change, read, properties, list } = callsOf(client)

  t.test('identify creates or replaces a profile', async (t) => {
    const before = Date.now()
    const response = await identify('ann', { plan: 'free', n: 1 })
    t.equal(response.statusCode, 200)
    t.equal(response.body, DONE)
    t.match(response.headers['content-type'], /^application\/json/)
    const created = await read('ann')
    t.same(created.properties, { plan: 'free', n: 1 })
    t.ok(created.created_at >= before && created.created_at <= Date.now(), 'created_at is in milliseconds')
    t.equal(created.updated_at, created.created_at)

    await until('the clock to move', () => Date.now() > created.created_at)
    await identify('ann', { name: 'Ann' })
    const overwritten = await read('ann')
    t.same(overwritten.properties, { name: 'Ann' }, 'earlier properties are gone')
    t.equal(overwritten.created_at, created.created_at)
    t.ok(overwritten.updated_at > created.updated_at)

    await identify('ann', {})
    t.same(await properties('ann'), {}, 'with no properties at all, too')
  })

  t.test('identify without properties makes sure that a profile exists', async (t) => {
    for (const [name, given] of [
      ['absent', undefined],
      ['null', null],
    ] as const) {
      t.equal((await identify(name, given)).body, DONE, name)
      t.same(await properties(name), {}, name)
      await identify(name, { kept: [1] })
      t.equal((await identify(name, given)).body, DONE, name)
      t.same(await properties(name), { kept: [1] }, name)
    }
  })

  t.test('invalid fields of identify are named', async (t) => {
    const rows: [body: object, path: string][] = [
      [{}, '/distinct_id'],
      [{ distinct_id: null }, '/distinct_id'],
      [{ distinct_id: 1 }, '/distinct_id'],
      [{ distinct_id: '' }, '/distinct_id'],
      [{ distinct_id: 'x'.repeat(256) }, '/distinct_id'],
      [{ distinct_id: '😀'.repeat(256) }, '/distinct_id'],
      [{ distinct_id: 'x', properties: [] }, '/properties'],
      [{ distinct_id: 'x', properties: 'a' }, '/properties'],
      [{ distinct_id: 'x', properties: 1 }, '/properties'],
    ]
    for (const [body, at] of rows) {
      const response = await call('POST', '/public/users/identify', body)
      const { status, error, code, details } = response.json()
      t.equal(response.statusCode, 400, JSON.stringify(body))
      t.same([status, code, details[0].path], [0, 'invalid_request', at], JSON.stringify(body))
      t.type(error, 'string')
    }
    for (const body of ['', '{', '{"distinct_id":"x"', 'distinct_id=x', Buffer.from([0x7b, 0xff, 0x7d])]) {
      const response = await call('POST', '/public/users/identify', body)
      t.same([response.statusCode, response.json().code], [400, 'invalid_json'], String(body))
    }
    for (const body of ['[]', 'null', '1', '"x"']) {
      const response = await call('POST', '/public/users/identify', body)
      t.same([response.statusCode, response.json().code], [400, 'invalid_request'], body)
    }
    t.equal((await identify('x'.repeat(255))).statusCode, 200, '255 characters are not too many')
    t.equal(
      (await call('POST', '/public/users/identify', { distinct_id: 'x', other: 1 })).statusCode,
      200,
      'unknown fields are ignored',
    )
  })

  t.test('a secret key is required before anything else is checked', async (t) => {
    const callWith = (apiKey: string | null, method: 'GET' | 'POST' | 'DELETE', url: string, payload?: object) =>
      client.app.inject({
        method,
        url,
        headers: { ...(apiKey !== null && { 'x-api-key': apiKey }) },
        ...(payload && { payload }),
      })
    const calls = [
      ['POST', '/public/users/identify', {}],
      ['POST', '/public/users/profile', {}],
      ['DELETE', '/public/users/nobody', undefined],
      ['GET', '/public/users/nobody', undefined],
      ['GET', '/public/users?limit=0', undefined],
    ] as const
    for (const [method, url, body] of calls) {
      for (const [apiKey, status, code] of [
        [null, 401, 'unauthorized'],
        ['sk_unknown', 401, 'unauthorized'],
        [keys.public, 403, 'wrong_key_kind'],
      ] as const) {
        const response = await callWith(apiKey, method, url, body)
        t.same([response.statusCode, response.json().code], [status, code], `${method} ${url} ${apiKey}`)
      }
    }
    const inQuery = await callWith(null, 'GET', `/public/users?apiKey=${keys.secret}`)
    t.equal(inQuery.statusCode, 401, 'a key in the query is not looked at')
    t.equal((await browser('/public/users/identify', { distinct_id: 'x' })).statusCode, 403)
    const both = await call('POST', '/public/users/identify', { apiKey: 'sk_other_one', distinct_id: 'x' })
    t.equal(both.statusCode, 401, 'two keys that differ')
  })

  t.test('bodies may be compressed', async (t) => {
    for (const [encoding, compress] of Object.entries({
      gzip: gzipSync,
      deflate: deflateSync,
      br: brotliCompressSync,
    })) {
      const body = compress(`{"distinct_id":"${encoding}","properties":{"a":1.0}}`)
      const response = await call('POST', '/public/users/identify', body, { 'content-encoding': encoding })
      t.same([response.statusCode, response.body], [200, DONE], encoding)
    }
  })

  t.test('every operation works', async (t) => {
    const rows: [operations: object, expected: object][] = [
      [{ $set: { a: 1, b: [1], c: null } }, { a: 1, b: [1], c: null }],
      [{ $add: { a: 2, n: -0.5 } }, { a: 3, b: [1], c: null, n: -0.5 }],
      [{ $append: { b: [2], l: 'x' } }, { a: 3, b: [1, [2]], c: null, n: -0.5, l: ['x'] }],
      [{ $set_once: { a: 9, c: 9, o: 9 } }, { a: 3, b: [1, [2]], c: null, n: -0.5, l: ['x'], o: 9 }],
      [{ $unset: ['n', 'o', 'c', 'missing'] }, { a: 3, b: [1, [2]], l: ['x'] }],
      [{ $union: { b: [[2], 3, 3], u: [1, 1] } }, { a: 3, b: [1, [2], 3], l: ['x'], u: [1] }],
      [{ $remove: { b: [2], l: 'x', missing: 1 } }, { a: 3, b: [1, 3], l: [], u: [1] }],
      [{ $set: {} }, { a: 3, b: [1, 3], l: [], u: [1] }],
    ]
    const created = Date.now()
    for (const [operations, expected] of rows) {
      const response = await change('each', operations)
      t.same([response.statusCode, response.body], [200, DONE], JSON.stringify(operations))
      t.strictSame(await properties('each'), expected, JSON.stringify(operations))
    }
    const user = await read('each')
    t.ok(user.created_at >= created && user.updated_at >= user.created_at, 'a missing profile was created')
  })

  t.test('operations apply in the documented order, not in that of the request', async (t) => {
    await change('order', {
      $remove: { u: 1 },
      $union: { u: [1, 2] },
      $unset: ['u', 's'],
      $set_once: { s: 1, n: 100, l: 0 },
      $append: { l: 2 },
      $add: { n: 5 },
      $set: { n: 1, l: [1], u: 0 },
    })
    t.strictSame(await properties('order'), { n: 6, l: [1, 2], u: [2] })
  })

  t.test('refused operations change nothing', async (t) => {
    await identify('refused', { s: 'x', n: 1, l: [1], nothing: null })
    const before = await read('refused')
    const rows: [operations: unknown, code: string][] = [
      [{}, 'invalid_request'],
      [null, 'invalid_request'],
      [[], 'invalid_request'],
      [[{ $set: { a: 1 } }], 'invalid_request'],
      ['$set', 'invalid_request'],
      [{ $set: null }, 'invalid_request'],
      [{ $foo: { a: 1 } }, 'invalid_request'],
      [{ set: { a: 1 } }, 'invalid_request'],
      [{ $set: { a: 1 }, $inc: { n: 1 } }, 'invalid_request'],
      [{ $set: 1 }, 'invalid_request'],
      [{ $add: { n: '1' } }, 'invalid_request'],
      [{ $add: { n: null } }, 'invalid_request'],
      [{ $unset: { n: 1 } }, 'invalid_request'],
      [{ $unset: [1] }, 'invalid_request'],
      [{ $union: { l: 1 } }, 'invalid_request'],
      [{ $set: { a: 1 }, $add: { s: 1 } }, 'not_numeric'],
      [{ $set: { a: 1 }, $add: { nothing: 1 } }, 'not_numeric'],
      [{ $set: { a: 1 }, $add: { n: 1, l: 1 } }, 'not_numeric'],
      [{ $add: { n: 1 }, $append: { s: 1 } }, 'not_array'],
      [{ $add: { n: 1 }, $append: { nothing: 1 } }, 'not_array'],
      [{ $set: { a: [] }, $append: { a: 1, n: 1 } }, 'not_array'],
      [{ $unset: ['l'], $union: { n: [1] } }, 'not_array'],
      [{ $unset: ['l'], $remove: { s: 1 } }, 'not_array'],
    ]
    for (const [operations, code] of rows) {
      const response = await change('refused', operations)
      const answer = response.json()
      t.same([response.statusCode, answer.status, answer.code], [400, 0, code], JSON.stringify(operations))
      t.ok(answer.details?.[0].path.startsWith('/operations'), JSON.stringify(answer))
    }
    t.strictSame(await read('refused'), before)
    t.equal((await call('POST', '/public/users/profile', { distinct_id: 'refused' })).statusCode, 400)
    t.equal((await change('never', { $add: { a: 'x' } })).statusCode, 400)
    t.equal((await call('GET', path('never'))).statusCode, 404, 'nor is a profile created')
  })

  t.test('a profile may be as large as a body, but not grow further', async (t) => {
    const properties = { x: 'x'.repeat(1024 * 1024 - 76), y: 1 }
    const identified = await call('POST', '/public/users/identify', { distinct_id: 'large', properties })
    t.equal(identified.statusCode, 200, identified.body)
    const refused = await change('large', { $append: { l: 'y'.repeat(200) } })
    t.equal(refused.statusCode, 413)
    t.match(refused.json(), { code: 'payload_too_large', error: /over 1048576 bytes/ })
    t.strictSame((await call('GET', '/public/users/large')).json().user.properties, properties)
  })

  t.test('concurrent $add of 1 all count', async (t) => {
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, i) => change('counter', { $add: { n: 1 }, $append: { l: i } })),
    )
    t.ok(answers.every(({ statusCode }) => statusCode === 200))
    const { n, l } = (await properties('counter')) as { n: number; l: number[] }
    t.equal(n, 200)
    t.same(
      [...l].sort((a, b) => a - b),
      Array.from({ length: 200 }, (_, i) => i),
    )
  })

  t.test('concurrent changes of many users, some of them refused', async (t) => {
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, i) =>
        change(`many-${i % 6}`, i % 3 === 2 ? { $add: { n: 1 }, $append: { n: 1 } } : { $add: { n: 1 } }),
      ),
    )
    t.ok(answers.every(({ statusCode }, i) => statusCode === (i % 3 === 2 ? 400 : 200)))
    for (let user = 0; user < 6; user++) {
      const response = await call('GET', path(`many-${user}`))
      if (user % 3 === 2) t.equal(response.statusCode, 404)
      else t.same(response.json().user.properties, { n: 10 })
    }
  })

  t.test('concurrent $add over two services all count', async (t) => {
    const services = [client, deleting]
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, i) => {
        const { call } = services[i % 2] as Client
        return call('POST', '/public/users/profile', { distinct_id: 'shared', operations: { $add: { n: 1 } } })
      }),
    )
    t.same(
      answers.filter(({ statusCode }) => statusCode !== 200).map(({ body }) => body),
      [],
    )
    t.same(await properties('shared'), { n: 200 })
  })

  t.test('identical keyed requests to two services count once', async (t) => {
    const services = [client, deleting]
    for (let round = 0; round < 8; round++) {
      const id = `keyed-${round}`
      const body = { distinct_id: id, operations: { $add: { n: 1 } } }
      const headers = { 'idempotency-key': randomName('key') }
      const answers = await Promise.all(
        Array.from({ length: 6 }, (_, i) =>
          (services[i % 2] as Client).call('POST', '/public/users/profile', body, headers),
        ),
      )
      t.ok(
        answers.every(({ statusCode, body }) => statusCode === 200 && body === DONE),
        answers.map(({ body }) => body).join(),
      )
      t.same(await properties(id), { n: 1 })
    }
  })

  t.test('Idempotency-Key: a repeated call changes nothing', async (t) => {
    const key = { 'idempotency-key': randomName('key') }
    for (let i = 0; i < 3; i++) {
      const response = await change('idem', { $add: { n: 1 } }, key)
      t.same([response.statusCode, response.body], [200, DONE])
    }
    t.same(await properties('idem'), { n: 1 }, 'a repeated $add counts once')

    const other = await change('idem', { $add: { n: 2 } }, key)
    t.same([other.statusCode, other.json().code], [409, 'idempotency_conflict'])
    t.same(await properties('idem'), { n: 1 })

    const fresh = { 'idempotency-key': randomName('key') }
    t.equal((await change('idem', { $add: { n: 1 } }, fresh)).statusCode, 200)
    t.same(await properties('idem'), { n: 2 }, 'another key is another request')

    const same = { 'idempotency-key': randomName('key') }
    const answers = await Promise.all(Array.from({ length: 20 }, () => change('idem', { $add: { n: 10 } }, same)))
    t.ok(answers.every(({ statusCode, body }) => statusCode === 200 && body === DONE))
    t.same(await properties('idem'), { n: 12 }, 'concurrent ones count once')

    const mixed = { 'idempotency-key': randomName('key') }
    const codes = await Promise.all([1, 2, 1, 2].map((n) => change('mixed', { $add: { n } }, mixed)))
    const first = (await properties('mixed')).n
    t.same(
      codes.map(({ statusCode }) => statusCode),
      [1, 2, 1, 2].map((n) => (n === first ? 200 : 409)),
      'only one of two bodies with the same key counts',
    )

    const self = { 'idempotency-key': randomName('key') }
    const once = { $add: { p: 1 }, $unset: ['p'], $union: { p: [1] } }
    t.equal((await change('self', once, self)).statusCode, 200)
    t.equal((await change('self', once, self)).statusCode, 200, 'the first response, not that of a second execution')

    const deleted = { 'idempotency-key': randomName('key') }
    await change('idem-deleted', { $add: { n: 1 } }, deleted)
    t.equal((await call('DELETE', path('idem-deleted'))).statusCode, 200)
    t.equal((await change('idem-deleted', { $add: { n: 1 } }, deleted)).statusCode, 200)
    t.equal((await call('GET', path('idem-deleted'))).statusCode, 404, 'a repeat changes nothing')
  })

  t.test('Idempotency-Key: length', async (t) => {
    for (const [length, status] of [
      [0, 400],
      [1, 200],
      [255, 200],
      [256, 400],
    ] as const) {
      const response = await change('length', { $set: { length } }, { 'idempotency-key': 'k'.repeat(length) })
      t.equal(response.statusCode, status, `${length} characters`)
    }
  })

  t.test('GET user: exact shape, and properties as they were spelled', async (t) => {
    const text =
      '{"z":1.0,"big":12345678901234567890,"e":1e400,"10":true,"2":"\\u0041\\/","nested":{"b" : 1.50, "a":[ ]},"__proto__":null}'
    await call('POST', '/public/users/identify', `{ "properties" : ${text}, "distinct_id":"exact" }`)
    const response = await call('GET', path('exact'))
    t.equal(response.statusCode, 200)
    t.match(response.headers['content-type'], /^application\/json/)
    const { created_at, updated_at } = response.json().user
    t.equal(
      response.body,
      `{"status":1,"error":null,"user":{"distinct_id":"exact","properties":${text},"created_at":${created_at},"updated_at":${updated_at}}}`,
    )
    const listed = await call('GET', '/public/users?limit=10000')
    t.ok(listed.body.includes(`{"distinct_id":"exact","properties":${text},"created_at":${created_at},`))

    await call(
      'POST',
      '/public/users/profile',
      '{"distinct_id":"exact","operations":{"$add":{"big":1},"$set":{"f":2.50}}}',
    )
    const after = await call('GET', path('exact'))
    t.ok(after.body.includes('"big":12345678901234567891'))
    t.ok(after.body.includes('"f":2.50'))
    t.ok(after.body.includes('"z":1.0,'))

    const unknown = await call('GET', path('unknown'))
    t.equal(unknown.statusCode, 404)
    t.match(unknown.json(), { status: 0, code: 'not_found', error: String })
  })

  t.test('GET users: pages', async (t) => {
    const ids = Array.from({ length: 7 }, (_, i) => `page-${i}`)
    await Promise.all(ids.map((id) => identify(id, { id })))
    const all = await list()
    t.same(
      all.filter(({ distinct_id }) => distinct_id.startsWith('page-')).map(({ properties }) => properties.id),
      ids,
      'every profile is in it immediately',
    )
    const walked: User[] = []
    for (let page = 1; ; page++) {
      const response = await call('GET', `/public/users?limit=5&page=${page}`)
      const answer = response.json()
      t.same(Object.keys(answer), ['status', 'error', 'users', 'page', 'limit', 'hasMore'])
      t.same([answer.status, answer.error, answer.page, answer.limit], [1, null, page, 5])
      t.match(response.headers['content-type'], /^application\/json/)
      walked.push(...answer.users)
      t.equal(answer.users.length, Math.min(5, all.length - (page - 1) * 5))
      t.equal(answer.hasMore, walked.length < all.length)
      if (!answer.hasMore) break
    }
    t.strictSame(walked, all)
    t.ok(all.every(({ distinct_id, created_at, updated_at }) => distinct_id && created_at <= updated_at))

    const exactly = (await call('GET', `/public/users?limit=${all.length}`)).json()
    t.same([exactly.users.length, exactly.hasMore], [all.length, false], 'a page that is just full')
    const oneLess = (await call('GET', `/public/users?limit=${all.length - 1}`)).json()
    t.same([oneLess.users.length, oneLess.hasMore], [all.length - 1, true])
    const beyond = (await call('GET', '/public/users?page=1000000')).json()
    t.same([beyond.users, beyond.hasMore], [[], false])
    const defaults = (await call('GET', '/public/users')).json()
    t.same([defaults.page, defaults.limit, defaults.users.length], [1, 50, Math.min(50, all.length)])
    t.equal((await call('GET', '/public/users?limit=1&page=1')).statusCode, 200)
  })

  t.test('GET users: invalid limits and pages', async (t) => {
    const bad = ['0', '1.5', '10001', '', '1e3', '1%00']
    for (const text of bad) {
      const response = await call('GET', `/public/users?limit=${text}`)
      t.same([response.statusCode, response.json().code], [400, 'invalid_request'], `limit=${text}`)
      if (text === '10001') continue
      const page = await call('GET', `/public/users?page=${text}`)
      t.same([page.statusCode, page.json().code], [400, 'invalid_request'], `page=${text}`)
    }
    t.equal((await call('GET', '/public/users?limit=1&limit=2')).statusCode, 400)
    t.equal((await call('GET', '/public/users?limit=10000')).statusCode, 200)
  })

  t.test('GET user export: everything of a user, and nothing of others', async (t) => {
    const exact = '{"z":1.0,"big":12345678901234567890,"e":1e400,"n":[ 1,{"a" : 1e0}]}'
    const post = (url: string, body: string) => call('POST', url, body)
    const exported = (id: string) => call('GET', `${path(id)}/export`)
    for (const id of ['a/b/../?x=1#%2F', '"\\\n😀']) {
      const name = JSON.stringify(id)
      for (const other of [`${id.slice(1)}x`, 'somebody']) {
        await call('POST', '/public/track', { event: 'of another', distinct_id: other })
      }
      t.equal((await exported(id)).json().code, 'not_found', 'nothing yet')
      await post('/public/track', `{"event":"first","distinct_id":${name},"properties":${exact},"timestamp":7}`)
      const onlyEvent = (await exported(id)).body
      t.match(onlyEvent, /^{"type":"event","eventId":"[^"]+","event":"first"/, 'data accepted a moment ago')
      t.match(onlyEvent, new RegExp(`"properties":${exact.replace(/[[{.]/g, '\\$&')},"timestamp":7}\n$`))
      await post('/public/users/identify', `{"distinct_id":${name},"properties":${exact}}`)
      const sessionId = randomName('session')
      const started = await client.app.inject({
        method: 'POST',
        url: '/public/sessions/start',
        headers: { 'content-type': 'application/json', 'x-api-key': keys.public },
        payload: `{"distinct_id":${name},"session_id":"${sessionId}","properties":${exact}}`,
      })
      t.equal(started.statusCode, 200, started.body)
      await post('/public/track', `{"event":"second","distinct_id":${name},"properties":{"a":\r\n1}}`)
      const response = await exported(id)
      t.equal(response.headers['content-type'], 'application/x-ndjson; charset=utf-8')
      const lines = response.body.split('\n')
      t.equal(lines.pop(), '')
      const records = lines.map((line) => JSON.parse(line))
      t.strictSame(
        records.map(({ type, event, session_id }) => [type, event ?? session_id]),
        [
          ['profile', undefined],
          ['session', sessionId],
          ['event', 'first'],
          ['event', 'second'],
        ],
      )
      for (const line of lines.slice(0, 3)) t.ok(line.includes(`"properties":${exact},`), line)
      t.ok(lines[3]?.includes('"properties":{"a":  1},'), 'a line break is a space')
      for (const record of records) t.equal(record.distinct_id, id)
      const { type, ...profile } = records[0]
      t.strictSame(profile, await read(id))
      const { type: _, ...session } = records[1]
      t.strictSame(session, (await call('GET', `/public/sessions/${sessionId}`)).json().session)
      await call('DELETE', path(id))
      t.strictSame((await exported(id)).body, `${lines.slice(1).join('\n')}\n`, 'without the profile')
    }
    t.equal((await call('GET', '/public/users/x/export?format=csv')).json().code, 'invalid_request')
  })

  t.test('DELETE user: removes the profile', async (t) => {
    const unknown = await call('DELETE', path('nobody'))
    t.same([unknown.statusCode, unknown.json().code], [404, 'not_found'])

    await identify('gone', { a: 1 })
    const { created_at } = await read('gone')
    t.ok((await list()).some(({ distinct_id }) => distinct_id === 'gone'))
    const response = await call('DELETE', path('gone'))
    t.same([response.statusCode, response.body], [200, DONE])
    t.equal((await call('GET', path('gone'))).statusCode, 404)
    t.notOk((await list()).some(({ distinct_id }) => distinct_id === 'gone'))
    t.equal((await call('DELETE', path('gone'))).statusCode, 404, 'a second time')

    await until('the clock to move', () => Date.now() > created_at)
    await identify('gone')
    const fresh = await read('gone')
    t.same(fresh.properties, {}, 'a later identify starts an empty profile')
    t.ok(fresh.created_at > created_at, 'it was created now')
    t.same((await list()).filter(({ distinct_id }) => distinct_id === 'gone').length, 1)

    await call('DELETE', path('gone'))
    await change('gone', { $add: { n: 1 } })
    t.same(await properties('gone'), { n: 1 }, '$add begins at 0 again')

    for (const type of ['application/json', 'application/x-www-form-urlencoded', 'text/plain']) {
      await identify('gone')
      const withType = await call('DELETE', path('gone'), undefined, { 'content-type': type })
      t.equal(withType.statusCode, 200, `the type of a body that is not there does not matter: ${type}`)
    }
    await identify('gone')
    const withBody = await call('DELETE', path('gone'), 'a=b', {
      'content-type': 'application/x-www-form-urlencoded',
    })
    t.same([withBody.statusCode, withBody.json().code], [415, 'unsupported_media_type'])
  })

  t.test('DELETE user: keeps the events by default', async (t) => {
    await identify('leaver')
    await call('POST', '/public/track', { event: 'kept', distinct_id: 'leaver' })
    t.equal((await call('DELETE', path('leaver'))).statusCode, 200)
    t.equal((await client.events(1000, '&distinct_id=leaver')).length, 1)
  })

  t.test('DELETE user: only one of several concurrent calls finds the user', async (t) => {
    await identify('race')
    const answers = await Promise.all(Array.from({ length: 10 }, () => call('DELETE', path('race'))))
    t.same(answers.map(({ statusCode }) => statusCode).sort(), [200, ...Array(9).fill(404)])
  })

  t.test('any id works', async (t) => {
    for (const id of AWKWARD_IDS) {
      const shown = nameOf(id)
      t.equal((await identify(id, { id })).statusCode, 200, shown)
      const response = await call('GET', path(id))
      t.equal(response.statusCode, 200, shown)
      t.same([response.json().user?.distinct_id, response.json().user?.properties], [id, { id }], shown)
    }
    const listed = (await list()).filter(({ distinct_id, properties }) => distinct_id === properties.id)
    const expected = [...AWKWARD_IDS, ...Array.from({ length: 7 }, (_, i) => `page-${i}`)]
    t.same(listed.map(({ distinct_id }) => distinct_id).sort(), expected.sort())

    t.equal((await call('DELETE', path('%2F'))).statusCode, 200)
    t.equal((await call('GET', path('%2F'))).statusCode, 404)
    t.equal((await call('GET', path('%'))).statusCode, 200, 'only that one is gone')
    await identify('%2F', { id: '%2F' })
    t.equal((await call('GET', '/public/users/%ZZ')).json().status, 0, 'a path that cannot be decoded')
  })

  t.test('another process has the profiles', async (t) => {
    const { properties } = callsOf(deleting)
    t.same((await properties('counter')).n, 200)
    t.same(await properties('idem'), { n: 12 })
    t.same(await properties('😀'.repeat(255)), { id: '😀'.repeat(255) })
    const deleted = await deleting.call('GET', path('race'))
    t.equal(deleted.statusCode, 404, 'and knows of deletions')
  })

  t.test('DELETE_USER_EVENTS: events and sessions are deleted with the user', async (t) => {
    const { call, browser, events } = deleting
    const user = `it's "gone" \\ 100% 😀\t\n`
    const other = `${user}too`
    for (const distinct_id of [user, other]) {
      await call('POST', '/public/users/identify', { distinct_id, properties: { a: 1 } })
      await call('POST', '/public/track', { event: 'early', distinct_id })
    }
    t.equal((await events(1000, `&distinct_id=${encodeURIComponent(user)}`)).length, 1, 'one is stored already')
    for (const distinct_id of [user, other]) {
      const session_id = distinct_id === user ? 'session-of-gone' : 'session-of-other'
      await browser('/public/sessions/start', { distinct_id, session_id })
      await call('POST', '/public/track', { event: 'single', distinct_id })
      await call('POST', '/public/track/batch', {
        events: [
          { event: 'of both', distinct_id: user },
          { event: 'of both', distinct_id: other },
        ],
      })
    }
    t.equal((await call('DELETE', path(user))).statusCode, 200)
    const names = (await events(1000)).filter(({ distinct_id }) => distinct_id === user).map(({ event }) => event)
    t.same(names, [], 'those tracked just before, too')
    t.equal((await call('GET', '/public/sessions/session-of-gone')).statusCode, 404)
    t.equal((await call('GET', path(user))).statusCode, 404)
    t.same(
      (await events(1000)).filter(({ distinct_id }) => distinct_id === other).map(({ event }) => event),
      ['early', 'of both', 'single', 'of both'],
      "other users' stay",
    )
    t.equal((await call('GET', '/public/sessions/session-of-other')).json().session.state, 'active')
    t.same((await call('GET', path(other))).json().user.properties, { a: 1 })

    const again = await call('DELETE', path(user))
    t.same([again.statusCode, again.json().code], [404, 'not_found'], 'a second time')
    t.equal((await call('DELETE', path('nobody at all'))).statusCode, 404)

    await call('POST', '/public/track', { event: 'later', distinct_id: user })
    await browser('/public/sessions/start', { distinct_id: user, session_id: 'session-of-gone' })
    await call('POST', '/public/users/identify', { distinct_id: user })
    t.same((await call('GET', path(user))).json().user.properties, {}, 'a later identify starts an empty profile')
    t.equal((await events(1000, `&distinct_id=${encodeURIComponent(user)}`)).length, 1, 'and later events stay')
    t.equal((await call('GET', '/public/sessions/session-of-gone')).statusCode, 200)
  })

  t.test('DELETE_USER_EVENTS: a session that got another owner meanwhile stays', async (t) => {
    const { call, browser } = deleting
    await browser('/public/sessions/start', { distinct_id: 'first owner', session_id: 'handed-on' })
    await call('POST', '/public/users/identify', { distinct_id: 'first owner' })
    t.equal((await call('DELETE', path('first owner'))).statusCode, 200)
    await browser('/public/sessions/start', { distinct_id: 'second owner', session_id: 'handed-on' })
    await call('POST', '/public/users/identify', { distinct_id: 'first owner' })
    t.equal((await call('DELETE', path('first owner'))).statusCode, 200)
    t.equal((await call('GET', '/public/sessions/handed-on')).json().session?.distinct_id, 'second owner')
  })

  t.test('profiles are read from the store when the journal has forgotten them', async (t) => {
    const exact = '{"z":1.0,"big":12345678901234567890,"e":1e400,"2":"\\u0041\\/\\ud800","n":[ 1,{"a" : 1e0}]}'
    await call('POST', '/public/users/identify', `{"distinct_id":"stored","properties":${exact}}`)
    const before = (await call('GET', path('stored'))).json().user
    await call('GET', '/public/users?limit=1') // waits for the store
    // Like the journal itself ten minutes after they are stored.
    const redis = new Redis(env.REDIS_URL ?? '')
    t.ok((await redis.del(await redis.keys('*:state:*'))) > 0)
    redis.disconnect()

    const response = await call('GET', path('stored'))
    t.equal(
      response.body,
      `{"status":1,"error":null,"user":{"distinct_id":"stored","properties":${exact},"created_at":${before.created_at},"updated_at":${before.updated_at}}}`,
    )
    await call('POST', '/public/users/profile', {
      distinct_id: 'counter',
      operations: { $add: { n: 1 }, $unset: ['l'] },
    })
    t.same((await call('GET', path('counter'))).json().user.properties, { n: 201 }, '$add continues')
    t.equal((await call('GET', path('race'))).statusCode, 404, 'deleted profiles stay deleted')
    t.equal((await call('DELETE', path('race'))).statusCode, 404)
    for (const id of AWKWARD_IDS) {
      const { user } = (await call('GET', path(id))).json()
      t.same([user?.distinct_id, user?.properties], [id, { id }], nameOf(id))
    }
    const many = await Promise.all(AWKWARD_IDS.map((id) => call('GET', path(id))))
    t.same(
      many.map((response) => response.json().user?.distinct_id),
      AWKWARD_IDS,
      'asked for together',
    )
    t.equal((await call('DELETE', path('stored'))).statusCode, 200)
    t.equal((await call('GET', path('stored'))).statusCode, 404)
    const listed = (await call('GET', '/public/users?limit=10000')).json().users as User[]
    t.notOk(listed.some(({ distinct_id }) => distinct_id === 'stored'))
  })
})

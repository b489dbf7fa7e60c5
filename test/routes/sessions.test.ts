import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { Redis } from 'ioredis'
import t from 'tap'
import { type Client, clientOf, randomName, settingsFor, startApp, until } from '../helper.js'
import { newProject, sharedApp } from '../shared-app.js'

const DONE = '{"status":1,"error":null}'
const CALLS = ['start', 'update', 'end'] as const
const STATES = ['unknown', 'active', 'completed'] as const

interface Session {
  session_id: string
  distinct_id: string
  state: 'active' | 'completed'
  properties: Record<string, unknown>
  duration: number
  started_at: number
  updated_at: number
  ended_at: number | null
}

const path = (id: string) => `/public/sessions/${encodeURIComponent(id)}`

function callsOf({ app, call, browser }: Client) {
  const send = (name: (typeof CALLS)[number], body: object) => browser(`/public/sessions/${name}`, body)
  /** brings a session of Ann's, with the properties `{"a":1}`, into a state */
  const sessionIn = async (state: (typeof STATES)[number], properties: object = { a: 1 }) => {
    const session_id = randomName(state)
    const ids = { distinct_id: 'ann', session_id }
    if (state !== 'unknown') await send('start', { ...ids, properties })
    if (state === 'completed') await send('end', ids)
    return ids
  }
  const read = async (id: string): Promise<Session> => {
    const response = await call('GET', path(id))
    if (response.statusCode !== 200) throw new Error(`${response.statusCode} ${response.body}`)
    return response.json().session
  }
  const raw = (
    url: string,
    payload: string | Buffer,
    headers: Record<string, string>,
    method: 'POST' | 'OPTIONS' = 'POST',
  ) => app.inject({ method, url, headers, payload })
  return { send, sessionIn, read, raw }
}

t.test('sessions', async (t) => {
  const shared = await sharedApp('lanes')
  const client = await newProject(shared)
  const { call, keys } = client
  const { send, sessionIn, read, raw } = callsOf(client)

  t.test('every state and call responds as in the table', async (t) => {
    const cells = {
      start: { unknown: [200, 'active'], active: [200, 'active'], completed: [409, 'session_ended'] },
      update: { unknown: [404, 'not_found'], active: [200, 'active'], completed: [409, 'session_ended'] },
      end: { unknown: [404, 'not_found'], active: [200, 'completed'], completed: [200, 'unchanged'] },
    } as const
    for (const name of CALLS) {
      for (const state of STATES) {
        const [status, then] = cells[name][state]
        const ids = await sessionIn(state)
        const before = state === 'unknown' ? null : await read(ids.session_id)
        if (before) await until('the clock to move', () => Date.now() > before.updated_at)
        const response = await send(name, { ...ids, properties: { b: 2 } })
        const cell = `${name} of ${state}`
        t.equal(response.statusCode, status, cell)
        if (status === 200) {
          t.equal(response.body, DONE, cell)
        } else {
          t.match(response.json(), { status: 0, code: then, error: String }, cell)
        }
        if (status !== 200 || then === 'unchanged') {
          if (before) t.strictSame(await read(ids.session_id), before, `${cell} changes nothing`)
          else t.equal((await call('GET', path(ids.session_id))).statusCode, 404, `${cell} creates nothing`)
          continue
        }
        const after = await read(ids.session_id)
        t.equal(after.state, then, cell)
        t.equal(after.distinct_id, 'ann', cell)
        t.same(
          after.properties,
          { ...(before && { a: 1 }), ...(name !== 'end' && { b: 2 }) },
          `${cell}: the properties, which an end does not have`,
        )
        t.equal(after.ended_at, then === 'completed' ? after.updated_at : null, cell)
        if (before) {
          t.equal(after.started_at, before.started_at, cell)
          t.ok(after.updated_at > before.updated_at, cell)
        }
      }
    }
  })

  t.test("another user's distinct_id is refused", async (t) => {
    for (const state of ['active', 'completed'] as const) {
      const ids = await sessionIn(state)
      const before = await read(ids.session_id)
      for (const name of CALLS) {
        const response = await send(name, { ...ids, distinct_id: 'bob', properties: { b: 2 } })
        t.same([response.statusCode, response.json().code], [409, 'session_owner_mismatch'], `${name} of ${state}`)
      }
      t.strictSame(await read(ids.session_id), before)
    }
  })

  t.test('properties are merged, and returned as they were spelled', async (t) => {
    const ids = { distinct_id: 'ann', session_id: 'merged' }
    const post = (name: string, properties: string) =>
      raw(
        `/public/sessions/${name}`,
        `{"apiKey":"${keys.public}","distinct_id":"ann","session_id":"merged","properties":${properties}}`,
        { 'content-type': 'application/json' },
      )
    await post('start', '{"z":1.0,"a":{"x":1},"10":12345678901234567890}')
    await post('update', '{"a":{"y" : 1e400},"__proto__":null}')
    await post('start', '{"n":2.50}')
    await post('update', '{}')
    await post('update', 'null')
    await send('update', ids)
    const { body } = await call('GET', path('merged'))
    const merged = '{"z":1.0,"a":{"y" : 1e400},"10":12345678901234567890,"__proto__":null,"n":2.50}'
    t.ok(body.includes(`"properties":${merged}`), body)
  })

  t.test('duration: the greatest that the client sent', async (t) => {
    const ids = await sessionIn('active')
    const rows: [name: 'start' | 'update', sent: unknown, expected: number][] = [
      ['update', 10, 10],
      ['update', 5, 10],
      ['update', '99', 10],
      ['update', null, 10],
      ['update', [99], 10],
      ['update', true, 10],
      ['update', 12.75, 12.75],
      ['update', 0, 12.75],
      ['update', -1, 12.75],
      ['start', 20, 20],
      ['start', 15, 20],
      ['update', 90000000, 90000000],
    ]
    for (const [name, duration, expected] of rows) {
      t.equal((await send(name, { ...ids, properties: { duration } })).statusCode, 200)
      t.equal((await read(ids.session_id)).duration, expected, `${name} with ${JSON.stringify(duration)}`)
    }
    await send('end', ids)
    t.equal((await read(ids.session_id)).duration, 90000000, 'the end does not change it')
  })

  t.test('duration: seconds from start to last call if the client sent none', async (t) => {
    const ids = await sessionIn('active')
    const started = await read(ids.session_id)
    t.equal(started.duration, 0)
    for (const name of ['update', 'start', 'end'] as const) {
      const { updated_at } = await read(ids.session_id)
      await until('the clock to move', () => Date.now() > updated_at)
      await send(name, { ...ids, properties: { page: name } })
      const session = await read(ids.session_id)
      t.ok(session.updated_at > updated_at)
      t.equal(session.duration, (session.updated_at - started.started_at) / 1000, name)
    }
    const ended = await read(ids.session_id)
    await until('the clock to move', () => Date.now() > ended.updated_at)
    await send('end', ids)
    t.strictSame(await read(ids.session_id), ended, 'a second end changes nothing')
  })

  t.test('concurrent calls for one session', async (t) => {
    const ids = { distinct_id: 'ann', session_id: 'concurrent' }
    const starts = await Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        send('start', { ...ids, properties: { [`p${i}`]: i, duration: (i * 37) % 100 } }),
      ),
    )
    t.ok(starts.every(({ statusCode }) => statusCode === 200))
    const session = await read('concurrent')
    t.equal(Object.keys(session.properties).length, 41, 'all properties are there')
    t.equal(session.duration, 99, 'the greatest duration')

    const owners = await Promise.all(
      Array.from({ length: 20 }, (_, i) => send('start', { distinct_id: `owner-${i}`, session_id: 'contested' })),
    )
    t.same(owners.map(({ statusCode }) => statusCode).sort(), [200, ...Array(19).fill(409)], 'one owner')
    const winner = owners.findIndex(({ statusCode }) => statusCode === 200)
    t.equal((await read('contested')).distinct_id, `owner-${winner}`)

    const ends = await Promise.all(Array.from({ length: 20 }, () => send('end', ids)))
    t.ok(ends.every(({ statusCode }) => statusCode === 200))
  })

  t.test('concurrent starts at two services', async (t) => {
    const { app, config } = await startApp(t, shared.env)
    const services = [client, clientOf(app, config, keys)].map(callsOf)
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        services[i % 2]?.send('start', { distinct_id: `owner-${i % 4}`, session_id: 'two-services' }),
      ),
    )
    const session = await read('two-services')
    for (const [i, answer] of answers.entries()) {
      t.equal(answer?.statusCode, `owner-${i % 4}` === session.distinct_id ? 200 : 409)
    }
  })

  t.test('allows the documented kinds of keys', async (t) => {
    const body = JSON.stringify({ distinct_id: 'ann', session_id: 'keys' })
    const json = { 'content-type': 'application/json' }
    for (const name of CALLS) {
      const url = `/public/sessions/${name}`
      for (const [key, status, code] of [
        [keys.secret, 403, 'wrong_key_kind'],
        ['pk_unknown', 401, 'unauthorized'],
      ] as const) {
        const inHeader = await raw(url, body, { ...json, 'x-api-key': key })
        t.same([inHeader.statusCode, inHeader.json().code], [status, code], `${name} with ${key} in the header`)
        const inBody = await raw(url, `{"apiKey":"${key}"}`, json)
        t.same([inBody.statusCode, inBody.json().code], [status, code], `${name} with ${key}, before the fields`)
      }
      const without = await raw(url, '{}', json)
      t.same([without.statusCode, without.json().code], [401, 'unauthorized'], `${name} without a key`)
      for (const apiKey of [1, {}, [], true, '']) {
        const response = await raw(url, JSON.stringify({ apiKey }), json)
        t.same([response.statusCode, response.json().code], [401, 'unauthorized'], `a key that is ${typeof apiKey}`)
      }
    }
    t.equal((await call('GET', path('keys'))).statusCode, 404, 'none of them did anything')
    const start = '/public/sessions/start'
    t.equal((await raw(start, body, { ...json, 'x-api-key': keys.public })).statusCode, 200, 'the header will do')
    const same = `{"apiKey":"${keys.public}","distinct_id":"ann","session_id":"keys"}`
    t.equal((await raw(start, same, { ...json, 'x-api-key': keys.public })).statusCode, 200, 'both, and the same')
    const differ = await raw(start, same, { ...json, 'x-api-key': keys.secret })
    t.same([differ.statusCode, differ.json().code], [401, 'unauthorized'], 'both, and they differ')
    const isNull = `{"apiKey":null,"distinct_id":"ann","session_id":"keys"}`
    t.equal((await raw(start, isNull, { ...json, 'x-api-key': keys.public })).statusCode, 200, 'null is absent')

    const reading = await call('GET', path('keys'), undefined, { 'x-api-key': keys.public })
    t.same([reading.statusCode, reading.json().code], [403, 'wrong_key_kind'])
  })

  t.test('invalid fields are named', async (t) => {
    for (const name of CALLS) {
      const rows: [body: object, path: string][] = [
        [{ session_id: 's' }, '/distinct_id'],
        [{ distinct_id: 'ann' }, '/session_id'],
        [{ distinct_id: '', session_id: 's' }, '/distinct_id'],
        [{ distinct_id: 'ann', session_id: '' }, '/session_id'],
        [{ distinct_id: 'ann', session_id: 1 }, '/session_id'],
        [{ distinct_id: 'ann', session_id: 'x'.repeat(256) }, '/session_id'],
      ]
      if (name !== 'end') rows.push([{ distinct_id: 'ann', session_id: 's', properties: [] }, '/properties'])
      for (const [body, at] of rows) {
        const response = await send(name, body)
        const { status, code, details } = response.json()
        t.same([response.statusCode, status, code, details[0].path], [400, 0, 'invalid_request', at], name)
      }
      const broken = await raw(`/public/sessions/${name}`, '{"apiKey":', { 'content-type': 'application/json' })
      t.same([broken.statusCode, broken.json().code], [400, 'invalid_json'])
      t.notOk(broken.body.includes('apiKey'), 'the body is not quoted')
    }
  })

  t.test('any id works', async (t) => {
    for (const session_id of ['a/b', '50%', '%2F', '😀'.repeat(255), `it's "so" \\`, 'nul\u0000tab\t', '__proto__']) {
      const name = encodeURIComponent([...session_id].slice(0, 20).join(''))
      t.equal((await send('start', { distinct_id: session_id, session_id })).statusCode, 200, name)
      const session = await read(session_id)
      t.same([session.session_id, session.distinct_id], [session_id, session_id], name)
    }
  })

  t.test('accepts text/plain, which sendBeacon sends', async (t) => {
    const body = JSON.stringify({ apiKey: keys.public, distinct_id: 'ann', session_id: 'beacon' })
    for (const type of ['text/plain;charset=UTF-8', 'text/plain', 'Text/Plain; charset=utf-8']) {
      for (const name of ['start', 'update'] as const) {
        const response = await raw(`/public/sessions/${name}`, body, { 'content-type': type })
        t.same([response.statusCode, response.body], [200, DONE], `${name} as ${type}`)
      }
    }
    t.equal((await raw('/public/sessions/end', body, { 'content-type': 'text/plain;charset=UTF-8' })).statusCode, 200)
    t.equal((await read('beacon')).state, 'completed')
    const broken = await raw('/public/sessions/start', 'hello', { 'content-type': 'text/plain' })
    t.same([broken.statusCode, broken.json().code], [400, 'invalid_json'])
  })

  t.test('refuses other types of body', async (t) => {
    const body = JSON.stringify({ apiKey: keys.public, distinct_id: 'ann', session_id: 'type' })
    for (const type of ['text/html', 'application/x-www-form-urlencoded', 'multipart/form-data', 'nonsense']) {
      const response = await raw('/public/sessions/start', body, { 'content-type': type })
      t.same([response.statusCode, response.json().code], [415, 'unsupported_media_type'], type)
    }
    const event = JSON.stringify({ event: 'e', distinct_id: 'ann' })
    for (const url of ['/public/track', '/public/track/batch', '/public/users/identify', '/public/users/profile']) {
      for (const type of ['text/plain', 'text/plain;charset=UTF-8', 'text/html']) {
        const response = await raw(url, event, { 'content-type': type, 'x-api-key': keys.secret })
        t.same([response.statusCode, response.json().code], [415, 'unsupported_media_type'], `${type} at ${url}`)
      }
    }
  })

  t.test('accepts compressed bodies', async (t) => {
    const body = JSON.stringify({ apiKey: keys.public, distinct_id: 'ann', session_id: 'compressed' })
    const json = { 'content-type': 'application/json' }
    for (const [encoding, compress] of Object.entries({
      gzip: gzipSync,
      deflate: deflateSync,
      br: brotliCompressSync,
    })) {
      const response = await raw('/public/sessions/start', compress(body), { ...json, 'content-encoding': encoding })
      t.same([response.statusCode, response.body], [200, DONE], encoding)
    }
  })

  t.test('CORS is open for session calls, including their errors', async (t) => {
    const origin = 'https://shop.example'
    for (const name of CALLS) {
      const url = `/public/sessions/${name}`
      const preflight = await raw(
        url,
        '',
        {
          origin,
          'access-control-request-method': 'POST',
          'access-control-request-headers': 'content-type,x-api-key',
        },
        'OPTIONS',
      )
      t.equal(preflight.statusCode, 204, name)
      t.equal(preflight.headers['access-control-allow-origin'], '*')
      t.match(preflight.headers['access-control-allow-methods'], /\bPOST\b/)
      t.match(preflight.headers['access-control-allow-headers'], /content-type/i)
      t.match(preflight.headers['access-control-allow-headers'], /x-api-key/i)

      const json = { origin, 'content-type': 'application/json' }
      const rows: [status: number, body: object | string, headers: Record<string, string>][] = [
        [401, { distinct_id: 'ann', session_id: 'cors' }, json],
        [403, { apiKey: keys.secret }, json],
        [400, { apiKey: keys.public }, json],
        [400, '{', json],
        [415, '<>', { origin, 'content-type': 'text/html' }],
        [413, 'x'.repeat(1024 * 1024 + 1), json],
      ]
      const ids = { distinct_id: 'ann', session_id: `cors-${name}` }
      rows.push([name === 'start' ? 200 : 404, { apiKey: keys.public, ...ids }, json])
      for (const [status, body, headers] of rows) {
        const response = await raw(url, typeof body === 'string' ? body : JSON.stringify(body), headers)
        t.equal(response.statusCode, status, name)
        t.equal(response.headers['access-control-allow-origin'], '*', `${name}: ${status}`)
      }
    }
  })

  t.test('CORS is closed for other calls', async (t) => {
    const origin = 'https://shop.example'
    const tracked = await call('POST', '/public/track', { event: 'e', distinct_id: 'ann' }, { origin })
    t.equal(tracked.headers['access-control-allow-origin'], undefined, 'with a secret key')
    for (const url of ['/public/users/erase', '/public/events', '/public/users/ann']) {
      const preflight = await raw(url, '', { origin, 'access-control-request-method': 'POST' }, 'OPTIONS')
      t.equal(preflight.headers['access-control-allow-origin'], undefined, `the preflight of ${url}`)
    }
    const noPreflight = await raw('/public/sessions/start', '', {}, 'OPTIONS')
    t.equal(noPreflight.statusCode, 204, 'an OPTIONS that is no preflight')
  })

  t.test('a duration next to the properties counts like one in them, but is no property', async (t) => {
    const ids = { distinct_id: 'ann', session_id: 'beside' }
    await send('start', ids)
    for (const [duration, expected] of [
      [30, 30],
      [12, 30],
      ['90', 30],
      [null, 30],
      [45.5, 45.5],
    ]) {
      t.equal((await send('update', { ...ids, duration })).statusCode, 200)
      const { session } = (await call('GET', '/public/sessions/beside')).json()
      t.strictSame([session.duration, session.properties], [expected, {}])
    }
  })

  t.test('GET sessions: newest first, by pages, each as in GET session', async (t) => {
    const list = async (query: string): Promise<{ sessions: Session[]; hasMore: boolean; body: string }> => {
      const response = await call('GET', `/public/sessions?${query}`)
      if (response.statusCode !== 200) throw new Error(response.body)
      return { ...response.json(), body: response.body }
    }
    const distinct_id = randomName('lister')
    const exact = '{"z":1.0,"big":12345678901234567890,"a":[ 1,{"b" : 1e0}]}'
    for (const [n, name] of ['one', 'two/%2f', 'three 😀', 'four', 'five'].entries()) {
      const session_id = `${distinct_id} ${name}`
      const ids = { distinct_id, session_id }
      await raw(
        '/public/sessions/start',
        `{"apiKey":"${keys.public}","distinct_id":"${distinct_id}","session_id":"${session_id}","properties":${exact}}`,
        { 'content-type': 'application/json' },
      )
      if (n === 1) await send('update', { ...ids, properties: { duration: 12.5 } })
      if (n > 2) await send('end', ids)
      // A later start than all others.
      const { started_at } = await read(session_id)
      await until('the clock to advance', () => Date.now() > started_at)
    }
    const { sessions, body, hasMore } = await list(`distinct_id=${distinct_id}`)
    t.equal(hasMore, false)
    t.strictSame(
      sessions.map(({ session_id }) => session_id.slice(distinct_id.length + 1)),
      ['five', 'four', 'three 😀', 'two/%2f', 'one'],
    )
    t.equal(body.split(exact).length, 5, 'properties to the byte')
    t.match(body, /^\{"status":1,"error":null,"sessions":\[\{.*\}\],"page":1,"limit":50,"hasMore":false\}$/)
    for (const session of sessions) {
      t.strictSame(session, await read(session.session_id))
      t.ok(body.includes((await call('GET', path(session.session_id))).body.slice(37, -2)), 'in the same spelling')
    }
    const filtered = async (query: string) =>
      (await list(`distinct_id=${distinct_id}&${query}`)).sessions.map((session) =>
        sessions.indexOf(sessions.find(({ session_id }) => session_id === session.session_id) as Session),
      )
    t.strictSame(await filtered('state=active'), [2, 3, 4])
    t.strictSame(await filtered('state=completed'), [0, 1])
    const times = sessions.map(({ started_at }) => started_at)
    t.strictSame(await filtered(`from=${times[3]}&to=${times[1]}`), [2, 3], 'half-open')
    t.strictSame(await filtered('limit=2'), [0, 1])
    t.strictSame(await filtered('limit=2&page=3'), [4])
    t.strictSame(await filtered('limit=2&page=4'), [])
    t.match(await list(`distinct_id=${distinct_id}&limit=2&page=2`), { page: 2, limit: 2, hasMore: true })
    t.match(await list(`distinct_id=${distinct_id}&limit=5`), { hasMore: false })
    t.equal((await list('')).sessions[0]?.session_id, sessions[0]?.session_id, 'the last of all')
    for (const wrong of ['state=open', 'from=x', 'to=-1', 'limit=0', 'page=0', 'distinct_id=', 'sate=active']) {
      const response = await call('GET', `/public/sessions?${wrong}`)
      t.match(response.json(), { code: 'invalid_request', details: [{ path: `/${wrong.split('=')[0]}` }] })
    }
    const browser = await client.app.inject({
      url: '/public/sessions',
      headers: { 'x-api-key': keys.secret, origin: 'https://example.com' },
    })
    t.equal(browser.statusCode, 200)
    t.notOk('access-control-allow-origin' in browser.headers, 'no page may read it')
    t.equal(
      (await client.app.inject({ url: '/public/sessions', headers: { 'x-api-key': keys.public } })).statusCode,
      403,
    )
  })

  t.test('GET sessions: an earlier owner, state or end does not match', async (t) => {
    const [former, owner] = [randomName('former'), randomName('owner')]
    const session_id = randomName('handed on')
    const of = async (distinct_id: string) =>
      (await call('GET', `/public/sessions?distinct_id=${distinct_id}`)).json().sessions as Session[]
    await send('start', { distinct_id: former, session_id })
    t.equal((await of(former)).length, 1)
    const erased = await call('POST', '/public/users/erase', { distinct_ids: [former] })
    t.equal(erased.statusCode, 200, erased.body)
    t.strictSame(await of(former), [])
    await send('start', { distinct_id: owner, session_id })
    t.strictSame([(await of(former)).length, (await of(owner)).length], [0, 1])
    await send('end', { distinct_id: owner, session_id })
    const active = await call('GET', `/public/sessions?distinct_id=${owner}&state=active`)
    t.strictSame(active.json().sessions, [])
  })

  t.test('GET session: exact shape', async (t) => {
    const ids = { distinct_id: 'ann', session_id: 'shape' }
    const before = Date.now()
    await send('start', { ...ids, properties: { duration: 7, a: 'b' } })
    const active = await call('GET', path('shape'))
    t.equal(active.statusCode, 200)
    t.match(active.headers['content-type'], /^application\/json/)
    const { started_at, updated_at } = active.json().session
    t.ok(started_at >= before && started_at <= Date.now(), 'milliseconds')
    t.equal(
      active.body,
      `{"status":1,"error":null,"session":{"session_id":"shape","distinct_id":"ann","state":"active","properties":{"duration":7,"a":"b"},"duration":7,"started_at":${started_at},"updated_at":${updated_at},"ended_at":null}}`,
    )
    await send('end', ids)
    const { ended_at, state } = await read('shape')
    t.ok(ended_at !== null && ended_at >= started_at)
    t.equal(state, 'completed')

    const unknown = await call('GET', path('unknown'))
    t.same([unknown.statusCode, unknown.json().status, unknown.json().code], [404, 0, 'not_found'])
    const none = await call('POST', '/public/sessions/other', ids)
    t.same([none.statusCode, none.json().code], [404, 'not_found'])
  })

  t.test('the properties of a session have at most 64 KiB', async (t) => {
    const ids = await sessionIn('active', { first: 'é'.repeat(30_000) })
    // {"first":"…","rest":"…"}
    const room = 65_536 - 60_000 - '{"first":"","rest":""}'.length
    const over = await send('update', { ...ids, properties: { rest: 'x'.repeat(room + 1), duration: 7 } })
    t.same([over.statusCode, over.json().code], [413, 'payload_too_large'])
    t.match(over.json().error, /over 65536 bytes/)
    t.same(Object.keys((await read(ids.session_id)).properties), ['first'], 'nothing was changed')
    const fits = await send('update', { ...ids, properties: { rest: 'x'.repeat(room) } })
    t.equal(fits.statusCode, 200)
    t.equal((await send('end', ids)).statusCode, 200)
    t.equal((await read(ids.session_id)).properties.rest, 'x'.repeat(room))
    const created = await send('start', { ...ids, session_id: 'large', properties: { x: 'x'.repeat(65_536) } })
    t.same([created.statusCode, created.json().code], [413, 'payload_too_large'])
    t.equal((await call('GET', path('large'))).statusCode, 404)
  })

  t.test('sessions are read from the store when the journal has forgotten them', async (t) => {
    const durations = [0.30000000000000004, 1 / 3, 123456789.12345679, 5e-324, 1.7976931348623157e308, 1e21, 0]
    for (const [i, duration] of durations.entries()) {
      await send('start', { distinct_id: 'ann', session_id: `stored-${i}`, properties: { duration, x: null } })
    }
    await send('start', { distinct_id: "it's \\ \t", session_id: 'stored-awkward\u0000/%\n' })
    await sessionIn('completed')
    const ids = ['shape', 'merged', 'concurrent', 'stored-awkward\u0000/%\n', ...durations.keys()].map((id) =>
      typeof id === 'number' ? `stored-${id}` : id,
    )
    const large = '/public/users/large'
    await call('POST', '/public/users/identify', { distinct_id: 'large', properties: { x: 'é'.repeat(100_000) } })
    const profile = (await call('GET', large)).body
    const before = await Promise.all(ids.map((id) => call('GET', path(id))))
    await call('GET', '/public/events') // waits for the store
    const redis = new Redis(shared.env.REDIS_URL ?? '')
    t.ok((await redis.del(await redis.keys('{tallyhouse*}:state:*'))) > ids.length)
    redis.disconnect()

    for (const [i, id] of ids.entries()) {
      t.equal((await call('GET', path(id))).body, before[i]?.body, encodeURIComponent(id))
    }
    t.equal((await call('GET', large)).body, profile)
    const ended = await send('start', { distinct_id: 'ann', session_id: 'shape' })
    t.same([ended.statusCode, ended.json().code], [409, 'session_ended'])
    const mismatch = await send('update', { distinct_id: 'bob', session_id: 'stored-0' })
    t.same([mismatch.statusCode, mismatch.json().code], [409, 'session_owner_mismatch'])
    await send('update', { distinct_id: 'ann', session_id: 'stored-1', properties: { duration: 0.1, y: 1 } })
    const updated = await read('stored-1')
    t.same([updated.duration, updated.properties], [1 / 3, { duration: 0.1, x: null, y: 1 }])
  })
})

t.test('with CORS_ORIGIN, only pages of those origins may call', async (t) => {
  const CORS_ORIGIN = 'https://a.example, https://b.example:8443'
  const { app } = await startApp(t, { ...(await settingsFor(t, 'embedded')), FACTS: 'off', CORS_ORIGIN })
  for (const [origin, allowed] of [
    ['https://a.example', 'https://a.example'],
    ['https://b.example:8443', 'https://b.example:8443'],
    ['https://b.example', undefined],
    ['https://aaexample', undefined],
    ['null', undefined],
  ]) {
    const headers = { origin, 'access-control-request-method': 'POST' }
    for (const method of ['OPTIONS', 'POST'] as const) {
      const answer = await app.inject({ method, url: '/public/sessions/start', headers })
      t.equal(answer.headers['access-control-allow-origin'], allowed, `${method} from ${origin}`)
      t.match(answer.headers.vary, /\borigin\b/i, 'a cache does not give one the answer of another')
    }
  }
})

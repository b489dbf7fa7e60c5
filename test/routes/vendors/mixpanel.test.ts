import t from 'tap'
import { addSdkProject, basic } from './sdk-app.js'

const FORM = { 'content-type': 'application/x-www-form-urlencoded' }
const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64')

t.test("Mixpanel's calls", async (t) => {
  const { keys, otherKey, inject, events, user } = await addSdkProject()
  const token = keys.write
  const event = (distinct_id: string, more: object = {}, name = 'e') => {
    return { event: name, properties: { distinct_id, token, ...more } }
  }
  const update = (distinct_id: string, more: object) => ({ $token: token, $distinct_id: distinct_id, ...more })
  const get = (path: string, value: unknown, query = 'ip=0&verbose=0') =>
    inject({ url: `/mixpanel${path}?${query}&data=${encodeURIComponent(base64(value))}` })
  const form = (path: string, value: unknown, query = 'ip=0&verbose=0') =>
    inject({ method: 'POST', url: `/mixpanel${path}?${query}`, payload: `data=${base64(value)}`, headers: FORM })
  const json = (path: string, payload: string, headers: Record<string, string> = {}) =>
    inject({
      method: 'POST',
      url: `/mixpanel${path}`,
      payload,
      headers: { 'content-type': 'application/json', ...headers },
    })

  await t.test('responds with exactly "1", or a status if verbose=1', async (t) => {
    for (const slash of ['', '/']) {
      for (const send of [get, form]) {
        for (const [path, value] of [
          ['/track', event('forms')],
          ['/engage', update('forms', { $set: { a: 1 } })],
          ['/groups', { $token: token, $group_key: 'company', $group_id: 'acme', $set: { a: 1 } }],
          ['/import', event('forms')],
        ] as const) {
          const plain = await send(path + slash, value, 'ip=0&verbose=0&_=1&test=1')
          t.strictSame([plain.statusCode, plain.body, plain.headers['content-type']], [200, '1', 'text/plain'], path)
          t.equal(plain.headers['cache-control'], 'no-store')
          const verbose = await send(path + slash, value, 'verbose=1&ip=1')
          t.strictSame([verbose.statusCode, verbose.body], [200, '{"error":"","status":1}'], path)
          t.match(verbose.headers['content-type'], 'application/json')
        }
      }
    }
    t.equal((await events('&distinct_id=forms')).length, 16)
    t.strictSame(await user('forms'), { a: 1 })
    t.strictSame(await user('$group:company:acme'), { a: 1 })
  })

  await t.test('accepts an array in a form without percent-encoding', async (t) => {
    const text = '>>>???~~~ÿþ漢😀'
    const sent = [event('plus', { text }), event('plus', { text, price: 9.9 })]
    t.match(base64(sent), /[+/]/)
    t.equal((await form('/track', sent)).body, '1')
    t.strictSame(
      (await events('&distinct_id=plus')).map(({ properties }) => properties).sort((a) => ('price' in a ? 1 : -1)),
      [
        { distinct_id: 'plus', text },
        { distinct_id: 'plus', text, price: 9.9 },
      ],
      'as sent, except for the token',
    )
  })

  await t.test('an invalid message does not affect the others', async (t) => {
    const bad = { event: 5, properties: { token } }
    for (const [query, ok, refused] of [
      ['verbose=0', /^1$/, /^0$/],
      ['verbose=1', /^\{"error":"","status":1\}$/, /^\{"error":"event [^"]+","status":0\}$/],
    ] as const) {
      t.match((await form('/track', [event('faults'), bad], query)).body, ok)
      t.match((await form('/track', bad, query)).body, refused)
    }
    const foreign = await form('/track', [
      event('faults'),
      { event: 'e', properties: { distinct_id: 'faults', token: otherKey } },
    ])
    t.equal(foreign.body, '1', 'the token of another project is one, too')
    t.equal((await events('&distinct_id=faults')).length, 3)
    const notNumeric = update('forms', { $set: { name: 'x' } })
    await form('/engage', notNumeric)
    t.equal((await form('/engage', update('forms', { $add: { name: 1 } }))).body, '0')
    t.equal(
      (await form('/engage', [update('forms', { $add: { name: 1 } }), update('forms', { $add: { n: 1 } })])).body,
      '1',
    )
    t.match(await user('forms'), { name: 'x', n: 1 })
  })

  await t.test('refuses an unknown key', async (t) => {
    for (const wrong of ['unknown', keys.read, keys.public]) {
      const response = await form('/track', { event: 'e', properties: { token: wrong } })
      t.ok([401, 403].includes(response.statusCode))
      t.match(response.json(), { status: 0, error: /key/ })
      t.notMatch(response.body, wrong)
    }
    t.equal((await inject({ method: 'POST', url: '/mixpanel/track', payload: '{}' })).statusCode, 401)
    t.equal((await json('/track', '{')).statusCode, 401, 'before it is known that the body is none')
    t.equal((await json('/track', '{', basic(token))).statusCode, 400)
  })

  await t.test('accepts /import', async (t) => {
    const secret = basic(keys.secret)
    t.equal((await form('/import', [event('old'), event('old')], `api_key=${keys.write}`)).body, '1')
    const imported = await json('/import', JSON.stringify([event('old'), event('old')]), secret)
    t.equal(imported.body, '{"code":200,"num_records_imported":2,"status":"OK"}', 'with a token of the same project')
    const account = { authorization: `Basic ${Buffer.from('account:secret').toString('base64')}` }
    t.equal(
      (await json('/import?strict=1&project_id=5', JSON.stringify([event('old')]), account)).json()
        .num_records_imported,
      1,
    )
    const ndjson = { ...secret, 'content-type': 'application/x-ndjson' }
    const lines = [event('old'), event('old')].map((value) => JSON.stringify(value))
    t.equal((await json('/import', `${lines.join('\n')}\n`, ndjson)).json().num_records_imported, 2)
    const long = event('x'.repeat(256), { $insert_id: 'long' })
    const partly = await json('/import', [lines[0], '{"event":', JSON.stringify(long)].join('\n'), ndjson)
    t.equal(partly.statusCode, 400)
    t.match(partly.json(), {
      code: 400,
      num_records_imported: 1,
      status: 'Bad Request',
      failed_records: [
        { index: 1, insert_id: '', field: '' },
        { index: 2, insert_id: 'long', field: 'properties.distinct_id', message: /^distinct_id / },
      ],
    })
    const twice = event('x'.repeat(256), { $user_id: 'x' })
    const both = await json('/import', JSON.stringify([{ ...twice, event: '$identify' }, event('old')]), secret)
    t.match(both.json(), { num_records_imported: 1, failed_records: [{ index: 0 }] })
    t.equal(both.json().failed_records.length, 1, 'a record with two faults is one record')
    const stored = await events('&distinct_id=old')
    t.equal(stored.length, 2 + 2 + 1 + 2 + 1 + 1)
    t.notMatch(JSON.stringify(stored), /[a-z]k_/, 'no key, neither that of the request nor the token')
  })

  await t.test('$delete needs the secret key', async (t) => {
    await form('/engage', update('gone', { $set: { a: 1 } }))
    await form('/track', event('gone'))
    t.equal((await form('/engage', update('gone', { $delete: '' }))).body, '1')
    t.strictSame(await user('gone'), { a: 1 }, 'done for show')
    t.equal((await form('/engage', { ...update('gone', { $delete: '' }), $token: keys.secret })).body, '1')
    t.equal(await user('gone'), undefined)
    t.equal((await events('&distinct_id=gone')).length, 1, 'its events stay')

    const group = { $group_key: 'company', $group_id: 'gone' }
    const ofGroup = async () => await user('$group:company:gone')
    await form('/groups', { $token: keys.write, ...group, $set: { a: 1 } })
    await form('/engage', { ...update('$group:company:gone', { $delete: '' }), $token: keys.secret })
    t.strictSame(await ofGroup(), { a: 1 }, 'it is no user’s name')
    await form('/groups', { $token: keys.secret, ...group, $delete: '' })
    t.equal(await ofGroup(), undefined)
  })

  await t.test('accepts large properties in the URL of a GET', async (t) => {
    for (const length of [12_000, 100_000]) {
      const response = await get('/track', event('large', { text: 'x'.repeat(length) }))
      t.strictSame([response.statusCode, response.body], [200, '1'])
    }
    const lengths = (await events('&distinct_id=large')).map(({ properties }) => String(properties.text).length)
    t.strictSame(new Set(lengths), new Set([12_000, 100_000]))
    const long = 'x'.repeat(20_000)
    t.equal(
      (await inject({ url: `/public/events?event=${long}`, headers: { 'x-api-key': keys.read } })).statusCode,
      431,
    )
    t.equal((await inject({ url: `/mixpanel/${long}` })).statusCode, 431)
    t.equal((await inject({ url: '/mixpanel/track', headers: { long } })).statusCode, 431)
    t.equal((await inject({ method: 'POST', url: `/segment/v1/batch?${long}`, payload: '{}' })).statusCode, 431)
  })

  await t.test('dummy endpoints need no key', async (t) => {
    for (const slash of ['', '/']) {
      t.equal((await inject({ url: `/mixpanel/flags${slash}?context=%7B%7D&token=x` })).body, '{"flags":{}}')
      t.equal((await inject({ method: 'POST', url: `/mixpanel/record${slash}?a=b`, payload: 'x' })).statusCode, 200)
    }
  })

  await t.test('pages may call it', async (t) => {
    const origin = 'https://shop.example'
    const response = await inject({
      method: 'POST',
      url: '/mixpanel/track/?verbose=1',
      payload: `data=${base64([event('page')])}`,
      headers: { 'content-type': 'text/plain;charset=UTF-8', origin },
    })
    t.equal(response.statusCode, 200, 'as sendBeacon sends it')
    t.equal(response.headers['access-control-allow-origin'], origin)
    t.equal(response.headers['access-control-allow-credentials'], 'true')
    t.equal(
      (await inject({ method: 'POST', url: '/mixpanel/track/', payload: 'data=e30=', headers: { origin } })).headers[
        'access-control-allow-origin'
      ],
      origin,
      'an error is readable, too',
    )
  })
})

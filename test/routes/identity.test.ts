import fc from 'fast-check'
import t from 'tap'
import { makeKey, storedKey } from '../../src/keys/keys.js'
import { insertKeys } from '../../src/store/api-keys.js'
import { openStore } from '../../src/store/open.js'
import { callsOf, path } from '../alias-calls.js'
import { AliasModel, linkSteps } from '../alias-model.js'
import { type Client, randomName, SECRET_KEY, settingsFor, startApp, until } from '../helper.js'

const RESERVED = ['$anonymous', '$group:company:acme', '$visitor:2025-01-01:x', '$group:', '$visitor:']
const PLACEHOLDERS = [
  ...['undefined', 'null', 'None', 'nil', 'NaN', '[object Object]', '0', '-1', 'true', 'FALSE', 'Anonymous', 'guest'],
  ...[
    'unknown',
    '00000000-0000-0000-0000-000000000000',
    '00000000000000000000000000000000',
    ' ',
    '\t\n',
    '\u200b',
    '\u3000',
  ],
  ...[' null ', '"undefined"', "'guest'", 'N/A', '(null)', '<nil>', '[]', '{}', 'not set', 'UNDEFINED\u00a0'],
]

/** A key that is in a page. */
async function writeKeyOf(client: Client): Promise<string> {
  const key = makeKey('write')
  const { clickhouse, close } = await openStore(client.config)
  await insertKeys(clickhouse, [storedKey(key, { projectId: 'default', kind: 'write' })], Date.now())
  await close()
  return key
}

/** Calls with any key, and those of SDKs. */
function sdksOf({ app }: Client) {
  const post = (url: string, payload: object, headers: object = {}) =>
    app.inject({ method: 'POST', url, payload, headers: { 'content-type': 'application/json', ...headers } })
  return {
    native: (key: string, call: string, payload: object) =>
      post(`/public/users/${call}`, payload, { 'x-api-key': key }),
    segment: (key: string, batch: object[]) =>
      post('/segment/v1/batch', { batch }, { authorization: `Basic ${Buffer.from(`${key}:`).toString('base64')}` }),
    mixpanel: (key: string, events: [event: string, properties: object][]) =>
      post(
        '/mixpanel/track',
        events.map(([event, properties]) => ({ event, properties: { token: key, ...properties } })),
      ),
    engage: (key: string, updates: object[]) =>
      post(
        '/mixpanel/engage',
        updates.map((update) => ({ $token: key, ...update })),
      ),
  }
}

t.test('identity', async (t) => {
  const env = { ...(await settingsFor(t, 'lanes')), FACTS: 'off' }
  const client = await startApp(t, env)
  const { call } = client
  const { alias, identify, track, user, userOf, all, remove } = callsOf(client)
  const writeKey = await writeKeyOf(client)
  const { native, segment, mixpanel, engage } = sdksOf(client)
  await until('the key', async () => (await segment(writeKey, [])).statusCode === 200)
  const letters = async () => JSON.stringify((await call('GET', '/public/dead-letters?limit=100')).json())
  const takeBack = (name: string, alias: string) => call('DELETE', `${path(name)}/aliases/${encodeURIComponent(alias)}`)
  const metric = async (name: string) => {
    const found = (await call('GET', '/metrics')).body.split('\n').find((line) => line.startsWith(`${name} `))
    return Number(found?.split(' ').at(-1))
  }

  t.test('a reserved name belongs to nobody, in any call', async (t) => {
    await identify('rea', {})
    await track('$anonymous')
    const refused = async (name: string, body: object, field: string) => {
      for (const key of [SECRET_KEY, writeKey]) {
        const response = await native(key, name, body)
        t.equal(response.statusCode, 400, `${name} ${JSON.stringify(body)}`)
        t.match(response.json(), { code: 'invalid_request', details: [{ path: field }] })
      }
    }
    for (const name of RESERVED) {
      await refused('alias', { distinct_id: 'rea', alias: name }, '/alias')
      await refused('alias', { distinct_id: name, alias: 'rea' }, '/distinct_id')
      await refused('identify', { distinct_id: name, properties: {} }, '/distinct_id')
      await refused('profile', { distinct_id: name, operations: { $set: { a: 1 } } }, '/distinct_id')
      const erased = await call('POST', '/public/users/erase', { distinct_ids: ['rea', name] })
      t.match(erased.json(), { code: 'invalid_request', details: [{ path: '/distinct_ids/1' }] })
      t.equal(await user(name), null)
    }
    t.equal(await remove('$anonymous'), 400)
    t.equal((await all('rea')).length, 1, 'the profile, and nobody’s events')
    t.ok((await client.events()).some(({ distinct_id }) => distinct_id === '$anonymous'))
  })

  t.test('a placeholder is not linked, and is a user like any other', async (t) => {
    await identify('pia', {})
    for (const name of PLACEHOLDERS) {
      t.equal((await alias('pia', name)).statusCode, 400, JSON.stringify(name))
      t.equal((await alias(name, 'pia-device')).statusCode, 400, JSON.stringify(name))
    }
    t.equal((await identify('0', { n: 1 })).statusCode, 200)
    await call('POST', '/public/users/profile', { distinct_id: '0', operations: { $add: { n: 1 } } })
    t.match(await user('0'), { distinct_id: '0', properties: { n: 2 } })
    await track('undefined')
    t.ok((await client.events()).some(({ distinct_id }) => distinct_id === 'undefined'))
  })

  t.test('SDK messages about a placeholder make no profile and no alias', async (t) => {
    const before = await metric('tallyhouse_placeholder_names_total{kind="link"}')
    for (const userId of ['vic-1', 'vic-2']) {
      const said = [
        { type: 'identify', userId, anonymousId: 'null', traits: { name: userId } },
        { type: 'identify', userId: 'undefined', anonymousId: `${userId}-device`, traits: { leaked: userId } },
        { type: 'alias', userId: 'guest', previousId: `${userId}-device` },
      ]
      t.equal((await segment(writeKey, said)).statusCode, 200)
    }
    for (const userId of ['vic-1', 'vic-2']) {
      t.match(await user(userId), { distinct_id: userId, properties: { name: userId } })
      t.equal(await user(`${userId}-device`), null)
    }
    for (const name of ['null', 'undefined', 'guest']) t.equal(await user(name), null, name)
    t.equal(await metric('tallyhouse_placeholder_names_total{kind="link"}'), before + 6)
    const engaged = await engage(writeKey, [
      { $distinct_id: 'None', $set: { secret: 'of none' } },
      { $distinct_id: '$anonymous', $set: { secret: 'of nobody' } },
      { $group_key: 'company', $group_id: 'acme', $set: { size: 5 } },
    ])
    t.equal(engaged.statusCode, 200)
    t.equal(engaged.body, '1')
    t.equal(await user('None'), null)
    t.equal(await user('$anonymous'), null)
    t.match(await user('$group:company:acme'), { properties: { size: 5 } })
    await until('the letters', async () => /of none/.test(await letters()) && /of nobody/.test(await letters()))
    t.match(await letters(), /None.{1,9}is what clients send if they have no id/)
  })

  t.test('an SDK that infers a link cannot merge two identified users', async (t) => {
    await identify('alice', { name: 'Alice' })
    await identify('carl', { name: 'Carl' })
    for (let i = 0; i < 3; i++) {
      const response = await mixpanel(writeKey, [['$identify', { distinct_id: 'carl', $anon_distinct_id: 'alice' }]])
      t.equal(response.statusCode, 200)
    }
    t.match(await user('alice'), { distinct_id: 'alice', properties: { name: 'Alice' } })
    t.match(await user('carl'), { distinct_id: 'carl', properties: { name: 'Carl' } })
    await until('the letter', async () => /alice/.test(await letters()))
    const listed = (await call('GET', '/public/dead-letters?limit=100')).json().dead_letters
    const ofAlice = listed.filter((letter: object) => /alice/.test(JSON.stringify(letter)))
    t.equal(ofAlice.length, 1, 'listed once')
    t.match(JSON.stringify(ofAlice), /The alias is a user who was identified/)
    t.ok((await metric('tallyhouse_alias_conflicts_total')) >= 3)

    await identify('with-device', {})
    await alias('unnamed', 'unnamed-device')
    await segment(writeKey, [{ type: 'identify', userId: 'with-device', anonymousId: 'unnamed' }])
    t.equal(await userOf('unnamed'), undefined, 'nor one that has other names')
    await segment(writeKey, [{ type: 'identify', userId: 'with-device', anonymousId: 'fresh' }])
    t.equal(await userOf('fresh'), 'with-device')
    await call('POST', '/public/users/profile', { distinct_id: 'only changed', operations: { $set: { a: 1 } } })
    await segment(writeKey, [{ type: 'identify', userId: 'with-device', anonymousId: 'only changed' }])
    t.match(await user('only changed'), { distinct_id: 'with-device', properties: { a: 1 } })
  })

  t.test('a write key cannot merge users, and a secret key can', async (t) => {
    for (const name of ['wa', 'wb']) await identify(name, { [name]: 1 })
    const conflict = await native(writeKey, 'alias', { distinct_id: 'wa', alias: 'wb' })
    t.equal(conflict.statusCode, 409)
    t.equal(conflict.json().code, 'alias_conflict')
    t.equal((await native(writeKey, 'alias', { distinct_id: 'wa', alias: 'wa-device' })).statusCode, 200)
    t.equal((await native(writeKey, 'alias', { distinct_id: 'wb', alias: 'wa-device' })).statusCode, 409)
    t.equal(await userOf('wb'), 'wb')
    t.equal((await alias('wa', 'wb')).statusCode, 200)
    t.match(await user('wb'), { distinct_id: 'wa', properties: { wa: 1, wb: 1 } })
  })

  t.test('an alias never hides a profile, in either direction', async (t) => {
    await segment(writeKey, [{ type: 'identify', userId: 'sue', traits: { plan: 'pro' } }])
    await segment(writeKey, [{ type: 'alias', userId: 'sue2', previousId: 'sue' }])
    const found = [await user('sue'), await user('sue2')]
    t.match(found[0], { properties: { plan: 'pro' } })
    t.same(found[0], found[1])
    await call('POST', '/public/users/profile', { distinct_id: 'anon-1', operations: { $set: { first: 'x' } } })
    await segment(writeKey, [{ type: 'alias', userId: 'user-1', previousId: 'anon-1' }])
    t.match(await user('user-1'), { distinct_id: 'user-1', properties: { first: 'x' } })
    t.equal(await userOf('anon-1'), 'user-1')
    await segment(writeKey, [{ type: 'alias', userId: 'alice2', previousId: 'sue' }])
    t.equal(await userOf('alice2'), await userOf('sue'))
    await identify('ula', {})
    await segment(writeKey, [{ type: 'alias', userId: 'ula', previousId: 'sue' }])
    t.not(await userOf('ula'), await userOf('sue'), 'but never two that are identified')
  })

  t.test('opposite aliases in one request leave one user', async (t) => {
    const said = (a: string, b: string): [string, object][] => [
      ['$create_alias', { distinct_id: a, alias: b }],
      ['$identify', { distinct_id: b, $anon_distinct_id: a }],
    ]
    await mixpanel(writeKey, [['$identify', { distinct_id: 'ada', $anon_distinct_id: 'ada-device' }]])
    t.equal((await mixpanel(writeKey, said('ada', 'zed'))).statusCode, 200)
    t.ok(await userOf('ada'))
    for (const name of ['zed', 'ada-device']) t.equal(await userOf(name), await userOf('ada'), name)
    await mixpanel(writeKey, said('new-a', 'new-b'))
    t.ok(await userOf('new-a'))
    t.equal(await userOf('new-a'), await userOf('new-b'))
    const rounds = Array.from({ length: 5 }, (_, i) => [`opp-a-${i}`, `opp-b-${i}`] as const)
    await Promise.all(rounds.flatMap(([a, b]) => [mixpanel(writeKey, said(a, b)), mixpanel(writeKey, said(b, a))]))
    for (const [a, b] of rounds) {
      t.ok(await userOf(a), a)
      t.equal(await userOf(a), await userOf(b), a)
    }
  })

  t.test('messages about a person apply in the order of the request', async (t) => {
    await segment(writeKey, [
      { type: 'identify', anonymousId: 'o-device', traits: { plan: 'free', seen: 1 } },
      { type: 'identify', userId: 'o', anonymousId: 'o-device', traits: { plan: 'pro' } },
      { type: 'identify', anonymousId: 'o-device', traits: { colour: 'red' } },
    ])
    t.match(await user('o-device'), { distinct_id: 'o', properties: { plan: 'pro', seen: 1, colour: 'red' } })
  })

  t.test('a repeated change is recognised by the name that it was sent to', async (t) => {
    for (let i = 0; i < 3; i++) {
      const [device, owner] = [`rep-device-${i}`, `rep-user-${i}`]
      const first = { type: 'identify', messageId: `m-${i}`, anonymousId: device, traits: { plan: 'free' } }
      await segment(writeKey, [first])
      await identify(owner, { plan: 'pro' })
      await alias(owner, device)
      await segment(writeKey, [first])
      t.match(await user(device), { distinct_id: owner, properties: { plan: 'pro' } })
      const add = (distinct_id: string) =>
        client.app.inject({
          method: 'POST',
          url: '/public/users/profile',
          headers: { 'x-api-key': SECRET_KEY, 'idempotency-key': `add-${i}` },
          payload: { distinct_id, operations: { $add: { n: 1 } } },
        })
      t.equal((await add(`${device}-b`)).statusCode, 200)
      await alias(owner, `${device}-b`)
      t.equal((await add(`${device}-b`)).statusCode, 200)
      t.match(await user(device), { properties: { n: 1 } })
    }
  })

  t.test('taking back an alias restores everything', async (t) => {
    await identify('tina', { plan: 'pro' })
    await identify('tim', { plan: 'free', colour: 'red', city: 'Ulm' })
    await track('tim')
    const before = { tina: (await user('tina')).properties, tim: (await user('tim')).properties }
    await alias('tina', 'tim')
    t.same((await user('tim')).properties, { plan: 'pro', colour: 'red', city: 'Ulm' })
    await call('POST', '/public/users/profile', { distinct_id: 'tina', operations: { $set: { city: 'Bonn' } } })
    t.equal((await takeBack('tina', 'tim')).body, '{"status":1,"error":null}')
    t.same((await user('tim')).properties, before.tim, 'its own profile')
    t.same((await user('tina')).properties, { ...before.tina, city: 'Bonn' }, 'without what nobody changed since')
    const ofTina = (await all('tina')).map((line) => JSON.parse(line).type)
    t.same(ofTina, ['profile'])
    t.same(
      (await all('tim')).map((line) => JSON.parse(line).type),
      ['profile', 'event'],
    )
    t.equal((await takeBack('tina', 'tim')).statusCode, 404)
    t.equal((await takeBack('nobody at all', 'tim')).statusCode, 404)
    t.equal((await native(writeKey, 'alias', { distinct_id: 'tina', alias: 'tim-2' })).statusCode, 200)
    const forbidden = await client.app.inject({
      method: 'DELETE',
      url: '/public/users/tina/aliases/tim-2',
      headers: { 'x-api-key': writeKey },
    })
    t.equal(forbidden.statusCode, 403)
  })

  t.test('a property that a user set itself stays, even if an alias had the same', async (t) => {
    for (const said of ['profile', 'identify'] as const) {
      const [name, other] = [`own-${said}`, `own-${said}-device`]
      await identify(other, { plan: 'pro', theme: 'dark' })
      await alias(name, other)
      if (said === 'identify') await identify(name, { plan: 'pro' })
      else await call('POST', '/public/users/profile', { distinct_id: name, operations: { $set: { plan: 'pro' } } })
      await takeBack(name, other)
      t.same((await user(name))?.properties, { plan: 'pro' }, said)
      t.same((await user(other)).properties, { plan: 'pro', theme: 'dark' })
    }
  })

  t.test('each name of a chain leads where it was linked to', async (t) => {
    for (const name of ['ca', 'cb', 'cc']) await identify(name, { [name]: 1 })
    await alias('cb', 'cc')
    await alias('ca', 'cb')
    await alias('cc', 'cd')
    for (const name of ['cb', 'cc', 'cd']) t.equal(await userOf(name), 'ca', name)
    t.equal((await takeBack('cd', 'cb')).statusCode, 200)
    for (const name of ['cc', 'cd']) t.equal(await userOf(name), 'cb', name)
    t.same((await user('ca')).properties, { ca: 1 })
    t.same((await user('cb')).properties, { cb: 1, cc: 1 })
    t.equal((await takeBack('cb', 'cc')).statusCode, 200)
    t.equal(await userOf('cd'), 'cc')
    t.same((await user('cb')).properties, { cb: 1 })
  })

  t.test('a repeated alias restores nothing, and a profile that only it made is removed with it', async (t) => {
    await identify('ra-device', { first: 1 })
    await alias('ra', 'ra-device')
    await call('POST', '/public/users/profile', { distinct_id: 'ra', operations: { $unset: ['first'] } })
    await alias('ra', 'ra-device')
    t.same((await user('ra')).properties, {})
    await identify('rb-device', { first: 1 })
    await alias('rb', 'rb-device')
    t.equal(await userOf('rb'), 'rb')
    await takeBack('rb', 'rb-device')
    t.equal(await user('rb'), null)
    t.match(await user('rb-device'), { distinct_id: 'rb-device', properties: { first: 1 } })
    t.equal((await segment(writeKey, [{ type: 'identify', userId: 'rc', anonymousId: 'rb' }])).statusCode, 200)
    t.equal(await userOf('rb'), 'rc', 'and it can be an alias like one that never had any')
  })

  t.test('consecutive calls behave as if only the remaining links had been made', async (t) => {
    const names = ['a', 'b', 'c', 'd', 'e']
    await fc.assert(
      fc.asyncProperty(linkSteps(names.length, 10), async (steps) => {
        const prefix = randomName('said')
        const own = new Map(names.slice(0, 4).map((name) => [`${prefix}-${name}`, { [name]: 1, all: name }]))
        await Promise.all([...own].map(([name, properties]) => identify(name, properties)))
        await Promise.all(names.map((name) => track(`${prefix}-${name}`, { event: prefix })))
        const model = new AliasModel(own)
        for (const { call, a, b } of steps) {
          const [x, y] = [`${prefix}-${names[a]}`, `${prefix}-${names[b]}`]
          if (call === 'takeBack') t.equal((await takeBack(x, y)).statusCode, model.takeBack(x, y) ? 200 : 404)
          else if (x !== y) t.equal((await alias(x, y)).statusCode, model.link(x, y) ? 200 : 409)
        }
        const all = names.map((name) => `${prefix}-${name}`)
        const users = new Set(all.map((name) => model.userOf(name)))
        const question = { kind: 'series', from: 0, series: [{ event: prefix, metric: 'users' }], interval: 'none' }
        t.match((await call('POST', '/public/query', question)).json(), { results: [{ total: users.size }] })
        for (const name of all) {
          const found = await user(name)
          const properties = model.profiles().get(model.userOf(name))
          t.same(
            found && { name: found.distinct_id, properties: found.properties },
            properties ? { name: model.userOf(name), properties } : null,
          )
        }
      }),
      { numRuns: 3 },
    )
  })

  t.test('a user stays identified when the journal forgets', async (t) => {
    await identify('kept-1', {})
    await client.events()
    await client.app.close()
    const next = await startApp(t, env)
    const again = sdksOf(next)
    const key = await writeKeyOf(next)
    await until('the key', async () => (await again.segment(key, [])).statusCode !== 401)
    await again.segment(SECRET_KEY, [{ type: 'identify', userId: 'kept-2', anonymousId: 'kept-1' }])
    t.equal(await callsOf(next).userOf('kept-1'), 'kept-1')
  })
})

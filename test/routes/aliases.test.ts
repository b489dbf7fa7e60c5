import { Writable } from 'node:stream'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { makeKey, storedKey } from '../../src/keys/keys.js'
import { insertKeys } from '../../src/store/api-keys.js'
import { openStore } from '../../src/store/open.js'
import { callsOf, path, STEP, type Step } from '../alias-calls.js'
import { type Client, clientOf, randomName, SECRET_KEY, settingsFor, startApp, until } from '../helper.js'
import { newProject, sharedApp } from '../shared-app.js'

const DONE = '{"status":1,"error":null}'

/** All versions of the rows of these names in the table of aliases, of all lanes. */
async function rowsOf(
  { config }: Client,
  names: string[],
): Promise<{ alias: string; distinct_id: string; is_deleted: number }[]> {
  const { clickhouse, close } = await openStore(config)
  try {
    return await clickhouse.rows(
      'SELECT alias, distinct_id, is_deleted FROM aliases WHERE alias IN {names:Array(String)}',
      {
        names,
      },
    )
  } finally {
    await close()
  }
}

t.test('aliases', async (t) => {
  const { env, ...service } = await sharedApp('lanes')
  const client = await newProject(service)
  const { call, browser } = client
  const { alias, identify, track, user, userOf, all, remove } = callsOf(client)

  t.test('an alias is another name of the user in every call', async (t) => {
    await identify('ann', { plan: 'free' })
    t.equal((await call('GET', path('device'))).statusCode, 404)
    const response = await alias('ann', 'device')
    t.equal(response.statusCode, 200)
    t.equal(response.body, DONE)
    const found = await call('GET', path('device'))
    t.equal(found.body, (await call('GET', path('ann'))).body, 'the very same answer')
    t.match(found.json().user, { distinct_id: 'ann', properties: { plan: 'free' } })

    await identify('device', { name: 'Ann' })
    t.same((await user('ann')).properties, { name: 'Ann' }, 'identify under the alias')
    await call('POST', '/public/users/profile', { distinct_id: 'device', operations: { $add: { n: 2 } } })
    t.same((await user('ann')).properties, { name: 'Ann', n: 2 }, 'a change under the alias')
  })

  t.test('repeating a link changes nothing, and another user is a conflict', async (t) => {
    await identify('same', {})
    await identify('other', {})
    for (let i = 0; i < 3; i++) t.equal((await alias('same', 'name')).body, DONE)
    const conflict = await alias('other', 'name')
    t.equal(conflict.statusCode, 409)
    t.match(conflict.json(), { status: 0, code: 'alias_conflict', error: /names one user only/ })
    t.equal(await userOf('name'), 'same')
    t.equal((await alias('name', 'same')).statusCode, 200, 'the user is a name of itself')
    t.equal(await userOf('same'), 'same')
  })

  t.test('one user gets an alias that many calls link concurrently', async (t) => {
    const users = Array.from({ length: 8 }, (_, i) => `rival-${i}`)
    await Promise.all(users.map((name) => identify(name, {})))
    const codes = (await Promise.all(users.map((name) => alias(name, 'wanted')))).map(({ statusCode }) => statusCode)
    t.equal(codes.filter((code) => code === 200).length, 1, codes.join())
    t.equal(codes.filter((code) => code === 409).length, 7)
    t.equal(await userOf('wanted'), users[codes.indexOf(200)])
  })

  t.test('changes sent while their name becomes an alias all apply', async (t) => {
    const race = async (i: number) => {
      const [one, other] = [`racer-${i}`, `racing-device-${i}`]
      const change = (operations: object) => call('POST', '/public/users/profile', { distinct_id: other, operations })
      await identify(one, { own: 1 })
      if (i % 2 === 0) await change({ $add: { n: 10 } })
      const changes = Array.from({ length: 5 }, () => change({ $add: { n: 1 } }))
      await Promise.all([...changes.slice(0, 2), alias(one, other), ...changes.slice(2)])
      return (await user(one))?.properties
    }
    const races = Array.from({ length: 60 }, (_, i) => i)
    const found = await Promise.all(races.map(race))
    t.same(
      found,
      races.map((i) => ({ own: 1, n: i % 2 === 0 ? 15 : 5 })),
    )
  })

  t.test('a user with aliases becomes an alias, and keeps them', async (t) => {
    await identify('root', { root: true })
    await identify('middle', { middle: true })
    await alias('middle', 'leaf-1')
    await alias('leaf-1', 'leaf-2')
    t.equal(await userOf('leaf-2'), 'middle', 'an alias of an alias is one of the user')
    await alias('root', 'middle')
    for (const name of ['root', 'middle', 'leaf-1', 'leaf-2']) t.equal(await userOf(name), 'root', name)
    t.equal((await alias('root', 'leaf-1')).statusCode, 200, 'which it is already')
    t.equal((await alias('middle', 'leaf-1')).statusCode, 200, 'as it was')
    t.equal((await alias('leaf-1', 'middle')).statusCode, 200)
    await identify('stranger', {})
    t.equal((await alias('stranger', 'leaf-2')).statusCode, 409)
  })

  t.test('a long chain leads to its end, and is short afterwards', async (t) => {
    const names = Array.from({ length: 12 }, (_, i) => `link-${i}`)
    for (const [i, name] of names.entries()) if (i > 0) t.equal((await alias(name, `link-${i - 1}`)).statusCode, 200)
    await identify('link-0', { end: 1 })
    t.equal(await userOf('link-0'), 'link-11')
    t.equal(await userOf('link-5'), 'link-11')
    t.equal(await remove('link-3'), 200)
    t.equal(await userOf('link-11'), undefined)
    await identify('link-0', {})
    t.equal(await userOf('link-0'), 'link-0', 'every name is free again')
  })

  t.test('two concurrent calls that make a cycle leave one user', async (t) => {
    const pairs = Array.from({ length: 5 }, (_, i) => [`cycle-a-${i}`, `cycle-b-${i}`] as const)
    await Promise.all(
      pairs.map(async ([a, b]) => {
        const made = await Promise.all([alias(a, b), alias(b, a), alias(a, b)])
        t.same(
          made.map(({ statusCode }) => statusCode),
          [200, 200, 200],
        )
        await identify(a, { a })
        const [first, second] = [await userOf(a), await userOf(b)]
        t.equal(first, second)
        t.ok(first === a || first === b)
        await identify(`${a} later`, {})
        t.equal((await alias(`${a} later`, first ?? '')).statusCode, 200, 'which can become an alias itself')
        t.equal(await userOf(a), `${a} later`)
        t.equal(await userOf(b), `${a} later`)
      }),
    )
  })

  t.test('events are returned as they were sent, before and after the link', async (t) => {
    const text = '{ "é漢😀":9.90,\t"l":[1e2, {"b":null}] }'
    const body = (name: string, event: string) => `{"event":"${event}","distinct_id":"${name}","properties":${text}}`
    await call('POST', '/public/track', body('anon', 'before'))
    await browser('/public/sessions/start', { distinct_id: 'anon', session_id: 'of anon' })
    await identify('anon', { seen: 1 })
    await identify('eve', { plan: 'pro' })
    await alias('eve', 'anon')
    await call('POST', '/public/track', body('anon', 'after'))
    await call('POST', '/public/track', body('eve', 'own'))
    const events = (await client.events()).filter(({ distinct_id }) => ['anon', 'eve'].includes(distinct_id))
    t.same(events.map((event) => [event.event, event.distinct_id]).toSorted(), [
      ['after', 'anon'],
      ['before', 'anon'],
      ['own', 'eve'],
    ])
    for (const name of ['eve', 'anon']) {
      const lines = await all(name)
      const values = lines.map((line) => JSON.parse(line))
      t.same(
        values.map((value) => [value.type, value.distinct_id]),
        [
          ['profile', 'eve'],
          ['profile', 'anon'],
          ['alias', 'eve'],
          ['session', 'anon'],
          ...[...values.slice(4)].map(({ type, distinct_id }) => [type, distinct_id]),
        ],
        name,
      )
      t.same(
        values
          .slice(4)
          .map(({ event }) => event)
          .toSorted(),
        ['after', 'before', 'own'],
      )
      for (const line of lines.slice(4)) t.ok(line.includes(`"properties":${text}`), line)
      t.match(values[2], { type: 'alias', distinct_id: 'eve', alias: 'anon' })
    }
    const listed = (await call('GET', '/public/users?limit=1000'))
      .json()
      .users.map((one: { distinct_id: string }) => one.distinct_id)
    t.ok(listed.includes('eve'))
    t.notOk(listed.includes('anon'), 'the list has one user')
  })

  t.test('a session continues under another name of its user', async (t) => {
    const at = (distinct_id: string, step: string) =>
      browser(`/public/sessions/${step}`, { distinct_id, session_id: 'moves', properties: { step } })
    t.equal((await at('visitor', 'start')).statusCode, 200)
    t.equal((await at('fred', 'update')).statusCode, 409)
    await alias('fred', 'visitor')
    t.equal((await at('fred', 'update')).statusCode, 200)
    t.equal((await at('nobody', 'update')).json().code, 'session_owner_mismatch')
    t.equal((await at('fred', 'end')).statusCode, 200)
    t.match((await call('GET', '/public/sessions/moves')).json().session, {
      distinct_id: 'visitor',
      state: 'completed',
    })
    t.equal((await at('fred', 'start')).json().code, 'session_ended')
  })

  t.test('deleting a user deletes the aliases and frees the names', async (t) => {
    await identify('old', { secret: 1 })
    await identify('gone', { plan: 'x' })
    await alias('gone', 'old')
    await alias('old', 'older')
    t.equal(await remove('older'), 200, 'by any of its names')
    for (const name of ['gone', 'old', 'older']) t.equal(await user(name), null, name)
    t.equal(await remove('gone'), 404)
    t.same(await all('gone'), [])
    await identify('next', {})
    t.equal((await alias('next', 'old')).statusCode, 200, 'the name is free')
    t.equal(await userOf('old'), 'next')
    t.equal(await userOf('older'), undefined)
    t.equal((await alias('no profile', 'no profile either')).statusCode, 200)
    t.equal(await remove('no profile'), 200, 'a user that consists only of names')
    t.equal(await remove('no profile'), 404)
  })

  t.test('erasing a user removes everything under all names, also from the disk', async (t) => {
    await identify('x-anon', { seen: 1 })
    await track('x-anon')
    await identify('x', {})
    await alias('x', 'x-anon')
    await alias('x-anon', 'x-tablet')
    await track('x-tablet')
    await track('x')
    await browser('/public/sessions/start', { distinct_id: 'x-tablet', session_id: 'x session' })
    await identify('bystander', {})
    await alias('bystander', 'x-not')
    const response = await call('POST', '/public/users/erase', { distinct_ids: ['x-anon'] })
    t.match(response.json(), {
      erased: [{ distinct_id: 'x-anon', profile: true, events: 3, sessions: 1 }],
      purge_error: null,
    })
    await until('the purge', async () => {
      const { gone_at } = (await call('POST', '/public/users/erase', { distinct_ids: ['nobody'] })).json()
      return gone_at
    })
    const names = ['x', 'x-anon', 'x-tablet']
    for (const name of names) t.same(await all(name), [], name)
    t.notOk((await client.events()).some(({ distinct_id }) => names.includes(distinct_id)))
    t.equal(await userOf('x-not'), 'bystander')
    t.same(
      (await rowsOf(client, names)).toSorted((a, b) => (a.alias < b.alias ? -1 : 1)),
      [
        { alias: 'x', distinct_id: '', is_deleted: 1 },
        { alias: 'x-anon', distinct_id: '', is_deleted: 1 },
        { alias: 'x-tablet', distinct_id: '', is_deleted: 1 },
      ],
      'only that they are deleted',
    )
    await identify('x-anon', { again: true })
    t.match(await user('x-anon'), { distinct_id: 'x-anon', properties: { again: true } }, 'a separate user')
  })

  t.test('invalid fields are named', async (t) => {
    const wrong = async (body: unknown, path: string) => {
      const response = await call('POST', '/public/users/alias', body)
      t.equal(response.statusCode, 400, response.body)
      t.match(response.json(), { code: 'invalid_request', details: [{ path }] })
    }
    await wrong({ alias: 'a' }, '/distinct_id')
    await wrong({ distinct_id: 'a' }, '/alias')
    await wrong({ distinct_id: 'a', alias: '' }, '/alias')
    await wrong({ distinct_id: 'a', alias: 'x'.repeat(256) }, '/alias')
    await wrong({ distinct_id: 'a', alias: 7 }, '/alias')
    await wrong({ distinct_id: 'a', alias: 'a' }, '/alias')
  })

  t.test('names may be any texts', async (t) => {
    const names = ['😀'.repeat(255), "'); DROP TABLE aliases --", 'a/b%2F?c#d', '__proto__', 'nul\u0000back\\slash\n']
    for (const [i, name] of names.entries()) {
      await identify(`odd ${i}`, { i })
      t.equal((await alias(`odd ${i}`, name)).statusCode, 200)
      t.equal(await userOf(name), `odd ${i}`)
      t.match((await all(name)).map((line) => JSON.parse(line))[1], { type: 'alias', alias: name })
      t.equal(await remove(name), 200)
      t.equal(await user(name), null)
    }
  })

  t.test('aliases of aliases are listed in the order of all names', async (t) => {
    for (const [user, name] of [
      ['listed z', 'listed b'],
      ['listed y', 'listed c'],
      ['listed y', 'listed z'],
    ] as const)
      t.equal((await alias(user, name)).statusCode, 200)
    const { aliases } = (await client.call('GET', '/public/users/listed%20b/aliases')).json()
    t.strictSame(aliases, ['listed b', 'listed c', 'listed z'])
  })

  t.test('a user may have any number of aliases', async (t) => {
    const names = Array.from({ length: 1001 }, (_, i) => `${'many '.repeat(50)}${i}`)
    await identify('busy', {})
    await Promise.all(names.map((name) => alias('busy', name)))
    const listed = (await client.call('GET', '/public/users/busy/aliases')).json()
    t.strictSame(listed.aliases, names.toSorted().slice(0, 1000), 'in the order of their names')
    t.equal(listed.hasMore, true)
    await track(names.at(-1) ?? '')
    const lines = await all(names[7] ?? '')
    t.equal(lines.length, 1 + 1001 + 1)
    t.match(JSON.parse(lines.at(-1) ?? ''), { type: 'event', distinct_id: names.at(-1) })
    t.equal(await remove('busy'), 200)
    t.same(await user(names[9] ?? ''), null)
  })

  t.test('consecutive calls behave like a plain map', async (t) => {
    await fc.assert(
      fc.asyncProperty(fc.array(STEP, { minLength: 1, maxLength: 12 }), (steps) => likeMap(t, client, steps)),
      { numRuns: 3 },
    )
  })

  t.test('a process that starts later knows the aliases', async (t) => {
    await identify('kept', { k: 1 })
    await alias('kept', 'kept alias')
    await track('kept alias')
    await client.events()
    const redis = new Redis(env.REDIS_URL ?? '')
    // Like the journal ten minutes later; a lost journal has no counts either.
    const keys = [...(await redis.keys('*:state:*')), ...(await redis.keys('*:deletions'))]
    t.ok(keys.length > 1)
    await redis.del(keys)
    redis.disconnect()
    const { app, config } = await startApp(t, env)
    const next = clientOf(app, config, client.keys)
    const calls = callsOf(next)
    t.equal(await calls.userOf('kept alias'), 'kept')
    t.equal((await calls.alias('other', 'kept alias')).statusCode, 409)
    t.equal((await calls.alias('kept', 'kept alias')).statusCode, 200)
    t.equal(await calls.remove('kept'), 200)
    t.equal(await calls.user('kept alias'), null)
  })
})

/** Runs calls, and compares each response and the user of every name with a map of names to users. */
async function likeMap(t: Test, client: Client, steps: Step[]): Promise<void> {
  const { alias, identify, userOf, remove } = callsOf(client)
  const prefix = randomName('model')
  const names = Array.from({ length: 6 }, (_, i) => `${prefix}-${i}`)
  const links = new Map<string, string>()
  const profiles = new Set<string>()
  const find = (name: string): string => {
    const next = links.get(name)
    return next === undefined ? name : find(next)
  }
  for (const { call, a, b } of steps) {
    const [x = '', y = ''] = [names[a], names[b]]
    if (call === 'identify') {
      await identify(x, {})
      profiles.add(find(x))
    } else if (call === 'remove') {
      const own = names.filter((name) => find(name) === find(x))
      const isKnown = own.length > 1 || own.some((name) => profiles.has(name))
      t.equal(await remove(x), isKnown ? 200 : 404)
      for (const name of own) {
        links.delete(name)
        profiles.delete(name)
      }
    } else if (x !== y) {
      const user = find(x)
      const isConflict = links.has(y) && find(y) !== user
      t.equal((await alias(x, y)).statusCode, isConflict ? 409 : 200, JSON.stringify(steps))
      if (user !== y && !links.has(y)) {
        links.set(y, user)
        // The data of the other name now belongs to the user.
        if (profiles.has(y)) profiles.add(user)
      }
    }
  }
  for (const name of names) {
    const user = find(name)
    t.equal(await userOf(name), profiles.has(user) ? user : undefined, JSON.stringify(steps))
  }
}

t.test('aliases that SDKs send', async (t) => {
  const env = { ...(await settingsFor(t, 'servers')), FACTS: 'off' }
  const lines: string[] = []
  const log = pino({ level: 'warn' }, new Writable({ write: (chunk, _, done) => done(void lines.push(String(chunk))) }))
  const client = await startApp(t, env, { log })
  const { user, userOf, identify, alias } = callsOf(client)
  const writeKey = makeKey('write')
  const { clickhouse, close } = await openStore(client.config)
  await insertKeys(clickhouse, [storedKey(writeKey, { projectId: 'default', kind: 'write' })], Date.now())
  await close()
  const segment = (batch: object[], key = SECRET_KEY) =>
    client.app.inject({
      method: 'POST',
      url: '/segment/v1/batch',
      headers: { authorization: `Basic ${Buffer.from(`${key}:`).toString('base64')}` },
      payload: { batch },
    })
  await until('the key', async () => (await segment([], writeKey)).statusCode === 200)

  t.test('identify with both ids changes the profile of the user', async (t) => {
    const batch = [
      { type: 'identify', userId: 'sue', anonymousId: 'sue-1', traits: { plan: 'a' } },
      { type: 'identify', anonymousId: 'sue-1', traits: { colour: 'red' } },
    ]
    t.equal((await segment(batch, writeKey)).statusCode, 200)
    t.match(await user('sue-1'), { distinct_id: 'sue', properties: { plan: 'a', colour: 'red' } })
  })

  t.test('a conflict is counted and logged, but is no error', async (t) => {
    const conflicts = async () =>
      /^tallyhouse_alias_conflicts_total (\d+)$/m.exec((await client.call('GET', '/metrics')).body)?.[1]
    t.equal(await conflicts(), '0')
    for (const userId of ['tom-private', 'tim-private']) {
      const response = await segment([{ type: 'identify', userId, anonymousId: 'sue-1', traits: {} }])
      t.equal(response.statusCode, 200)
    }
    t.equal(await userOf('sue-1'), 'sue', 'the first stays')
    t.equal(await userOf('tom-private'), 'tom-private')
    t.equal(await conflicts(), '2')
    const logged = lines.filter((line) => line.includes('alias'))
    t.equal(logged.length, 1, 'at most once a minute')
    t.match(JSON.parse(logged[0] ?? ''), { project: 'default', conflicts: 1 })
    t.notMatch(lines.join(''), /private|sue/)
  })

  t.test('a placeholder is not linked', async (t) => {
    const batch = [
      { type: 'alias', userId: 'zoe', previousId: '$anonymous' },
      { type: 'alias', userId: 'zoe', previousId: 'x'.repeat(300) },
    ]
    t.equal((await segment(batch)).statusCode, 200)
    await identify('zoe', {})
    t.equal(await user('$anonymous'), null)
  })

  t.test('only a secret key deletes a profile', async (t) => {
    const remove = (token: string, name: string) =>
      client.app.inject({
        method: 'POST',
        url: '/mixpanel/engage',
        headers: { 'content-type': 'application/json' },
        payload: [
          { $token: token, $distinct_id: name, $set: { before: 1 } },
          { $token: token, $distinct_id: name, $delete: '' },
          { $token: token, $distinct_id: 'mia', $set: { after: 1 } },
        ],
      })
    await identify('mia', { m: 1 })
    await alias('mia', 'mia-1')
    t.equal((await remove(writeKey, 'mia-1')).statusCode, 200)
    t.match(await user('mia-1'), { distinct_id: 'mia', properties: { m: 1, before: 1, after: 1 } })
    t.equal((await remove(SECRET_KEY, 'mia-1')).statusCode, 200)
    t.same((await user('mia')).properties, { after: 1 }, 'in the order of the request')
    t.equal(await user('mia-1'), null, 'its aliases went along')
    t.equal((await remove(SECRET_KEY, 'nobody here')).statusCode, 200)
  })
})

import { Redis } from 'ioredis'
import t from 'tap'
import { randomName, settingsFor, startApp } from '../helper.js'

/** Lets the journals forget profiles, as some minutes after they are stored. The service must be stopped. */
async function forgetProfiles({ REDIS_URL = '' }: NodeJS.ProcessEnv): Promise<void> {
  const redis = new Redis(REDIS_URL)
  const keys = await redis.keys('*:state:*')
  if (keys.length > 0) await redis.del(keys)
  redis.disconnect()
}

t.test('batches of changes', async (t) => {
  const whole = t
  const env = { ...(await settingsFor(t, 'lanes')), FACTS: 'off' }
  let client = await startApp(t, env)
  const batch = async (...changes: unknown[]) => {
    const response = await client.call('POST', '/public/users/batch', { changes })
    if (response.statusCode !== 200) throw new Error(response.body)
    const { accepted, rejected } = response.json()
    return { accepted, rejected }
  }
  const all = (accepted: number) => ({ accepted, rejected: [] })
  const read = async (name: string) => {
    return (await client.call('GET', `/public/users/${encodeURIComponent(name)}`)).json().user
  }
  const properties = async (name: string) => (await read(name))?.properties
  const identify = (distinct_id: string, properties?: object) =>
    client.call('POST', '/public/users/identify', { distinct_id, properties })
  const set = (distinct_id: string, properties: object, timestamp?: number, more = {}) => {
    return { distinct_id, operations: { $set: properties }, ...(timestamp !== undefined && { timestamp }), ...more }
  }

  t.test('older changes do not overwrite newer ones, even if only the store has those', async (t) => {
    const user = randomName('user')
    await identify(user, { plan: 'enterprise', trial: true })
    await client.call('POST', '/public/users/profile', { distinct_id: user, operations: { $unset: ['trial'] } })
    const old = set(user, { plan: 'trial', trial: 1, city: 'Ulm' }, 1_577_836_800_000)
    t.same(await batch(old), all(1))
    t.same(await properties(user), { plan: 'enterprise', city: 'Ulm' })
    t.same(await batch(set(user, { city: 'Bonn' }, 1_600_000_000_000)), all(1))

    await client.call('GET', '/public/users?limit=1') // waits for the store
    await client.app.close()
    await forgetProfiles(env)
    client = await startApp(whole, env)
    t.same(await batch(old, set(user, { city: 'Kiel' }, 1_500_000_000_000), set(user, { n: 1 }, 0)), all(3))
    t.same(await properties(user), { plan: 'enterprise', city: 'Bonn', n: 1 })
    t.same(await batch(set(user, { plan: 'free' })), all(1), 'without a time it is made now')
    t.same(await properties(user), { plan: 'free', city: 'Bonn', n: 1 })
  })

  t.test('changes and aliases apply in order, and properties keep their times', async (t) => {
    const [user, visitor] = [randomName('user'), randomName('visitor')]
    const changes = [
      set(visitor, { plan: 'a', source: 'ad' }, 1000),
      { distinct_id: user, identified: true },
      { distinct_id: user, alias: visitor },
      set(visitor, { plan: 'b' }, 2000),
      set(user, { plan: 'old', source: 'old', city: 'Ulm' }, 500),
    ]
    t.same(await batch(...changes), all(5))
    t.match(await read(visitor), { distinct_id: user, properties: { plan: 'b', source: 'ad', city: 'Ulm' } })
    t.same(await batch(...changes), all(5), 'again')
    t.match(await read(user), { properties: { plan: 'b', source: 'ad', city: 'Ulm' } })
  })

  t.test('a change with an id is made once', async (t) => {
    const user = randomName('user')
    const add = { distinct_id: user, operations: { $add: { n: 1 } }, timestamp: 5, insert_id: 'one' }
    t.same(await batch(add, add, { ...add, insert_id: 'two' }), all(3))
    t.same(await batch(add), all(1))
    t.same(await properties(user), { n: 2 })
  })

  t.test('users are merged only if requested', async (t) => {
    const [one, other, third] = [randomName('one'), randomName('other'), randomName('third')]
    for (const distinct_id of [one, other])
      await batch({ distinct_id, identified: true, operations: { $set: { name: distinct_id } } })
    const link = { distinct_id: one, alias: other }
    const refused = { message: /identified/ }
    t.match((await batch(link, link)).rejected, [
      { index: 0, ...refused },
      { index: 1, ...refused },
    ])
    t.equal((await read(other)).distinct_id, other)
    t.same(await batch({ distinct_id: one, alias: other, merge: true }), all(1))
    t.equal((await read(other)).distinct_id, one)
    t.same(await batch({ distinct_id: third, alias: other }), all(1), 'it names another user, and stays')
    t.match((await batch({ distinct_id: third, alias: other, merge: true })).rejected, [
      { index: 0, message: /another user/ },
    ])
    t.equal((await read(other)).distinct_id, one)
  })

  t.test('profiles of groups, and deleted ones', async (t) => {
    const user = randomName('user')
    t.same(
      await batch(set('$group:acme', { size: 3 }, 1), set(user, { a: 1 }), { distinct_id: user, delete: true }),
      all(3),
    )
    t.same(await properties('$group:acme'), { size: 3 })
    t.equal(await read(user), undefined)
  })

  t.test('a refused change does not affect the others, and makes no dead letter', async (t) => {
    const user = randomName('user')
    const bad: [unknown, RegExp][] = [
      [7, /must be an object/],
      [{ operations: { $set: {} } }, /distinct_id must be a string/],
      [{ distinct_id: '', identified: true }, /distinct_id must be a string/],
      [{ distinct_id: user }, /must have operations/],
      [{ distinct_id: user, operations: { $sit: {} } }, /must be one of/],
      [{ distinct_id: user, operations: 7 }, /must be an object/],
      [{ distinct_id: user, operations: { $append: { n: 1 } } }, /not an array/],
      [{ distinct_id: user, operations: { $set: {} }, alias: 'x' }, /cannot have both/],
      [set(user, {}, -1), /timestamp must be/],
      [{ ...set(user, {}), timestamp: '5' }, /timestamp must be/],
      [set(user, {}, 1, { insert_id: '' }), /insert_id must be/],
      [{ distinct_id: user, identified: 'yes' }, /true or false/],
      [{ distinct_id: user, alias: user }, /must differ/],
      [{ distinct_id: user, alias: 'undefined' }, /reserved name or placeholder/],
      [{ distinct_id: '$anonymous', alias: user }, /reserved name or placeholder/],
      [set('$anonymous', { a: 1 }), /is reserved/],
      [set('null', { a: 1 }), /have no id/],
      [{ distinct_id: user, delete: false }, /delete must be true/],
    ]
    const good = set(user, { n: 1 })
    const { accepted, rejected } = await batch(good, ...bad.map(([change]) => change), set(user, { m: 2 }))
    t.equal(accepted, 2)
    t.same(
      rejected.map(({ index }: { index: number }) => index),
      bad.map((_, i) => i + 1),
    )
    for (const [i, [, message]] of bad.entries()) t.match(rejected[i]?.message, message)
    t.same(await properties(user), { n: 1, m: 2 })
    t.same((await client.call('GET', '/public/dead-letters')).json().dead_letters, [])
  })

  t.test('invalid requests', async (t) => {
    const send = (body: object, headers = {}) => client.call('POST', '/public/users/batch', body, headers)
    const changes = (count: number) => Array.from({ length: count }, () => ({ distinct_id: 'u', identified: true }))
    t.equal((await send({ changes: [] })).statusCode, 400)
    t.equal((await send({ changes: changes(1001) })).statusCode, 400)
    t.match((await send({ changes: 7 })).json().error, /changes must be an array of 1 to 1000 changes/)
    t.equal((await send({ changes: changes(1000) })).statusCode, 200)
    const exact = '{"changes":[{"distinct_id":"exact","operations":{"$set":{"n":1.0,"e":1e400,"s":"\\u0041"}}}]}'
    t.equal((await client.call('POST', '/public/users/batch', exact)).statusCode, 200)
    t.match((await client.call('GET', '/public/users/exact')).body, '{"n":1.0,"e":1e400,"s":"\\u0041"}')
  })
})

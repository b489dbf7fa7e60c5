import t, { type Test } from 'tap'
import { type Client, randomName, SECRET_KEY, settingsFor, startApp, startRedis } from '../helper.js'
import { shardsUrl, startNodes } from '../nodes.js'

const KEYS = Array.from({ length: 6 }, (_, i) => `key ${i}`)

for (const storage of ['embedded lanes', 'lanes'] as const) {
  t.test(`idempotency keys over ${storage}`, async (t) => {
    const { call } = await startApp(t, { ...(await settingsFor(t, storage)), FACTS: 'off' })
    const add = (user: string, key: string, amount = 1) => {
      const body = { distinct_id: user, operations: { $add: { visits: amount } } }
      return call('POST', '/public/users/profile', body, { 'idempotency-key': key })
    }
    const track = (key: string) =>
      call('POST', '/public/track', { event: 'keyed', distinct_id: 'u' }, { 'idempotency-key': key })

    t.test('a profile change is executed once, wherever its profile is', async (t) => {
      await Promise.all(KEYS.flatMap((key) => [add(key, key), add(key, key), add(key, key)]))
      for (const key of KEYS) {
        t.equal((await add(key, key)).statusCode, 200)
        const { user } = (await call('GET', `/public/users/${key}`)).json()
        t.equal(user.properties.visits, 1, key)
      }
    })

    t.test('another request with the key is a conflict, in whichever lanes the two are', async (t) => {
      for (const key of KEYS) {
        t.equal((await add(key, key, 2)).json().code, 'idempotency_conflict', 'another change')
        t.equal((await add(`${key} too`, key)).json().code, 'idempotency_conflict', 'another profile')
        t.equal((await track(key)).json().code, 'idempotency_conflict', 'an event')
      }
      for (const key of KEYS.map((key) => `event ${key}`)) {
        const first = await track(key)
        t.equal(first.statusCode, 200)
        t.equal((await track(key)).headers['x-event-id'], first.headers['x-event-id'])
        t.equal((await add(key, key)).json().code, 'idempotency_conflict', 'a change after an event')
        t.equal((await call('GET', `/public/users/${key}`)).statusCode, 404)
      }
    })

    t.test('a change that is refused leaves its key free for a corrected one', async (t) => {
      for (const key of KEYS.map((key) => `refused ${key}`)) {
        const properties = { visits: 'many' }
        await call('POST', '/public/users/identify', { distinct_id: key, properties })
        t.equal((await add(key, key)).json().code, 'not_numeric')
        const corrected = { distinct_id: key, operations: { $set: { visits: 1 } } }
        const headers = { 'idempotency-key': key }
        t.equal((await call('POST', '/public/users/profile', corrected, headers)).statusCode, 200)
        t.equal((await add(key, key)).json().code, 'idempotency_conflict', 'the corrected one has used the key')
      }
    })
  })
}

t.test('a walk over two shards skips and repeats nothing while processes write to all lanes', async (t) => {
  const [redis, nodes] = await Promise.all([startRedis(t), startNodes(t, 2)])
  const servers = { REDIS_URL: redis.url, LANES: '3', CLICKHOUSE_URL: shardsUrl(nodes) }
  const env = { LOG_LEVEL: 'silent', FACTS: 'off', SECRET_KEY, ...servers }
  const homes = await Promise.all(['0', '1', '2'].map((HOME_LANE) => startApp(t, { ...env, HOME_LANE })))
  const sent = new Set<string>()
  let isOver = false
  // The third lane is nearly idle.
  const writers = homes.map(async (home, lane) => {
    for (let n = 0; n < (lane === 2 ? 3 : 25); n++) sent.add(await trackOne(t, home, lane))
  })
  const over = Promise.all(writers).then(() => {
    isOver = true
  })
  const seen: string[] = []
  let cursor = ''
  for (let isLast = false; !isLast; ) {
    isLast = isOver
    const before = [...sent]
    const path: string = `/public/events?limit=7${cursor && `&cursor=${cursor}`}`
    const { events, hasMore, next } = (await homes[seen.length % 3]?.call('GET', path))?.json() ?? {}
    for (const { eventId } of events) seen.push(eventId)
    if (next) cursor = next
    if (hasMore) isLast = false
    else for (const id of before) t.ok(seen.includes(id) || !isLast, 'own writes are read')
    if (!next && !isLast) {
      // Without a next page, the walk starts again after what it has seen: with the same cursor.
      seen.splice(seen.length - events.length)
    }
  }
  await over
  t.equal(new Set(seen).size, seen.length, 'nothing twice')
  t.strictSame(new Set(seen), sent, 'nothing skipped')
  t.strictSame(seen, [...seen].sort(), 'in order')
})

async function trackOne(t: Test, home: Client, lane: number): Promise<string> {
  const response = await home.call('POST', '/public/track', { event: `of ${lane}`, distinct_id: randomName('u') })
  t.equal(response.statusCode, 200)
  return String(response.headers['x-event-id'])
}

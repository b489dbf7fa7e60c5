import t, { type Test } from 'tap'
import { laneOf } from '../../src/model/lane-of.js'
import { stateKeyOf } from '../../src/model/state-key.js'
import {
  type Client,
  PUBLIC_KEY,
  randomName,
  SECRET_KEY,
  settingsFor,
  startApp,
  startClickHouse,
  startRedis,
  until,
} from '../helper.js'
import { shardsUrl, startNodes } from '../nodes.js'
import { RedisCluster } from '../redis-cluster.js'

const KEYS = Array.from({ length: 12 }, (_, i) => `key ${i}`)

for (const storage of ['embedded lanes', 'lanes'] as const) {
  t.test(`idempotency keys over ${storage}`, async (t) => {
    const { call } = await startApp(t, await settingsFor(t, storage))
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
        t.equal((await add(key, key)).json().code, 'idempotency_conflict', 'which the corrected one has taken')
      }
    })
  })
}

/** The names that begin like this and are in the given lane of two. */
function namesIn(lane: number, kind: 'profiles' | 'sessions', prefix: string): string[] {
  const names = Array.from({ length: 30 }, (_, i) => `${prefix}${i}`)
  return names.filter((name) => laneOf(stateKeyOf(kind, 'default', name), 2) === lane).slice(0, 3)
}

t.test('while a lane is down, what needs it says so, and the rest goes on', async (t) => {
  const [first, second, clickhouse] = await Promise.all([startRedis(t), startRedis(t), startClickHouse(t)])
  const { call, browser, events } = await startApp(t, {
    ...{ LOG_LEVEL: 'silent', PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY },
    REDIS_URL: `${first.url},${second.url}`,
    CLICKHOUSE_URL: clickhouse.url,
    HOME_LANE: '1',
  })
  const track = (n: number) => call('POST', '/public/track', { event: 'e', distinct_id: 'u', properties: { n } })
  const identify = (distinct_id: string) => call('POST', '/public/users/identify', { distinct_id })
  const ids = [(await track(0)).headers['x-event-id']]
  await second.kill()
  await until('the journal to notice', async () => {
    return (await call('GET', '/health/ready')).json().lanes[1] === 'unavailable'
  })

  for (let n = 1; n <= 5; n++) {
    const response = await track(n)
    t.equal(response.statusCode, 200, 'events take the other lane')
    ids.push(response.headers['x-event-id'])
  }
  const batch = await call('POST', '/public/track/batch', { events: [{ event: 'e', distinct_id: 'u' }] })
  t.equal(batch.statusCode, 200)
  for (const name of namesIn(0, 'profiles', 'p')) t.equal((await identify(name)).statusCode, 200)
  const name = new RegExp(`lane 1 \\(${new URL(second.url).host}\\)`)
  for (const response of [
    ...(await Promise.all(namesIn(1, 'profiles', 'p').map(identify))),
    await call('GET', '/public/events'),
    await call('GET', '/public/users'),
  ]) {
    t.match(response.json(), { status: 0, error: name, code: 'unavailable' })
    t.ok(response.headers['retry-after'])
  }
  for (const session_id of namesIn(1, 'sessions', 's')) {
    const { error } = (await browser('/public/sessions/start', { session_id, distinct_id: 'u' })).json()
    t.match(error, 'In lane 1: ', 'a public key learns no host')
  }
  const known = await call('GET', `/public/events/${ids[1]}`)
  t.equal(known.statusCode, 200, 'an event of the other lane can be read')
  await second.restart()
  const all = await until('the lane to be back', () => events().catch(() => undefined))
  t.equal(all.length, 7)
  for (const name of namesIn(1, 'profiles', 'p')) t.equal((await identify(name)).statusCode, 200)
})

t.test('a walk over two shards skips and repeats nothing while processes write to all lanes', async (t) => {
  const [redis, nodes] = await Promise.all([startRedis(t), startNodes(t, 2)])
  const servers = { REDIS_URL: redis.url, LANES: '3', CLICKHOUSE_URL: shardsUrl(nodes) }
  const env = { LOG_LEVEL: 'silent', SECRET_KEY, ...servers }
  const homes = await Promise.all(['0', '1', '2'].map((HOME_LANE) => startApp(t, { ...env, HOME_LANE })))
  const sent = new Set<string>()
  let isOver = false
  // The third lane is nearly idle.
  const writers = homes.map(async (home, lane) => {
    for (let n = 0; n < (lane === 2 ? 3 : 60); n++) sent.add(await trackOne(t, home, lane))
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
      // Without a next page the walk starts over behind what it has seen: with the same cursor.
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

t.test('lanes in a Redis Cluster, where the requests of keys are counted, too', async (t) => {
  const [cluster, clickhouse] = await Promise.all([RedisCluster.start(t, 3), startClickHouse(t)])
  const { call, events } = await startApp(t, {
    LOG_LEVEL: 'silent',
    SECRET_KEY,
    REDIS_URL: cluster.urls.slice(0, 2).join(),
    LANES: '3',
    CLICKHOUSE_URL: clickhouse.url,
    RATE_LIMIT: '20',
  })
  for (const key of KEYS) {
    t.equal((await call('POST', '/public/users/identify', { distinct_id: key })).statusCode, 200)
  }
  const headers = { 'idempotency-key': 'once' }
  for (let i = 0; i < 2; i++) await call('POST', '/public/track', { event: 'e', distinct_id: 'u' }, headers)
  t.equal((await events()).length, 1)
  let status = 0
  for (let i = 0; i < 10 && status !== 429; i++) status = (await call('GET', '/public/users')).statusCode
  t.equal(status, 429)
})

t.test('several Redis that are neither as many as lanes nor a cluster stop the start', async (t) => {
  const [first, second, clickhouse] = await Promise.all([startRedis(t), startRedis(t), startClickHouse(t)])
  const REDIS_URL = `${first.url},${second.url}`
  await t.rejects(
    startApp(t, { LOG_LEVEL: 'silent', SECRET_KEY, REDIS_URL, LANES: '3', CLICKHOUSE_URL: clickhouse.url }),
    { message: /^REDIS_URL names 2 servers, but there are 3 lanes\. / },
  )
})

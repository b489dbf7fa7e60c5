import t from 'tap'
import { chooseLane } from '../../src/model/choose-lane.js'
import { toStateKey } from '../../src/model/state-key.js'
import { PUBLIC_KEY, SECRET_KEY, startApp, startClickHouse, startRedis, until } from '../helper.js'
import { RedisCluster } from '../redis-cluster.js'

const KEYS = Array.from({ length: 12 }, (_, i) => `key ${i}`)

/** The names with this prefix that are in the given lane of two. */
function namesIn(lane: number, kind: 'profiles' | 'sessions', prefix: string): string[] {
  const names = Array.from({ length: 30 }, (_, i) => `${prefix}${i}`)
  return names.filter((name) => chooseLane(toStateKey(kind, 'default', name), 2) === lane).slice(0, 3)
}

t.test('while a lane is down, calls that need it say so, and the others work', async (t) => {
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
  const { apiKey: writeKey } = (await call('POST', '/public/keys', { kind: 'write' })).json()
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
  const [$distinct_id] = namesIn(1, 'profiles', 'p')
  const updateBySdk = async (key: string) => {
    const response = await call('POST', '/mixpanel/engage', [{ $distinct_id, $set: { a: 1 } }], { 'x-api-key': key })
    return response.json().error
  }
  t.match(await updateBySdk(writeKey), 'In lane 1: ', 'nor does the SDK of a page')
  t.match(await updateBySdk(SECRET_KEY), name)
  const known = await call('GET', `/public/events/${ids[1]}`)
  t.equal(known.statusCode, 200, 'an event of the other lane can be read')
  await second.restart()
  // After waiting for 5 s, a page contains what is stored by then.
  const all = await until('the lane to be back', async () => {
    const found = await events().catch(() => [])
    return found.length >= 7 && found
  })
  t.equal(all.length, 7)
  for (const name of namesIn(1, 'profiles', 'p')) t.equal((await identify(name)).statusCode, 200)
})

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

t.test('several Redis servers that are neither one per lane nor a cluster stop the start', async (t) => {
  const [first, second, clickhouse] = await Promise.all([startRedis(t), startRedis(t), startClickHouse(t)])
  const REDIS_URL = `${first.url},${second.url}`
  await t.rejects(
    startApp(t, { LOG_LEVEL: 'silent', SECRET_KEY, REDIS_URL, LANES: '3', CLICKHOUSE_URL: clickhouse.url }),
    { message: /^REDIS_URL names 2 servers, but there are 3 lanes\. / },
  )
})

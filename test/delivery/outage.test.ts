import t from 'tap'
import { startEmbeddedClickHouse } from '../../src/clickhouse/embedded/engine.js'
import { ADVANCE_PAST } from '../../src/journal/redis/scripts.js'
import {
  type Client,
  freePort,
  PUBLIC_KEY,
  SECRET_KEY,
  silent,
  startApp,
  startRedis,
  temporaryFolder,
  until,
} from '../helper.js'
import { TcpProxy } from './tcp-proxy.js'

/** Calls with a key that only the store could verify, and what each vendor's SDKs read in the response to a failure. */
const VENDOR_CALLS: [url: string, payload: string, said: object][] = [
  ['/segment/v1/batch', '{"writeKey":"wk_stored","batch":[]}', { success: false, code: 'unavailable' }],
  ['/posthog/batch/', '{"api_key":"wk_stored","batch":[]}', { type: 'error', code: 'unavailable' }],
  ['/mixpanel/track', '[{"event":"e","properties":{"token":"wk_stored"}}]', { status: 0, error: String }],
  ['/amplitude/2/httpapi', '{"api_key":"wk_stored","events":[]}', { code: 503 }],
  ['/openpanel/track?token=wk_stored', '{"type":"track"}', { code: 'unavailable' }],
]

t.test('an outage of ClickHouse', async (t) => {
  const redis = await startRedis(t)
  const clickhouse = { path: await temporaryFolder(t), port: await freePort(), password: 'outage', log: silent }
  let engine = await startEmbeddedClickHouse(clickhouse)
  t.teardown(() => engine.close())
  const settings = {
    PUBLIC_API_KEY: PUBLIC_KEY,
    SECRET_KEY,
    LOG_LEVEL: 'silent',
    REDIS_URL: redis.url,
    CLICKHOUSE_URL: engine.url,
  }
  const client = await startApp(t, settings)
  const track = (name: string) => client.call('POST', '/public/track', { event: name, distinct_id: 'u' })
  const names = async () => (await client.events()).map(({ event }) => event)

  await track('before')
  t.strictSame(await names(), ['before'])

  t.test('data that is sent in the meantime is accepted', async (t) => {
    await engine.close()
    for (const name of ['a', 'b']) t.equal((await track(name)).statusCode, 200)
    const ready = await client.call('GET', '/health/ready')
    t.equal(ready.statusCode, 503)
    t.match(ready.json(), { status: 0, code: 'unavailable', journal: 'ready', store: 'unavailable' })
  })

  t.test('a reader gets an error without internals', async (t) => {
    const response = await client.call('GET', '/public/events')
    t.equal(response.statusCode, 503)
    t.match(response.json(), { status: 0, code: 'unavailable' })
    t.ok(response.headers['retry-after'])
    t.notMatch(response.body, /ECONNREFUSED|127\.0\.0\.1|SELECT/)
  })

  t.test('afterwards, everything is stored once', async (t) => {
    engine = await startEmbeddedClickHouse(clickhouse)
    await until('the store', async () => (await client.call('GET', '/public/events')).statusCode === 200)
    t.strictSame(await names(), ['before', 'a', 'b'])
    t.equal((await client.call('GET', '/health/ready')).statusCode, 200)
  })

  t.test('a service that starts during the outage accepts events, which the next one stores', async (t) => {
    await engine.close()
    await client.app.close()
    const second = await startApp(t, settings)
    t.equal((await second.call('POST', '/public/track', { event: 'c', distinct_id: 'u' })).statusCode, 200)
    await t.test("a key that cannot be looked up does not count as wrong: vendors' SDKs send again", async (t) => {
      for (const [url, payload, said] of VENDOR_CALLS) {
        const refused = await second.app.inject({
          method: 'POST',
          url,
          payload,
          headers: { origin: 'https://a.example' },
        })
        t.equal(refused.statusCode, 503, url)
        t.match(refused.json(), said)
        t.ok(refused.headers['retry-after'])
        t.equal(
          refused.headers['access-control-allow-origin'],
          'https://a.example',
          'otherwise pages would consider it delivered',
        )
      }
    })
    await second.app.close()

    engine = await startEmbeddedClickHouse(clickhouse)
    const third = await startApp(t, settings)
    t.strictSame(
      (await third.events()).map(({ event }) => event),
      ['before', 'a', 'b', 'c'],
    )
  })
})

t.test('an outage of Redis', async (t) => {
  const redis = await startRedis(t)
  const client = await startApp(t, {
    PUBLIC_API_KEY: PUBLIC_KEY,
    SECRET_KEY,
    LOG_LEVEL: 'silent',
    DATA_DIR: await temporaryFolder(t),
    REDIS_URL: redis.url,
  })
  const track = (name: string) => client.call('POST', '/public/track', { event: name, distinct_id: 'u' })
  t.equal((await track('before')).statusCode, 200)

  await redis.kill()
  const refused = await track('meanwhile')
  t.equal(refused.statusCode, 503)
  t.match(refused.json(), { status: 0, code: 'unavailable' })
  t.ok(refused.headers['retry-after'])
  t.match((await client.call('GET', '/health/ready')).json(), { journal: 'unavailable', store: 'ready' })

  await redis.restart()
  await until('the journal', async () => (await track('after')).statusCode === 200)
  t.strictSame(
    (await client.events()).map(({ event }) => event),
    ['before', 'after'],
  )
})

t.test('a journal that comes back after another one has written continues at later positions', async (t) => {
  const engine = await startEmbeddedClickHouse({ path: await temporaryFolder(t), log: silent })
  t.teardown(() => engine.close())
  const redis = await startRedis(t)
  const embedded = {
    PUBLIC_API_KEY: PUBLIC_KEY,
    SECRET_KEY,
    LOG_LEVEL: 'silent',
    DATA_DIR: await temporaryFolder(t),
    CLICKHOUSE_URL: engine.url,
  }
  const names: string[] = []
  const visit = async (name: string, settings: NodeJS.ProcessEnv) => {
    const client = await startApp(t, settings)
    t.strictSame(
      (await client.events()).map(({ event }) => event),
      names,
      `${name} finds the earlier data`,
    )
    await client.call('POST', '/public/track', { event: name, distinct_id: 'ada' })
    names.push(name)
    await client.call('POST', '/public/users/profile', {
      distinct_id: 'ada',
      operations: { $append: { visits: name } },
    })
    t.strictSame((await client.call('GET', '/public/users/ada')).json().user.properties.visits, names)
    t.equal((await client.events()).length, names.length)
    await client.app.close()
  }
  await visit('lmdb', embedded)
  await visit('redis', { ...embedded, REDIS_URL: redis.url })
  await visit('lmdb again', embedded)
  await visit('redis again', { ...embedded, REDIS_URL: redis.url })
})

t.test('a start is retried if Redis is briefly unavailable', async (t) => {
  const engine = await startEmbeddedClickHouse({ path: await temporaryFolder(t), log: silent })
  t.teardown(() => engine.close())
  const settings = { PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, LOG_LEVEL: 'silent', CLICKHOUSE_URL: engine.url }
  const names = async ({ events }: Client) => (await events()).map(({ event }) => event)
  const track = async ({ call }: Client, event: string) => {
    t.equal((await call('POST', '/public/track', { event, distinct_id: 'u' })).statusCode, 200)
  }
  const other = await startApp(t, { ...settings, DATA_DIR: await temporaryFolder(t) })
  await track(other, 'before')
  t.strictSame(await names(other), ['before'])
  await other.app.close()

  const redis = await startRedis(t)
  const proxy = await TcpProxy.open(t, redis.url)
  const lost = proxy.loseRequest(ADVANCE_PAST.single.digest)
  const client = await startApp(t, { ...settings, REDIS_URL: proxy.url })
  await lost
  const isReady = async () => (await client.call('GET', '/public/events')).statusCode === 200
  await until('the service', isReady)
  await track(client, 'after')
  t.strictSame(await names(client), ['before', 'after'])
})

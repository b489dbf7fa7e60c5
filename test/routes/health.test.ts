import { Redis } from 'ioredis'
import t from 'tap'
import { startApp, startClickHouse, startRedis, until } from '../helper.js'
import { sharedApp } from '../shared-app.js'

t.test('one lane', async (t) => {
  const { call } = await sharedApp()
  const live = await call('GET', '/health/live')
  t.strictSame([live.statusCode, live.json()], [200, { status: 1, error: null }])
  const ready = await call('GET', '/health/ready')
  t.strictSame([ready.statusCode, ready.json()], [200, { status: 1, error: null, journal: 'ready', store: 'ready' }])
  t.equal((await call('GET', '/health/ready?probe=1')).statusCode, 200, 'for a probe that sends other parameters')
  t.equal((await call('GET', '/health/ready?partial=perhaps')).statusCode, 400)
})

t.test('several lanes, one of which goes down', async (t) => {
  const [first, second, clickhouse] = await Promise.all([startRedis(t), startRedis(t), startClickHouse(t)])
  const settings = {
    LOG_LEVEL: 'silent',
    FACTS: 'off',
    REDIS_URL: `${first.url},${second.url}`,
    CLICKHOUSE_URL: clickhouse.url,
  }
  const { call } = await startApp(t, settings)
  const ready = { journal: 'ready', store: 'ready', lanes: { 0: 'ready', 1: 'ready' } }
  t.strictSame((await call('GET', '/health/ready')).json(), { status: 1, error: null, ...ready })
  await second.kill()
  const states = { journal: 'unavailable', store: 'ready', lanes: { 0: 'ready', 1: 'unavailable' } }
  const all = await call('GET', '/health/ready')
  t.equal(all.statusCode, 503)
  t.strictSame(all.json(), {
    status: 0,
    error: 'Not ready: lane 1. The journal cannot be reached. Try again in a moment.',
    code: 'unavailable',
    ...states,
  })
  const part = await call('GET', '/health/ready?partial=true')
  t.equal(part.statusCode, 200)
  t.strictSame(part.json(), { status: 1, error: null, ...states })
  await first.kill()
  t.equal((await call('GET', '/health/ready?partial=true')).statusCode, 503, 'but not with none')
})

t.test('not ready while Redis refuses writes', async (t) => {
  const [redis, clickhouse] = await Promise.all([startRedis(t), startClickHouse(t)])
  const env = { LOG_LEVEL: 'silent', FACTS: 'off', REDIS_URL: redis.url, CLICKHOUSE_URL: clickhouse.url }
  const { call } = await startApp(t, env)
  const admin = new Redis(redis.url)
  t.teardown(() => admin.disconnect())
  const refusals = [
    { setting: 'maxmemory', refusing: '1mb', usual: '0' },
    { setting: 'min-replicas-to-write', refusing: '1', usual: '0' },
  ]
  for (const { setting, refusing, usual } of refusals) {
    await admin.config('SET', setting, refusing)
    const refused = await call('GET', '/health/ready')
    t.equal(refused.statusCode, 503, setting)
    t.match(refused.json(), { journal: 'unavailable', store: 'ready', error: /^Not ready: journal\. The journal / })
    await admin.config('SET', setting, usual)
    await until('it to be ready', async () => (await call('GET', '/health/ready')).statusCode === 200)
  }
  t.equal(await admin.exists('{tallyhouse}:none'), 0, 'nothing is written')
})

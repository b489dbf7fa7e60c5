import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import t from 'tap'
import { TcpProxy } from '../delivery/tcp-proxy.js'
import { PUBLIC_KEY, SECRET_KEY, startApp, startClickHouse, startRedis, until } from '../helper.js'

const redis = await startRedis(t)
const engine = await startClickHouse(t)
const proxy = await TcpProxy.open(t, engine.url)
const { call } = await startApp(t as never, {
  ...{ PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, LOG_LEVEL: 'silent', QUERY_TIMEOUT: '1' },
  ...{ REDIS_URL: redis.url, CLICKHOUSE_URL: proxy.url },
})
const question = { kind: 'series', series: [{ event: 'a' }], interval: 'none' }
const total = async () => {
  const response = await call('POST', '/public/query', question)
  return response.statusCode === 200 && response.json().results[0].total
}
await call('POST', '/public/track', { event: 'a', distinct_id: 'ada' })
await until('an answer', async () => (await total()) === 1)

const unavailable = async (limitMs: number) => {
  const startedAt = performance.now()
  const asked = [call('POST', '/public/query', question), call('GET', '/public/schema/properties')]
  const answers = (await Promise.all(asked)).map((response) => [
    ...[response.statusCode, response.json().code, Number(response.headers['retry-after']) > 0],
  ])
  const ms = performance.now() - startedAt
  return [...answers, ms < limitMs || `${ms} ms`]
}
const UNAVAILABLE = [503, 'unavailable', true]

t.test('a question is refused immediately while ClickHouse is down, until it is back', async (t) => {
  proxy.cut()
  t.strictSame(await unavailable(5_000), [UNAVAILABLE, UNAVAILABLE, true])
  proxy.restore()
  await until('an answer', async () => (await total()) === 1)
})

t.test('a question to a silent ClickHouse ends, and is not called too large', async (t) => {
  const silent = createServer().listen(0, '127.0.0.1')
  await once(silent, 'listening')
  t.teardown(() => silent.close())
  proxy.moveTo(`http://127.0.0.1:${(silent.address() as AddressInfo).port}`)
  // The time limit of a question, the time in which ClickHouse may notice it, and a ping; on a busy machine one after
  // the other. A query that a silent server may still run keeps its slot, so the second one may wait in vain.
  const either = [503, /^(unavailable|overloaded)$/, true]
  t.match(await unavailable(2 * (1_000 + 5_000 + 2_000) + 6_000), [either, either, true])
  proxy.moveTo(engine.url)
  await until('an answer', async () => (await total()) === 1)
})

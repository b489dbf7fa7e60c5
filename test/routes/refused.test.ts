import t from 'tap'
import { PUBLIC_KEY, SECRET_KEY, startApp, startClickHouse, startRedis } from '../helper.js'

const [redis, clickhouse] = await Promise.all([startRedis(t), startClickHouse(t)])
const { call, browser } = await startApp(t as never, {
  ...{ PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, LOG_LEVEL: 'silent', FACTS: 'off' },
  ...{ REDIS_URL: redis.url, CLICKHOUSE_URL: clickhouse.url },
})
const event = { event: 'e', distinct_id: 'u' }
const sent = await call('POST', '/public/track', event)
const id = sent.headers['x-event-id']
await redis.kill()

const READ_REFUSAL = /^The journal cannot be reached\. Try again in a moment\.$/

t.test('a refused read does not mention storing', async (t) => {
  const question = { kind: 'series', series: [{ event: 'a' }], interval: 'none' }
  const asked = [
    ...['events', `events/${id}`, 'users', 'users/u', 'users/u/export', 'sessions', 'sessions/s', 'export'].map(
      (path) => call('GET', `/public/${path}`),
    ),
    call('GET', '/public/dead-letters'),
    call('POST', '/public/query', question),
  ]
  for (const response of await Promise.all(asked)) {
    t.match(response, { statusCode: 503, headers: { 'retry-after': '1' } })
    t.match(response.json(), { code: 'unavailable', error: READ_REFUSAL })
  }
})

t.test('a refused write says that nothing was stored', async (t) => {
  const sent = [
    call('POST', '/public/track', event),
    call('POST', '/public/track', event, { 'idempotency-key': 'k' }),
    call('POST', '/public/track/batch', { events: [event] }),
    call('POST', '/public/track/batch', { events: [{ ...event, insert_id: 'i' }] }),
  ]
  for (const response of await Promise.all(sent)) {
    t.match(response, { statusCode: 503, headers: { 'retry-after': '1' } })
    t.match(response.json(), {
      code: 'unavailable',
      error: 'The journal cannot be reached. Try again in a moment. Nothing was stored.',
    })
  }
})

t.test('a change that is refused because of a look-up says when to try again', async (t) => {
  const sent = [
    call('POST', '/public/users/identify', { distinct_id: 'u' }),
    call('POST', '/public/users/profile', { distinct_id: 'u', operations: { $add: { n: 1 } } }),
    call('DELETE', '/public/users/u'),
    browser('/public/sessions/start', { distinct_id: 'u', session_id: 's' }),
  ]
  for (const response of await Promise.all(sent)) {
    t.match(response, { statusCode: 503, headers: { 'retry-after': '1' } })
    t.match(response.json(), { code: 'unavailable', error: READ_REFUSAL })
  }
})

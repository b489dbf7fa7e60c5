import t, { type Test } from 'tap'
import {
  type Client,
  PUBLIC_KEY,
  SECRET_KEY,
  type StoredEvent,
  startApp,
  startClickHouse,
  startRedis,
  until,
} from '../helper.js'

const SETTINGS = { LOG_LEVEL: 'silent', PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, HOME_LANE: '1' }

const urls = (...servers: { url: string }[]) => servers.map(({ url }) => url).join(',')

/** Sends an event, which is accepted; and remembers its id. */
async function send(t: Test, { call }: Client, ids: string[], headers: Record<string, string> = {}): Promise<void> {
  const response = await call('POST', '/public/track', { event: 'e', distinct_id: 'u' }, headers)
  t.equal(response.statusCode, 200)
  ids.push(String(response.headers['x-event-id']))
}

/** Reads a page, from the oldest event or from a cursor on. Throws while accepted events are missing from it. */
async function pageOf({ call }: Client, cursor: string | null): Promise<{ ids: string[]; next: string | null }> {
  const response = await call('GET', `/public/events?limit=2${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`)
  if (response.statusCode !== 200) throw new Error(response.body)
  const { events, next, pending } = response.json()
  if (pending > 0) throw new Error(`${pending} events are not stored yet`)
  return { ids: (events as StoredEvent[]).map(({ eventId }) => eventId), next }
}

t.test('a service starts while a lane is down, and uses it as soon as it is back', async (t) => {
  const [first, second, clickhouse] = await Promise.all([startRedis(t), startRedis(t), startClickHouse(t)])
  const env = { ...SETTINGS, REDIS_URL: urls(first, second), CLICKHOUSE_URL: clickhouse.url }
  const before = await startApp(t, env)
  const ids: string[] = []
  for (let i = 0; i < 3; i++) await send(t, before, ids)
  let page = await until('the first page', () => pageOf(before, null).catch(() => undefined))
  const seen = [...page.ids]
  await before.app.close()
  // This service stores nothing, so what it accepts waits in the lane.
  const intake = await startApp(t, { ...env, ROLE: 'api' })
  for (let i = 0; i < 3; i++) await send(t, intake, ids)
  const waiting = ids.at(-1)
  await intake.app.close()
  await second.kill()

  const fatal: unknown[] = []
  const client = await startApp(t, env, { onFatal: (error) => fatal.push(error) })
  const name = new RegExp(`lane 1 \\(${new URL(second.url).host}\\)`)
  for (let i = 0; i < 3; i++) await send(t, client, ids)
  const path = `/public/events/${ids.at(-1)}`
  await until('the event to be stored', async () => (await client.call('GET', path)).statusCode === 200)
  const paths = ['/public/events', `/public/events/${waiting}`, '/health/ready', '/health/ready?partial=true']
  const [list, one, whole, partial] = await Promise.all(paths.map((path) => client.call('GET', path)))
  for (const response of [list, one])
    t.match(response?.json(), { code: 'unavailable', error: name }, 'it may wait there')
  t.match(whole?.json(), { lanes: { '0': 'ready', '1': 'unavailable' } })
  t.equal(partial?.statusCode, 200)

  await second.restart()
  await until('the lane', async () => (await client.call('GET', '/health/ready')).statusCode === 200)
  for (let i = 0; i < 8; i++) await send(t, client, ids, i % 2 === 0 ? { 'idempotency-key': `key ${i}` } : {})
  while (page.next) {
    const { next } = page
    page = await until('a page', () => pageOf(client, next).catch(() => undefined))
    seen.push(...page.ids)
  }
  t.strictSame([...seen].sort(), [...ids].sort(), 'the walk has each once')
  t.strictSame((await client.events()).map(({ eventId }) => eventId).sort(), [...ids].sort())
  const { call } = client
  for (const id of ids) t.equal((await call('GET', `/public/events/${id}`)).statusCode, 200)
  t.strictSame(fatal, [])
})

t.test('a lane that refuses the login is not down: the start stops, and says so', async (t) => {
  const [first, second, clickhouse] = await Promise.all([
    startRedis(t),
    startRedis(t, ['--requirepass', 'right']),
    startClickHouse(t),
  ])
  const withPassword = (password: string) => second.url.replace('//', `//:${password}@`)
  const start = (url: string) =>
    startApp(t, { ...SETTINGS, CLICKHOUSE_URL: clickhouse.url, REDIS_URL: `${first.url},${url}` })
  const { host } = new URL(second.url)
  const refusal = (code: string) =>
    new RegExp(
      `^In lane 1 \\(${host}\\): Redis refuses the login of REDIS_URL: "${code} .*Correct its user and password`,
    )
  await t.rejects(start(withPassword('wrong')), { message: refusal('WRONGPASS') })
  await t.rejects(start(second.url), { message: refusal('NOAUTH') })
  const { call } = await start(withPassword('right'))
  t.equal((await call('GET', '/health/ready')).statusCode, 200)
})

t.test('a lane that must not be used ends the process even later', async (t) => {
  const evicting = ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru']
  const [first, second, third, fourth, clickhouse] = await Promise.all([
    startRedis(t),
    startRedis(t),
    startRedis(t),
    startRedis(t, evicting),
    startClickHouse(t),
  ])
  const env = { ...SETTINGS, CLICKHOUSE_URL: clickhouse.url }
  const whole = await startApp(t, { ...env, REDIS_URL: urls(first, second, third) })
  for (let i = 0; i < 20; i++) await send(t, whole, [], { 'idempotency-key': `key ${i}` })
  await whole.app.close()
  await Promise.all([second.kill(), third.kill(), fourth.kill()])

  async function failureOf(order: string, come: { restart(): Promise<void> }): Promise<Error> {
    const fatal: Error[] = []
    const { app } = await startApp(t, { ...env, REDIS_URL: order }, { onFatal: (error) => fatal.push(error as Error) })
    await come.restart()
    const error = await until('the reason', () => fatal[0])
    await app.close()
    t.equal(fatal.length, 1)
    return error
  }
  t.match((await failureOf(urls(first, second, fourth), fourth)).message, /maxmemory-policy allkeys-lru/)
  t.match((await failureOf(urls(first, third, second), second)).message, /the order of REDIS_URL was changed/)
  await Promise.all([first.kill(), second.kill()])
  await t.rejects(startApp(t, { ...env, REDIS_URL: urls(first, second, third) }), /Redis cannot be reached/)
})

import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { command as keys } from '../../src/cli/keys.js'
import { command as lanes } from '../../src/cli/lanes/command.js'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { makeKey, storedKey } from '../../src/keys/keys.js'
import { insertKeys } from '../../src/store/api-keys.js'
import { openStore } from '../../src/store/open.js'
import { run } from '../cli/lanes-store.js'
import { PUBLIC_KEY, SECRET_KEY, startApp, temporaryFolder, until } from '../helper.js'
import { shardsUrl, startNodes } from '../nodes.js'
import { TcpProxy } from './tcp-proxy.js'

t.test('a service that starts while a shard is down accepts events, and stores those of the other shard', async (t) => {
  const nodes = await startNodes(t, 2)
  const [first, second] = nodes
  if (!first || !second) throw new Error('there are two')
  const env = {
    ...{ PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, LOG_LEVEL: 'silent', PORT: '0' },
    ...{ DATA_DIR: await temporaryFolder(t), CLICKHOUSE_URL: shardsUrl(nodes), LANES: '2' },
  }
  const before = await startApp(t, { ...env, HOME_LANE: '1' })
  await before.call('POST', '/public/track', { event: 'before', distinct_id: 'u' })
  t.equal((await before.call('GET', '/public/events')).json().events.length, 1)
  const key = makeKey('secret')
  const store = await openStore(before.config)
  await insertKeys(store.clickhouse, [storedKey(key, { projectId: 'default', kind: 'secret' })], Date.now())
  await store.close()
  await before.app.close()
  await second.stop()

  const { app } = await startApp(t, { ...env, HOME_LANE: '0' })
  const track = async (event: string) => {
    const payload = { event, distinct_id: 'u' }
    return await app.inject({ method: 'POST', url: '/public/track', headers: { 'x-api-key': key }, payload })
  }
  t.equal((await track('during')).statusCode, 200, 'also with a key that is in the store')
  const clickhouse = new ClickHouse({ url: first.url })
  t.teardown(() => clickhouse.close())
  const stored = async () => {
    return (await clickhouse.rows("SELECT 1 FROM events WHERE event = 'during'")).length === 1
  }
  await until('its shard has it', stored)
  const page = await app.inject({ url: '/public/events', headers: { 'x-api-key': key } })
  t.equal(page.statusCode, 503)
  t.match(page.json().error, /Shard 1/)
  t.equal((await run(keys, ['list'], env)).code, 0, 'keys can be changed')
  const shown = await run(lanes, [], env)
  t.match(shown.printed, /^0 +up .*\n1 +down /m)
  t.equal(shown.code, 1)
  await second.start()
  await until('the other lane', async () => {
    const page = await app.inject({ url: '/public/events', headers: { 'x-api-key': key } })
    return page.statusCode === 200 && page.json().events.length === 2
  })
})

/** The URL of a server that never answers, as behind a firewall that drops every packet. */
async function silentServer(t: Test): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

t.test('a shard that drops every packet delays neither the start nor the lanes of the other shards', async (t) => {
  const nodes = await startNodes(t, 2)
  const [first, second] = nodes
  if (!first || !second) throw new Error('there are two')
  const proxy = await TcpProxy.open(t, second.url)
  const DATA_DIR = await temporaryFolder(t)
  const env = {
    ...{ PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, LOG_LEVEL: 'silent', PORT: '0' },
    ...{ DATA_DIR, CLICKHOUSE_URL: `${first.url},${proxy.url}`, LANES: '3', HOME_LANE: '2' },
  }
  const before = await startApp(t, env)
  t.equal((await before.call('POST', '/public/track', { event: 'before', distinct_id: 'u' })).statusCode, 200)
  t.equal((await before.call('GET', '/public/events')).json().events.length, 1)
  await before.app.close()
  // The first lane's new journal has to begin after the events of every shard, so it waits for all shards.
  await rm(join(DATA_DIR, 'journal'), { recursive: true })
  proxy.moveTo(await silentServer(t))

  const startedAt = performance.now()
  const { call } = await startApp(t, env)
  t.ok(performance.now() - startedAt < 25_000, 'a statement would take 30 s')
  t.equal((await call('POST', '/public/track', { event: 'during', distinct_id: 'u' })).statusCode, 200)
  const clickhouse = new ClickHouse({ url: first.url })
  t.teardown(() => clickhouse.close())
  await until('the last lane to store it', async () => {
    return (await clickhouse.rows("SELECT 1 FROM events WHERE event = 'during'")).length === 1
  })
  t.match((await call('GET', '/public/events')).json().error, /Shard 1/)
  proxy.moveTo(second.url)
  await until('the shard', async () => (await call('GET', '/public/events')).json().events?.length === 2)
})

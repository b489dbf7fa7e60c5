import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { makeKey, storedKey } from '../../src/keys/keys.js'
import { insertKeys } from '../../src/store/api-keys.js'
import { openStore } from '../../src/store/open.js'
import { dataFolder, PUBLIC_KEY, SECRET_KEY, startApp, until } from '../helper.js'

const EVENTS = 40_000
/** Number of events; several full exports of these do not fit into the buffers of the sockets. */
const TEXT = 2_000

// Copying facts would add to the counted queries.
const settings = {
  ...{ PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, LOG_LEVEL: 'silent', FACTS: 'off' },
  DATA_DIR: await dataFolder(t),
}
let url = ''
const { app, config } = await startApp(t as never, settings, {
  onClickHouse: (found) => {
    url = found
  },
  // Looking a key up would wait for the exports.
  keysRefreshMs: 200,
  // Nobody loses a slot for not reading within this test.
  slotLimits: { slots: 32, perProject: 4, waitMs: 500, stalledMs: 60_000 },
})
await app.listen({ port: 0 })
const clickhouse = new ClickHouse({ url })
t.teardown(() => clickhouse.close())
const other = makeKey('secret')

t.before(async () => {
  const store = await openStore(config)
  await insertKeys(store.clickhouse, [storedKey(other, { projectId: 'other', kind: 'secret' })], Date.now())
  await store.close()
  await clickhouse.command(`
    INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties, insert_id)
    SELECT if(number < ${EVENTS}, 'default', 'other'),
      reinterpret(bitOr(bitShiftLeft(toUInt128(number), 64), toUInt128(1)), 'UUID'), 'a', toString(number),
      1760000000000 + number, 0, concat('{"n":"', toString(number), repeat('x', ${TEXT}), '"}'), ''
    FROM numbers(${EVENTS + 1000})`)
})

/** Makes a call whose response is read only by the caller. */
async function open(path: string, key: string): Promise<IncomingMessage> {
  const { port } = app.server.address() as AddressInfo
  const call = request({ port, path: `/public${path}`, headers: { 'x-api-key': key } })
  call.on('error', () => {})
  call.end()
  const [response] = (await once(call, 'response')) as [IncomingMessage]
  return response
}

async function textOf(response: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of response.setEncoding('utf8')) text += chunk
  return text
}

const running = () =>
  clickhouse.rows<{ nice: string; threads: string }>(
    `SELECT Settings['os_threads_nice_value_query'] AS nice, Settings['max_threads'] AS threads FROM system.processes
     WHERE query LIKE '%FROM events%' AND query NOT LIKE '%system.processes%'`,
  )

t.test(
  'only four of thirty full exports run, with low priority and one thread, and others read as before',
  async (t) => {
    const exports = await Promise.all(Array.from({ length: 30 }, () => open('/export', SECRET_KEY)))
    const open4 = exports.filter(({ statusCode }) => statusCode === 200)
    t.equal(open4.length, 4)
    const rows = await running()
    t.equal(rows.length, 4)
    t.ok(rows.every(({ nice }) => nice === '15'))
    t.ok(rows.filter(({ threads }) => threads === '1').length >= 3, 'all but the first')
    const refused = exports.find(({ statusCode }) => statusCode !== 200) as IncomingMessage
    t.equal(refused.statusCode, 503)
    t.match(JSON.parse(await textOf(refused)), { code: 'overloaded', error: /of this project/ })
    const page = await open('/events?limit=10', other)
    t.equal(page.statusCode, 200)
    t.equal(JSON.parse(await textOf(page)).events.length, 10)
    const sent = await app.inject({
      method: 'POST',
      url: `/public/track/batch?stored_before=${Date.now()}`,
      headers: { 'x-api-key': SECRET_KEY },
      payload: { events: [{ event: 'a', distinct_id: 'u', insert_id: 'i' }] },
    })
    t.equal(sent.statusCode, 200, 'the query for the stored position is not one of the four')
    for (const response of exports) response.destroy()
    await until('no export', async () => (await running()).length === 0)
    t.equal((await open('/events?limit=1', SECRET_KEY)).statusCode, 200)
  },
)

t.test('a list of dead letters of 17 MB takes the memory of a few', async (t) => {
  for (let i = 0; i < 10; i++) {
    await clickhouse.command(`
      INSERT INTO dead_letters (project_id, position, journal_id, kind, reason, body, received_at)
      SELECT 'default', 1000 + ${i}, 1, 'event', repeat('é', 100000), repeat(repeat('y', 17000), 1000), 0`)
  }
  const response = await open('/dead-letters?limit=100', SECRET_KEY)
  const { dead_letters: letters } = JSON.parse(await textOf(response))
  t.strictSame(
    letters.map(({ reason, entry }: { reason: string; entry: string }) => [reason.length, entry.length]),
    Array(10).fill([10_000, 10_000]),
  )
})

import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openShards } from '../../src/clickhouse/open-shards.js'
import { dataFolder, PUBLIC_KEY, SECRET_KEY, silent, startApp, startClickHouse, until } from '../helper.js'
import { damage, keepLog, type PartFolder, readParts, recordParts } from './damaged-store.js'

const settings = (folder: string) => ({ PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, PORT: '0', DATA_DIR: folder })
const now = Date.now()
/** A time in the month before the last one. */
const OLD = Date.UTC(new Date(now).getUTCFullYear(), new Date(now).getUTCMonth() - 2, 10)
const OLD_EVENTS = 100

/** Inserts events as if they were accepted then. */
const insertOld = (project: string) => `
  INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties)
  SELECT '${project}',
    reinterpret(bitOr(bitShiftLeft(toUInt128(number), 64), bitShiftLeft(toUInt128(${OLD}), 16)), 'UUID'),
    'old', 'u', ${OLD} + number, ${OLD}, concat('{"a":"', hex(randomString(40)), '"}')
  FROM numbers(${OLD_EVENTS})`

/** A stopped service with 20 recent events and 100 of an earlier month, and the part of that month. */
async function stopped(t: Test): Promise<{ folder: string; old: PartFolder }> {
  const folder = await dataFolder(t)
  const { url, close } = await startClickHouse(t, join(folder, 'clickhouse'))
  const env = { ...settings(folder), CLICKHOUSE_URL: url, LOG_LEVEL: 'silent' }
  const { app, call, events } = await startApp(t, env)
  await call('POST', '/public/track/batch', {
    events: Array.from({ length: 20 }, (_, i) => ({ event: 'new', distinct_id: `u${i}` })),
  })
  await until('the events', async () => (await events()).length === 20)
  await app.close()
  const shards = openShards(url, { log: silent } as never)
  await shards.first.command(insertOld('default'))
  await recordParts(shards)
  const month = new Date(OLD).toISOString().slice(0, 7).replace('-', '')
  const [old] = await readParts(shards, `table = 'events' AND partition_id = '${month}'`)
  if (!old) throw new Error('there is no such part')
  await shards.close()
  await close()
  return { folder, old }
}

t.test('a damaged part is named, and reads that do not need it work', async (t) => {
  const { folder, old } = await stopped(t)
  await damage(join(old.path, 'data.bin'), 0.5, 64)
  const { log, lines } = keepLog()
  const { url } = await startClickHouse(t, join(folder, 'clickhouse'))
  const env = { ...settings(folder), CLICKHOUSE_URL: url }
  const { call, app } = await startApp(t, env, { log })
  const month = new Date(OLD).toISOString().slice(0, 7)
  const from = Date.UTC(new Date(now).getUTCFullYear(), new Date(now).getUTCMonth(), 1)

  const failing = [
    await call('GET', '/public/events?limit=1000'),
    await call('GET', '/public/events?event=old'),
    await call('GET', '/public/export'),
  ]
  for (const response of failing) {
    t.equal(response.statusCode, 500)
    t.match(response.json(), { status: 0, code: 'store_damaged', error: new RegExp(`${old.name}.*events of ${month}`) })
    t.notOk(response.headers['retry-after'])
  }

  for (const query of ['order=desc&limit=10', `from=${from}&limit=1000`]) {
    const response = await call('GET', `/public/events?${query}`)
    t.equal(response.statusCode, 200, query)
    t.equal(response.json().events.length, query.startsWith('order') ? 10 : 20, query)
  }
  const query = { kind: 'series', series: [{ event: 'new', metric: 'users' }], from, to: now, interval: 'day' }
  t.equal((await call('POST', '/public/query', query)).statusCode, 200)
  t.equal((await call('GET', '/public/users/u1/profile')).statusCode, 404, 'profiles can be read')
  t.equal((await call('POST', '/public/track', { event: 'e', distinct_id: 'u' })).statusCode, 200)

  t.equal((await call('GET', '/health/ready')).statusCode, 200)
  t.equal((await call('GET', '/health/ready?strict=true')).statusCode, 503)
  const errors = lines.filter(({ msg }) => String(msg).includes('cannot read the part'))
  t.match(errors, [{ level: 50, part: old.name, rows: OLD_EVENTS, projects: { default: OLD_EVENTS } }])
  t.match((await call('GET', '/metrics')).body, 'tallyhouse_store_lost_parts{state="unreadable"} 1')
  await app.close()

  const shards = openShards(url, { log: silent } as never)
  await shards.first.command(`ALTER TABLE events DETACH PART '${old.name}'`)
  await shards.close()
  const after = await startApp(t, env, { log: keepLog().log })
  t.equal((await after.call('GET', '/public/events?limit=1000')).json().events.length, 21, 'without that part')
  t.equal((await after.call('GET', '/health/ready?strict=true')).statusCode, 503, 'its absence is noticed')
})

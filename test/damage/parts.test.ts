import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { StoreTimeoutError } from '../../src/clickhouse/errors.js'
import { openShards } from '../../src/clickhouse/open-shards.js'
import { PartsWatch } from '../../src/damage/parts-watch.js'
import {
  type Client,
  dataFolder,
  PUBLIC_KEY,
  SECRET_KEY,
  silent,
  startApp,
  startClickHouse,
  temporaryFolder,
  until,
} from '../helper.js'
import { ACCIDENTS, damage, keepLog, onEngine, type PartFolder, partsOf, untilRecorded } from './damaged-store.js'

const EVENTS = 50

/** Events in several parts: each is stored before the next is sent. */
async function track(client: Client, count: number): Promise<void> {
  for (let part = 0; part < count; part++) {
    const events = Array.from({ length: EVENTS }, (_, i) => ({ event: `e${part}`, distinct_id: `u${i}` }))
    const { statusCode } = await client.call('POST', '/public/track/batch', { events })
    t.equal(statusCode, 200)
    await until('the events', async () => (await client.events(1000)).length === EVENTS * (part + 1))
  }
}

const settings = (folder: string) => ({ PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, PORT: '0', DATA_DIR: folder })

const folders = new Map<number, Promise<string>>()

/** The folder of a stopped service with some parts of events, to copy. */
async function fill(count: number): Promise<string> {
  const folder = await dataFolder(t)
  let url = ''
  const onClickHouse = (found: string) => {
    url = found
  }
  const client = await startApp(t, { ...settings(folder), LOG_LEVEL: 'silent' }, { onClickHouse })
  await client.events()
  const clickhouse = new ClickHouse({ url })
  await clickhouse.command('SYSTEM STOP MERGES')
  await clickhouse.close()
  await track(client, count)
  await untilRecorded(url)
  await client.app.close()
  return folder
}

/** A stopped service with some parts of events. */
async function stopped(t: Test, count = 3): Promise<{ folder: string; parts: PartFolder[] }> {
  const filled = folders.get(count) ?? fill(count)
  folders.set(count, filled)
  const folder = await temporaryFolder(t)
  await cp(await filled, folder, { recursive: true, verbatimSymlinks: true })
  return { folder, parts: await partsOf(join(folder, 'clickhouse')) }
}

async function metricsOf({ call }: Client): Promise<string[]> {
  const text = (await call('GET', '/metrics')).body
  return text.split('\n').filter((line) => line.startsWith('tallyhouse_store_lost_'))
}

async function start(t: Test, folder: string) {
  const { log, lines } = keepLog()
  const client = await startApp(t, settings(folder), { log })
  return { client, errors: () => lines.filter(({ level }) => level === 50) }
}

t.test('lost and damaged parts are noticed at the start, whatever happened to them', async (t) => {
  const count = ACCIDENTS.length + 1
  const { folder, parts } = await stopped(t, count)
  t.equal(parts.length, count, 'none of them is merged')
  const lost = parts.slice(0, ACCIDENTS.length)
  for (const [i, [, happen]] of ACCIDENTS.entries()) await happen(lost[i] as PartFolder)
  const { client, errors } = await start(t, folder)
  t.equal((await client.events()).length, EVENTS)
  for (const [i, [accident]] of ACCIDENTS.entries()) {
    const { name, rows, partition } = lost[i] as PartFolder
    const said = errors().filter(({ msg }) => String(msg).includes(name))
    t.match(said, [{ table: 'events', partition, rows, projects: { default: rows } }], `${accident}: said once`)
    t.match(said[0]?.msg, new RegExp(`${name}.*${rows} events of ${partition.slice(0, 4)}-.*verify`), accident)
  }
  t.equal(errors().length, lost.length)

  t.equal((await client.call('GET', '/health/ready')).statusCode, 200)
  t.equal((await client.call('GET', '/health/ready?strict=false')).statusCode, 200)
  const strict = await client.call('GET', '/health/ready?strict=true')
  t.equal(strict.statusCode, 503)
  const error = new RegExp(`lost or damaged parts \\(${lost.length}\\)`)
  t.match(strict.json(), { status: 0, code: 'unavailable', error, store: 'ready' })
  const { partition = '' } = lost[0] ?? {}
  const month = `${partition.slice(0, 4)}-${partition.slice(4)}`
  const rows = lost.reduce((sum, part) => sum + part.rows, 0)
  const metrics = await metricsOf(client)
  t.ok(
    metrics.includes(`tallyhouse_store_lost_rows{table="events",month="${month}",project="default"} ${rows}`),
    metrics.join('\n'),
  )
  const states = metrics.flatMap((line) => /_parts\{.*\} (\d+)$/.exec(line)?.[1] ?? [])
  t.equal(
    states.reduce((sum, number) => sum + Number(number), 0),
    lost.length,
  )
  await client.app.close()

  const again = await start(t, folder)
  t.equal(again.errors().length, lost.length, 'and once more after a restart')
  t.equal((await again.client.call('GET', '/health/ready?strict=true')).statusCode, 503)
})

t.test('a restored part is no longer reported', async (t) => {
  const { folder, parts } = await stopped(t)
  const part = parts[1]
  if (!part) throw new Error('there is one part only')
  const backup = join(folder, 'backup')
  await cp(part.path, backup, { recursive: true })
  await ACCIDENTS[0]?.[1](part)
  const { client } = await start(t, folder)
  t.equal((await client.call('GET', '/health/ready?strict=true')).statusCode, 503)
  await client.app.close()
  await cp(backup, part.path, { recursive: true })
  const again = await start(t, folder)
  t.equal(again.errors().length, 0)
  t.equal((await again.client.call('GET', '/health/ready?strict=true')).statusCode, 200)
  t.equal((await again.client.events()).length, EVENTS * 3)
})

t.test('a loss is noticed even if its neighbours were merged before the check', async (t) => {
  for (const [accident, happen] of ACCIDENTS.slice(0, 2)) {
    const { folder, parts } = await stopped(t, 4)
    t.equal(parts.length, 4)
    const part = parts[1] as PartFolder
    await happen(part)
    const engine = await startClickHouse(t, join(folder, 'clickhouse'))
    const shards = openShards(engine.url, { log: silent } as never)
    await shards.first.command('OPTIMIZE TABLE events FINAL')
    await shards.close()
    const { log, lines } = keepLog()
    const { app, call, events } = await startApp(t, { ...settings(folder), CLICKHOUSE_URL: engine.url }, { log })
    t.equal((await events()).length, EVENTS * 4 - part.rows)
    const errors = lines.filter(({ level }) => level === 50)
    t.match(errors, [{ rows: part.rows, partition: part.partition, projects: { default: part.rows } }], accident)
    t.equal((await call('GET', '/health/ready?strict=true')).statusCode, 503)
    await app.close()
    await engine.close()
  }
})

t.test('deleted and merged rows are no loss', async (t) => {
  const { folder } = await stopped(t)
  const { client, errors } = await start(t, folder)
  for (const { eventId, event } of await client.events()) {
    if (event !== 'e2') t.equal((await client.call('DELETE', `/public/events/${eventId}`)).statusCode, 200)
  }
  await client.app.close()
  await onEngine(join(folder, 'clickhouse'), async (_, command) => command('OPTIMIZE TABLE events FINAL'))
  const again = await start(t, folder)
  t.equal((await again.client.events()).length, EVENTS)
  for (const { eventId } of await again.client.events()) await again.client.call('DELETE', `/public/events/${eventId}`)
  await again.client.app.close()
  await onEngine(join(folder, 'clickhouse'), async (_, command) => command('OPTIMIZE TABLE events FINAL'))
  const last = await start(t, folder)
  t.equal((await last.client.events()).length, 0)
  t.strictSame([...errors(), ...again.errors(), ...last.errors()], [])
  t.equal((await last.client.call('GET', '/health/ready?strict=true')).statusCode, 200)
})

t.test('a healthy store is ready with ?strict=true, and other values are refused', async (t) => {
  const { folder } = await stopped(t, 1)
  const { client, errors } = await start(t, folder)
  t.equal((await client.call('GET', '/health/ready?strict=true&probe=1')).statusCode, 200)
  t.equal((await client.call('GET', '/health/ready?strict=perhaps')).statusCode, 400)
  t.strictSame(errors(), [])
  t.strictSame(await metricsOf(client), [
    'tallyhouse_store_lost_parts{state="detached"} 0',
    'tallyhouse_store_lost_parts{state="missing"} 0',
    'tallyhouse_store_lost_parts{state="unreadable"} 0',
  ])
})

t.test('a part that ClickHouse detaches while the service runs is noticed', async (t) => {
  const { folder } = await stopped(t)
  const engine = await startClickHouse(t, join(folder, 'clickhouse'))
  const shards = openShards(engine.url, { log: silent } as never)
  const { log, lines } = keepLog()
  const watch = new PartsWatch({ shards, log, isNoting: true, everyMs: 200 })
  t.teardown(async () => {
    await watch.close()
    await shards.close()
  })
  await watch.start(() => 0)
  t.strictSame(watch.losses, [])
  await shards.first.command('INSERT INTO facts_checked (generation) VALUES (7)')
  const [part] = await shards.first.rows<{ name: string }>(
    "SELECT name FROM system.parts WHERE active AND database = currentDatabase() AND table = 'events' LIMIT 1",
  )
  await shards.first.command(`ALTER TABLE events DETACH PART '${part?.name}'`)
  await until('the loss', () => watch.losses.length === 1)
  t.match(watch.losses, [{ part: part?.name, state: 'detached', rows: EVENTS, projects: { default: EVENTS } }])
  t.match(lines, [{ level: 50, part: part?.name }])
  await until('facts to be compared again', async () => {
    return (await shards.first.rows('SELECT 1 WHERE toUInt32(7) IN facts_checked')).length === 0
  })
})

t.test('parts are recorded, and losses settled, although the clock was set back', async (t) => {
  const { folder } = await stopped(t)
  const engine = await startClickHouse(t, join(folder, 'clickhouse'))
  const shards = openShards(engine.url, { log: silent } as never)
  const { first } = shards
  // As if they had been recorded by a clock that was a day fast.
  await first.command('INSERT INTO known_parts SELECT * REPLACE (version + 86400000 AS version) FROM known_parts FINAL')
  await first.command(
    `INSERT INTO lost_parts SELECT 'events', name, partition_id, 'missing', '', rows, map(), 0,
       toUnixTimestamp64Milli(now64(3)) + 86400000
     FROM system.parts WHERE active AND database = currentDatabase() AND table = 'events' LIMIT 1`,
  )
  const watch = new PartsWatch({ shards, log: keepLog().log, isNoting: true, everyMs: 200 })
  t.teardown(async () => {
    await watch.close()
    await shards.close()
  })
  await watch.start(() => 0)
  await until('the settled loss', () => watch.losses.length === 0)
  await first.command('INSERT INTO events SELECT * REPLACE (generateUUIDv4() AS event_id) FROM events LIMIT 5')
  await untilRecorded(engine.url)
})

t.test('PartsWatch compares checksums when three reads took too long, and finds a damaged part', async (t) => {
  const { folder, parts } = await stopped(t)
  await damage(join(parts[1]?.path ?? '', 'data.bin'))
  const engine = await startClickHouse(t, join(folder, 'clickhouse'))
  const shards = openShards(engine.url, { log: silent } as never)
  const watch = new PartsWatch({ shards, log: keepLog().log, isNoting: true })
  t.teardown(async () => {
    await watch.close()
    await shards.close()
  })
  await watch.start(() => 0)
  watch.noteError(new Error('something else'))
  t.equal(watch.unreadable, null)
  const asked: string[] = []
  for (const { clickhouse } of shards.all) {
    const { rows } = clickhouse
    clickhouse.rows = (sql, ...rest) => {
      asked.push(sql)
      return rows.call(clickhouse, sql, ...rest) as never
    }
  }
  const tooLong = new Error('the question takes too long', { cause: new StoreTimeoutError('no answer') })
  watch.noteError(tooLong)
  watch.noteError(tooLong)
  t.strictSame(asked, [], 'one or two may just have asked for too much')
  watch.noteError(tooLong)
  await until('the damaged part', () => watch.unreadable)
  t.match(watch.losses, [{ part: parts[1]?.name, state: 'unreadable', rows: EVENTS, projects: { default: EVENTS } }])
})

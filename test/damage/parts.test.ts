import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { StoreError, StoreTimeoutError } from '../../src/clickhouse/errors.js'
import { openShards } from '../../src/clickhouse/open-shards.js'
import { lookForLost } from '../../src/damage/look-for-lost.js'
import { noteParts } from '../../src/damage/note-parts.js'
import { PartsWatch } from '../../src/damage/parts-watch.js'
import { FactRepairs } from '../../src/store/fact-repairs.js'
import { noteLostParts, readLostParts } from '../../src/store/part-notes.js'
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
import { emptyClickHouse } from '../shared-engine.js'
import { ACCIDENTS, damage, keepLog, type PartFolder, readParts, untilRecorded } from './damaged-store.js'

const EVENTS = 10
/** When a failed repair may be tried again. */
const RETRY_MS = 1_000

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

interface Stopped {
  folder: string
  parts: PartFolder[]
}

const COUNT = ACCIDENTS.length + 1
let filled: Promise<Stopped> | undefined

/** A stopped service with this number of parts of events, to copy. */
async function fill(): Promise<Stopped> {
  const folder = await dataFolder(t)
  let url = ''
  const onClickHouse = (found: string) => {
    url = found
  }
  const client = await startApp(t, { ...settings(folder), LOG_LEVEL: 'silent' }, { onClickHouse })
  await client.events()
  const shards = openShards(url, { log: silent } as never)
  await shards.first.command('SYSTEM STOP MERGES')
  await track(client, COUNT)
  await untilRecorded(url)
  const parts = await readParts(shards, "table = 'events'")
  await shards.close()
  await client.app.close()
  return { folder, parts }
}

/** A stopped service with some parts of events. */
async function stopped(t: Test): Promise<Stopped> {
  filled ??= fill()
  const first = await filled
  const folder = await temporaryFolder(t)
  await cp(first.folder, folder, { recursive: true, verbatimSymlinks: true })
  return { folder, parts: first.parts.map((part) => ({ ...part, path: part.path.replace(first.folder, folder) })) }
}

async function metricsOf({ call }: Client): Promise<string[]> {
  const text = (await call('GET', '/metrics')).body
  return text.split('\n').filter((line) => line.startsWith('tallyhouse_store_lost_'))
}

/** Starts a service, and waits for its first look at the parts: on a busy machine, the start does not. */
async function start(t: Test, folder: string) {
  const { log, lines } = keepLog()
  const client = await startApp(t, settings(folder), { log })
  await until('the first look at the parts', async () =>
    /^tallyhouse_store_lost_parts\{/m.test((await client.call('GET', '/metrics')).body),
  )
  return { client, errors: () => lines.filter(({ level }) => level === 50) }
}

t.test('lost and damaged parts are noticed at the start, whatever happened to them', async (t) => {
  const { folder, parts } = await stopped(t)
  t.equal(parts.length, COUNT, 'none of them is merged')
  const lost = parts.slice(0, ACCIDENTS.length)
  const [restored] = lost
  const backup = join(folder, 'backup')
  await cp(restored?.path ?? '', backup, { recursive: true })
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

  await cp(backup, restored?.path ?? '', { recursive: true })
  const again = await start(t, folder)
  const named = again.errors().map(({ part }) => part)
  t.equal(named.length, lost.length - 1, 'once more after a restart, except for the one that was restored')
  t.notOk(named.includes(restored?.name))
  t.equal((await again.client.call('GET', '/health/ready?strict=true')).statusCode, 503)
  t.equal((await again.client.events()).length, 2 * EVENTS)
})

t.test('losses are noticed even if their neighbours were merged before the check', async (t) => {
  const { folder, parts } = await stopped(t)
  const lost = [parts[1], parts[4]] as PartFolder[]
  for (const [i, part] of lost.entries()) await ACCIDENTS[i]?.[1](part)
  const engine = await startClickHouse(t, join(folder, 'clickhouse'))
  const shards = openShards(engine.url, { log: silent } as never)
  await shards.first.command('OPTIMIZE TABLE events FINAL')
  await shards.close()
  const { log, lines } = keepLog()
  const { call, events } = await startApp(t, { ...settings(folder), CLICKHOUSE_URL: engine.url }, { log })
  t.equal((await events()).length, EVENTS * (parts.length - 2))
  const errors = lines.filter(({ level }) => level === 50)
  t.match(
    errors,
    lost.map(({ rows, partition }) => ({ rows, partition, projects: { default: rows } })),
  )
  t.equal((await call('GET', '/health/ready?strict=true')).statusCode, 503)
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

t.test('a loss that an operator accepts is settled although the clock was set back', async (t) => {
  const { clickhouse } = await emptyClickHouse()
  const lost = {
    ...{ table: 'events', part: '202611_1_1_0', partition: '202611', state: 'missing' as const, reason: '' },
    ...{ rows: 1, projects: {}, isSettled: false },
  }
  await noteLostParts(clickhouse, [lost], 20_000)
  await noteLostParts(clickhouse, [{ ...lost, isSettled: true }], 10_000)
  t.match(await readLostParts(clickhouse), [{ part: lost.part, isSettled: true }])
})

t.test('the rows of a merged part are recorded by project although it has rows that were not recorded', async (t) => {
  const { clickhouse } = await emptyClickHouse()
  const store = async (project: string, day: string, version: number) => {
    await clickhouse.command(`INSERT INTO project_usage (project_id, day, process, version)
      SELECT '${project}', '${day}', toUUID('00000000-0000-0000-0000-000000000001'), ${version}`)
  }
  const record = async () => {
    const { list, known, lagging } = await lookForLost(clickhouse)
    return (await noteParts(clickhouse, list, known, lagging)).filter(({ table }) => table === 'project_usage')
  }
  await clickhouse.command('SYSTEM STOP MERGES project_usage')
  await store('a', '2026-11-01', 1)
  await store('b', '2026-11-01', 1)
  await store('b', '2026-11-01', 2)
  t.equal((await record()).length, 3)
  await store('a', '2026-11-02', 1)
  await clickhouse.command('SYSTEM START MERGES project_usage')
  await clickhouse.command('OPTIMIZE TABLE project_usage FINAL')
  t.strictSame(
    (await record()).map(({ rows, projects }) => ({ rows, projects })),
    [{ rows: 3, projects: { a: 2, b: 1 } }],
  )
})

t.test('PartsWatch compares checksums when three reads took too long, and finds a damaged part', async (t) => {
  const { folder, parts } = await stopped(t)
  await damage(join(parts[1]?.path ?? '', 'data.bin'))
  const engine = await startClickHouse(t, join(folder, 'clickhouse'))
  const shards = openShards(engine.url, { log: silent } as never)
  const { log, lines } = keepLog()
  let now = 0
  const repairs = new FactRepairs(log, { repairedMs: 3_600_000, failedMs: RETRY_MS }, () => now)
  const watch = new PartsWatch({ shards, log, isNoting: true, repairs })
  t.teardown(async () => {
    await watch.close()
    await shards.close()
  })
  await watch.start(() => 0)
  watch.noteError(new Error('something else'))
  const shortage = `Cannot open file /store/${parts[0]?.name}/data.bin, errno: 24, strerror: Too many open files`
  watch.noteError(new StoreError(76, `${shortage}: (while reading from part /store/${parts[0]?.name}/)`))
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
  const ofFacts =
    "Checksum doesn't match: (while reading from part /store/202611_1_1_0/ in table analytics.event_facts)"
  // As after a read of several shards, of which another one has the damaged part.
  const elsewhere = { table: 'event_facts', part: '202611_9_9_0' }
  t.notOk(await repairs.repair(shards.at(0), elsewhere, { isSure: false }), 'this shard has no such damaged part')
  watch.noteError(new StoreError(40, ofFacts))
  await until('a request to copy the facts again', async () => {
    return (await shards.first.rows("SELECT 1 FROM event_changes WHERE kind = 'rebuild'")).length > 0
  })
  const ofSessions = ofFacts.replace('event_facts', 'session_facts')
  const { command } = shards.first
  let refused = 0
  shards.first.command = async () => {
    refused++
    throw new StoreError(497, 'not enough privileges')
  }
  const failures = () => lines.filter(({ msg }) => /could not be replaced.*rights/.test(String(msg))).length
  for (let i = 0; i < 3; i++) {
    watch.noteError(new StoreError(40, ofSessions))
    await until('a failed repair', failures)
  }
  t.strictSame([failures(), refused], [1, 1], 'a failure is logged once, and not retried at once')
  shards.first.command = command
  now += RETRY_MS
  watch.noteError(new StoreError(40, ofSessions))
  await until('a request to fill only the session facts again', async () => {
    return (await shards.first.rows("SELECT 1 FROM event_changes WHERE kind = 'calls' AND project_id = ''")).length > 0
  })
  t.equal((await shards.first.rows("SELECT 1 FROM event_changes WHERE kind = 'rebuild'")).length, 1)
  t.equal(watch.losses.length, 1, 'the facts need no operator')
})

import { cp, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { openShards } from '../../src/clickhouse/open-shards.js'
import type { Shards } from '../../src/clickhouse/shards.js'
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
import { keepLog, onEngine, type PartFolder, readParts, recordParts } from './damaged-store.js'

const EVENTS = 10
const settings = (folder: string) => ({ PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, PORT: '0', DATA_DIR: folder })
const storeOf = (folder: string) => join(folder, 'clickhouse')

type Command = (sql: string) => Promise<void>

interface Stopped {
  folder: string
  parts: PartFolder[]
}

/** A stopped service that recorded some parts, none of them merged. */
async function stopped(t: Test, fill: (client: Client, command: Command) => Promise<unknown>): Promise<Stopped> {
  const folder = await dataFolder(t)
  const engine = await startClickHouse(t, storeOf(folder))
  const shards = openShards(engine.url, { log: silent } as never)
  const command = (sql: string) => shards.first.command(sql)
  const env = { ...settings(folder), CLICKHOUSE_URL: engine.url, LOG_LEVEL: 'silent' }
  const client = await startApp(t, env)
  await client.events()
  await command('SYSTEM STOP MERGES')
  await fill(client, command)
  await client.app.close()
  await recordParts(shards)
  const parts = await readParts(shards, '1')
  await shards.close()
  await engine.close()
  return { folder, parts }
}

/** Events in several parts: each is stored before the next is sent. */
async function track({ call, events }: Client, count: number): Promise<void> {
  for (let part = 0; part < count; part++) {
    const batch = Array.from({ length: EVENTS }, (_, i) => ({ event: `e${part}`, distinct_id: `u${i}` }))
    t.equal((await call('POST', '/public/track/batch', { events: batch })).statusCode, 200)
    await until('the events', async () => (await events(1000)).length === EVENTS * (part + 1))
  }
}

async function deleteFirst({ call, events }: Client, event: string, count = 1): Promise<void> {
  const all = (await events(1000)).filter((one) => one.event === event)
  for (const { eventId } of all.slice(0, count)) {
    t.equal((await call('DELETE', `/public/events/${eventId}`)).statusCode, 200)
  }
}

/** Makes parts look old, because ClickHouse merges old parts as soon as it starts. */
async function age(parts: readonly PartFolder[]): Promise<void> {
  const then = new Date(Date.now() - 30 * 24 * 3_600_000)
  for (const { path } of parts) {
    for (const file of await readdir(path)) await utimes(join(path, file), then, then)
    await utimes(path, then, then)
  }
}

const partsIn = (parts: readonly PartFolder[], table: string) => parts.filter((part) => part.table === table)
const isPatch = ({ partition }: PartFolder) => partition.startsWith('patch-')

/** Beginning of a metric that exists once the parts have been checked. */
const CHECKED = 'tallyhouse_store_lost_parts{'

/** Starts the service. @returns also the losses that it reports */
async function start(t: Test, folder: string) {
  const { log, lines } = keepLog()
  const client = await startApp(t, settings(folder), { log })
  // A service starts after 5 s even if it has not checked its parts yet.
  await until('the first check', async () => (await client.call('GET', '/metrics')).body.includes(CHECKED))
  const isComplete = (await client.call('GET', '/health/ready?strict=true')).statusCode === 200
  const errors = lines.filter(({ level, part }) => level === 50 && part !== undefined)
  t.equal(isComplete, errors.length === 0, 'Health and log agree')
  return { client, errors }
}

/** As if the engine had merged everything before anybody checked. */
async function mergeAll({ first }: Shards, ...tables: string[]): Promise<void> {
  for (const table of tables) await first.command(`OPTIMIZE TABLE ${table} FINAL`)
}

const TODAY = new Date().setUTCHours(0, 0, 0, 0)
const ROWS: [table: string, columns: string, row: (n: number) => string][] = [
  ['profiles', 'project_id, distinct_id, properties, version', (n) => `'default', 'u${n}', '{}', ${n}`],
  ['sessions', 'project_id, session_id, version', (n) => `'default', 's${n}', ${n}`],
  ['aliases', 'project_id, alias, distinct_id, version', (n) => `'default', 'a${n}', 'u${n}', ${n}`],
  ['dead_letters', 'project_id, position, journal_id', (n) => `'default', ${n}, 1`],
  ['saved', 'project_id, kind, id, version', (n) => `'default', 'question', 'q${n}', ${n}`],
  ['api_keys', 'hash, project_id, kind, version', (n) => `'${String(n).repeat(64)}', 'other', 'public', ${n}`],
  ['audit', 'project_id, changed_at, id', (n) => `'default', ${TODAY + n}, '00000000-0000-0000-0000-00000000000${n}'`],
]

t.test('lost parts are noticed if their neighbours are merged with deletes immediately', async (t) => {
  const { folder, parts } = await stopped(t, async (client) => {
    await track(client, 7)
    await deleteFirst(client, 'e3')
    await deleteFirst(client, 'e1', 2)
  })
  await age(parts)
  const [, gone, , , , broken] = partsIn(parts, 'events')
  await rm(gone?.path ?? '', { recursive: true })
  await writeFile(join(broken?.path ?? '', 'checksums.txt'), 'x')
  const { errors } = await start(t, folder)
  const lost = { table: 'events', rows: EVENTS, projects: { default: EVENTS } }
  t.match(errors, [lost, lost])
  t.equal(errors.length, 2)
})

t.test('rows that were deleted, replaced or have expired are no loss, whenever they are merged', async (t) => {
  const { folder, parts } = await stopped(t, async (client, command) => {
    await track(client, 6)
    await deleteFirst(client, 'e1', EVENTS)
    await deleteFirst(client, 'e3')
    for (const [table, columns, row] of ROWS) {
      for (let n = 1; n < 8; n++) await command(`INSERT INTO ${table} (${columns}) VALUES (${row(1)})`)
    }
    for (let n = 1; n < 4; n++) {
      await command(`INSERT INTO audit (project_id, changed_at, id) VALUES ('default', ${n}, generateUUIDv4())`)
    }
  })
  await age(parts)
  const { client, errors } = await start(t, folder)
  t.strictSame(errors, [])
  t.equal((await client.call('GET', '/health/ready?strict=true&probe=1')).statusCode, 200)
  t.equal((await client.call('GET', '/health/ready?strict=perhaps')).statusCode, 400)
  const metrics = (await client.call('GET', '/metrics')).body.match(/^tallyhouse_store_lost_.*/gm)
  const states = ['detached', 'missing', 'unreadable']
  t.strictSame(
    metrics,
    states.map((state) => `tallyhouse_store_lost_parts{state="${state}"} 0`),
  )
  await deleteFirst(client, 'e4', EVENTS)
  t.equal((await client.events(1000)).length, 4 * EVENTS - 1)
  await client.app.close()
  const left = await onEngine(storeOf(folder), async (shards) => {
    await mergeAll(shards, 'events', ...ROWS.map(([table]) => table))
    return await shards.first.rows('SELECT count() AS count FROM audit WHERE changed_at < 4')
  })
  t.match(left, [{ count: '0' }])
  t.strictSame((await start(t, folder)).errors, [])
})

t.test('a merged part is lost only if its sources are', async (t) => {
  const { folder } = await stopped(t, (client) => track(client, 3))
  const [merged, ...others] = await onEngine(storeOf(folder), async (shards) => {
    await mergeAll(shards, 'events')
    return await readParts(shards, "table = 'events'")
  })
  t.strictSame(others, [])
  const copy = await temporaryFolder(t)
  await cp(folder, copy, { recursive: true, verbatimSymlinks: true, force: true })
  await writeFile(join(merged?.path ?? '', 'checksums.txt'), 'x')
  const { client, errors } = await start(t, folder)
  t.equal((await client.events(1000)).length, 3 * EVENTS, 'the sources of a broken one are used again')
  t.strictSame(errors, [])

  const parts = dirname(merged?.path.replace(folder, copy) ?? '')
  for (const name of await readdir(parts)) {
    if (name.startsWith('202')) await rm(join(parts, name), { recursive: true })
  }
  const lost = (await start(t, copy)).errors.reduce((sum, { rows }) => sum + Number(rows), 0)
  t.equal(lost, 3 * EVENTS, 'lost just after its merge')
})

t.test('a lost part of any table is reported, even if its neighbours are merged immediately', async (t) => {
  const { folder, parts } = await stopped(t, async (client, command) => {
    await track(client, 2)
    await deleteFirst(client, 'e1')
    for (const [table, columns, row] of ROWS) {
      for (let n = 1; n < 8; n++) await command(`INSERT INTO ${table} (${columns}) VALUES (${row(n)}), (${row(n + 1)})`)
    }
  })
  const [patch, ...others] = partsIn(parts, 'events').filter(isPatch)
  t.strictSame(others, [])
  const lost = [patch, ...ROWS.map(([table]) => partsIn(parts, table)[2])].filter((part) => part !== undefined)
  await age(parts)
  for (const { path } of lost) await rm(path, { recursive: true })
  const { client, errors } = await start(t, folder)
  const said = ({ table, rows }: Record<string, unknown>) => `${table} ${rows}`
  t.strictSame(errors.map(said).sort(), lost.map((part) => said({ ...part })).sort())
  t.equal(lost.length, 1 + ROWS.length)
  t.equal((await client.events(1000)).length, 2 * EVENTS, 'rows that a lost patch had deleted are back')
  const ofPatch = errors.find(({ part }) => part === patch?.name)
  t.match(ofPatch, { rows: 1, msg: /1 edits and deletions of events/ })
})

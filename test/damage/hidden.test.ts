import { readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openShards } from '../../src/clickhouse/open-shards.js'
import { type Client, dataFolder, PUBLIC_KEY, SECRET_KEY, silent, startApp, startClickHouse, until } from '../helper.js'
import { keepLog, onEngine, type PartFolder, partsOf } from './damaged-store.js'

const EVENTS = 50
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
  await (await startApp(t, env)).app.close()
  const parts = await shards.first.rows<PartFolder>(
    `SELECT table, name, partition_id AS partition, toUInt32(rows) AS rows, path FROM system.parts
     WHERE database = currentDatabase() AND active ORDER BY partition, min_block_number`,
  )
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

/** Starts the service. @returns also the losses that it reports */
async function start(t: Test, folder: string) {
  const { log, lines } = keepLog()
  const client = await startApp(t, settings(folder), { log })
  const isComplete = (await client.call('GET', '/health/ready?strict=true')).statusCode === 200
  const errors = lines.filter(({ level, part }) => level === 50 && part !== undefined)
  t.equal(isComplete, errors.length === 0, 'Health and log agree')
  return { client, errors }
}

/** As if the engine had merged everything before anybody checked. */
const mergeAll = (folder: string, ...tables: string[]) =>
  onEngine(storeOf(folder), async (_, command) => {
    for (const table of tables) await command(`OPTIMIZE TABLE ${table} FINAL`)
  })

t.test('a lost part is noticed if its neighbours are merged with deletes immediately', async (t) => {
  for (const [how, happen] of [
    ['gone', ({ path }: PartFolder) => rm(path, { recursive: true })],
    ['broken', ({ path }: PartFolder) => writeFile(join(path, 'checksums.txt'), 'x')],
  ] as const) {
    const { folder, parts } = await stopped(t, async (client) => {
      await track(client, 6)
      await deleteFirst(client, 'e3')
      await deleteFirst(client, 'e1', 2)
    })
    await age(parts)
    await happen(partsIn(parts, 'events')[1] as PartFolder)
    const { errors } = await start(t, folder)
    t.match(errors, [{ table: 'events', rows: EVENTS, projects: { default: EVENTS } }], how)
    t.equal(errors.length, 1)
  }
})

t.test('parts with deleted events are no loss, whenever they are merged', async (t) => {
  const { folder, parts } = await stopped(t, async (client) => {
    await track(client, 6)
    await deleteFirst(client, 'e1', EVENTS)
    await deleteFirst(client, 'e3')
  })
  await age(parts)
  const first = await start(t, folder)
  t.strictSame(first.errors, [])
  await deleteFirst(first.client, 'e4', EVENTS)
  t.equal((await first.client.events(1000)).length, 4 * EVENTS - 1)
  await first.client.app.close()
  await mergeAll(folder, 'events')
  t.strictSame((await start(t, folder)).errors, [])
})

t.test('a part that was lost just after its merge is noticed', async (t) => {
  const { folder } = await stopped(t, (client) => track(client, 3))
  await mergeAll(folder, 'events')
  const merged = await onEngine(storeOf(folder), async (query) =>
    query(
      `SELECT path, rows FROM system.parts WHERE database = currentDatabase() AND table = 'events' AND startsWith(name, '202')`,
    ),
  )
  for (const { path = '' } of merged) await rm(path, { recursive: true })
  const { errors } = await start(t, folder)
  t.equal(
    errors.reduce((sum, { rows }) => sum + Number(rows), 0),
    3 * EVENTS,
  )
})

t.test('a broken merged part is no loss while its sources exist', async (t) => {
  const { folder } = await stopped(t, (client) => track(client, 3))
  await mergeAll(folder, 'events')
  const [merged, ...others] = await partsOf(storeOf(folder))
  t.strictSame(others, [])
  if (!merged) throw new Error('there is no part')
  await writeFile(join(merged.path, 'checksums.txt'), 'x')
  const { client, errors } = await start(t, folder)
  t.equal((await client.events(1000)).length, 3 * EVENTS, 'the sources are used again')
  t.strictSame(errors, [])
})

t.test('a lost patch is reported, because deleted events are back', async (t) => {
  const { folder, parts } = await stopped(t, async (client) => {
    await track(client, 2)
    await deleteFirst(client, 'e1')
  })
  const [patch, ...others] = partsIn(parts, 'events').filter(isPatch)
  t.strictSame(others, [])
  await rm(patch?.path ?? '', { recursive: true })
  const { client, errors } = await start(t, folder)
  t.equal((await client.events(1000)).length, 2 * EVENTS)
  t.match(errors, [{ part: patch?.name, rows: 1, msg: /1 edits and deletions of events/ }])
})

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

t.test('a lost part of any table is reported, even if its neighbours are merged immediately', async (t) => {
  const { folder, parts } = await stopped(t, async (_, command) => {
    for (const [table, columns, row] of ROWS) {
      for (let n = 1; n < 8; n++) await command(`INSERT INTO ${table} (${columns}) VALUES (${row(n)}), (${row(n + 1)})`)
    }
  })
  await age(parts)
  const lost = []
  for (const [table] of ROWS) {
    const part = partsIn(parts, table)[2] as PartFolder
    await rm(part.path, { recursive: true })
    lost.push({ table, rows: part.rows })
  }
  const { errors } = await start(t, folder)
  t.match(
    errors.map(({ table, rows }) => `${table} ${rows}`).sort(),
    lost.map(({ table, rows }) => `${table} ${rows}`).sort(),
  )
})

t.test('rows that later ones replaced are no loss', async (t) => {
  const { folder, parts } = await stopped(t, async (_, command) => {
    for (const [table, columns, row] of ROWS) {
      for (let n = 1; n < 8; n++) await command(`INSERT INTO ${table} (${columns}) VALUES (${row(1)})`)
    }
  })
  await age(parts)
  const { client, errors } = await start(t, folder)
  t.strictSame(errors, [])
  await client.app.close()
  await mergeAll(folder, ...ROWS.map(([table]) => table))
  t.strictSame((await start(t, folder)).errors, [])
})

t.test('expired entries of the audit log are no loss', async (t) => {
  const { folder, parts } = await stopped(t, async (_, command) => {
    for (let n = 1; n < 4; n++) {
      await command(`INSERT INTO audit (project_id, changed_at, id) VALUES ('default', ${n}, generateUUIDv4())`)
    }
  })
  t.equal(partsIn(parts, 'audit').length, 3)
  await mergeAll(folder, 'audit')
  const left = await onEngine(storeOf(folder), (query) => query('SELECT count() AS count FROM audit'))
  t.match(left, [{ count: '0' }])
  t.strictSame((await start(t, folder)).errors, [])
})

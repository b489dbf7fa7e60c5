import { spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { formatEventId } from '../../src/model/event-id.js'
import { EventEdits } from '../../src/store/event-edits.js'
import { findEventLeftovers, findTableLeftovers, purgeOldRows, rewriteParts } from '../../src/store/rewrite.js'
import { Purge, type PurgeOptions } from '../../src/users/erasure/purge.js'
import { silent, temporaryFolder, unnoted, until } from '../helper.js'
import { emptyClickHouse } from '../shared-engine.js'

const EVENTS = 60
const LANES = 4

const { url, clickhouse } = await emptyClickHouse()
const HOUR_MS = 3_600_000
const { signal } = new AbortController()

async function purgeAllEvents(): Promise<void> {
  for (const { id } of await findEventLeftovers(clickhouse)) await rewriteParts(clickhouse, id, signal)
}

t.test('Purge keeps edits and deletes that arrive while it runs', async (t) => {
  const position = BigInt(Date.now()) << 16n
  const ids = Array.from({ length: EVENTS }, (_, index) => formatEventId({ position, index, journalId: 1 }))
  const rows = ids.map((id) => `('p', '${id}', 'e', 'u', 0, 0, '{}')`)
  await clickhouse.command(
    `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties)
     VALUES ${rows.join(', ')}`,
  )

  let isOver = false
  let purges = 0
  const purging = (async () => {
    while (!isOver) {
      await purgeAllEvents()
      purges++
    }
  })()
  // Like several processes that do not know each other's statements.
  const lanes = Array.from({ length: LANES }, async (_, lane) => {
    const edits = new EventEdits(Shards.of(clickhouse), unnoted)
    for (let n = lane; n < EVENTS; n += LANES) {
      const properties = n % 3 === 0 ? null : `{"n":${n}}`
      t.ok(await edits.apply({ projectId: 'p', eventId: ids[n] ?? '', properties }))
    }
  })
  await Promise.all(lanes)
  isOver = true
  await purging
  t.ok(purges > 0)

  const left = await clickhouse.rows<{ id: string; properties: string }>(
    'SELECT toString(event_id) AS id, properties FROM events ORDER BY toUInt128(event_id)',
  )
  t.strictSame(
    left.map(({ id, properties }) => [id, properties]),
    ids.flatMap((id, n) => (n % 3 === 0 ? [] : [[id, `{"n":${n}}`]])),
  )
  await purgeAllEvents()
  const onDisk = await clickhouse.rows('SELECT 1 FROM events SETTINGS apply_deleted_mask = 0, apply_patch_parts = 0')
  t.equal(onDisk.length, left.length)
})

/** Inserts an event of a month. @returns its id */
async function insertEvent(month: string, index = 0): Promise<string> {
  const id = formatEventId({ position: BigInt(Date.parse(`${month}-15`)) << 16n, index, journalId: 1 })
  await clickhouse.command(
    `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties)
     VALUES ('p', '${id}', 'e', 'u', 0, 0, '{}')`,
  )
  return id
}

/** The names of the active parts, by partition. */
async function partsOf(table: string): Promise<Record<string, string[]>> {
  const rows = await clickhouse.rows<{ partition_id: string; names: string[] }>(
    `SELECT partition_id, arraySort(groupArray(name)) AS names FROM system.parts
     WHERE database = currentDatabase() AND table = {table:String} AND active AND NOT startsWith(partition_id, 'patch-')
     GROUP BY partition_id ORDER BY partition_id`,
    { table },
  )
  return Object.fromEntries(rows.map(({ partition_id, names }) => [partition_id, names]))
}

function purgeOf(
  t: Test,
  intervalMs: number,
  more: Partial<Pick<PurgeOptions, 'pace'>> & { waitForAll?: () => Promise<bigint> } = {},
): Purge {
  const { waitForAll = async () => 0n, ...pace } = more
  const purge = new Purge({
    shards: Shards.of(clickhouse),
    barrier: { waitForAll },
    log: silent,
    intervalMs,
    ...pace,
  })
  t.teardown(() => purge.close())
  return purge
}

async function insertProfiles(rows: string): Promise<void> {
  await clickhouse.command(
    `INSERT INTO profiles (project_id, distinct_id, properties, created_at, updated_at, version, is_deleted) ${rows}`,
  )
}

t.test('Purge rewrites a month only if an event in it was deleted, and only once', async (t) => {
  await emptyClickHouse()
  const purge = purgeOf(t, 0)
  const edits = new EventEdits(Shards.of(clickhouse), unnoted)
  const [edited, deleted] = [await insertEvent('2026-01'), await insertEvent('2026-02')]
  await insertEvent('2026-02', 1)
  await insertEvent('2026-03')
  const before = await partsOf('events')
  await edits.apply({ projectId: 'p', eventId: edited, properties: '{"a":1}' })
  await insertProfiles("VALUES ('p', 'ada', '{}', 1, 1, 1, 0)")
  await insertProfiles("VALUES ('p', 'ada', '', 0, 0, 2, 1)")
  await purge.now('project 1')
  t.strictSame(await clickhouse.rows('SELECT version FROM profiles'), [{ version: '2' }])
  t.strictSame(await partsOf('events'), before, 'a deleted profile and an edit rewrite no month')

  await edits.apply({ projectId: 'p', eventId: deleted, properties: null })
  await purge.now('project 2')
  const after = await partsOf('events')
  t.strictSame(after, { ...before, 202602: after['202602'] })
  t.notSame(after['202602'], before['202602'])
  const onDisk = await clickhouse.rows('SELECT 1 FROM events SETTINGS apply_deleted_mask = 0, apply_patch_parts = 0')
  t.equal(onDisk.length, 3)

  await purge.now('project 3')
  await insertEvent('2026-02', 2)
  await edits.apply({ projectId: 'p', eventId: edited, properties: '{"a":2}' })
  await insertProfiles("VALUES ('p', 'bob', '', 0, 0, 3, 1)")
  const withNew = await partsOf('events')
  await purge.now('project 4')
  t.strictSame(await partsOf('events'), withNew, 'rows are not subtracted twice')
})

t.test('Purge finds deletions from before a restart, and delays them no longer than the interval', async (t) => {
  await emptyClickHouse()
  const id = await insertEvent('2026-01')
  await insertEvent('2026-01', 1)
  await new EventEdits(Shards.of(clickhouse), unnoted).apply({ projectId: 'p', eventId: id, properties: null })
  await insertProfiles("VALUES ('p', 'ada', '{}', 1, 1, 1, 0)")
  await insertProfiles("VALUES ('p', 'ada', '', 0, 0, 2, 1)")
  await clickhouse.command("INSERT INTO sessions (project_id, session_id, version) VALUES ('p', 's', 1)")
  await clickhouse.command("INSERT INTO sessions (project_id, session_id, version, is_deleted) VALUES ('p', 's', 2, 1)")
  const left = async () => [...(await findTableLeftovers(clickhouse)), ...(await findEventLeftovers(clickhouse))]
  const ids = async () => (await left()).map(({ id }) => id)

  await purgeOf(t, HOUR_MS).due()
  t.strictSame(await ids(), ['profiles', 'sessions', '202601'], 'they were written within the hour')
  t.ok((await left()).every(({ deletedForMs, writtenForMs }) => deletedForMs < 60_000 && writtenForMs < 60_000))

  // Like a new process, which knows of no deletion.
  purgeOf(t, 0).start()
  await until('the purge', async () => (await ids()).length === 0)
  t.equal((await clickhouse.rows('SELECT 1 FROM events SETTINGS apply_deleted_mask = 0')).length, 1)
  for (const table of ['profiles', 'sessions']) {
    t.strictSame(await clickhouse.rows(`SELECT version FROM ${table}`), [{ version: '2' }], table)
  }
})

/** A ClickHouse that refuses queries that would read more than a small part of the table. */
class Sparing extends ClickHouse {
  override async rows<Row>(...[query, parameters, settings, signal]: Parameters<ClickHouse['rows']>): Promise<Row[]> {
    return await super.rows(query, parameters, { ...settings, max_rows_to_read: '100000' }, signal)
  }
}

t.test('Purge finds earlier rows of deleted profiles without reading all profiles', async (t) => {
  await emptyClickHouse()
  const sparing = new Sparing({ url })
  t.teardown(() => sparing.close())
  await insertProfiles("SELECT 'p', concat('user', toString(number)), '{}', 1, 1, 1, 0 FROM numbers(300000)")
  const awkward = `it's "gone" \\ 100% 😀\t\n\u0000`
  await insertProfiles(`SELECT 'o', base64Decode('${Buffer.from(awkward).toString('base64')}'), '{}', 1, 1, 1, 0`)
  await insertProfiles(
    `SELECT 'o', distinct_id, '', 0, 0, 18000000000000000000, 1 FROM profiles WHERE project_id = 'o'`,
  )
  await insertProfiles("VALUES ('p', 'user77', '', 0, 0, 2, 1), ('p', 'user77', '{\"new\":1}', 3, 3, 3, 0)")
  await insertProfiles("VALUES ('p', 'unknown', '', 0, 0, 2, 1)")
  await purgeOldRows(sparing, Shards.of(sparing), 'profiles', signal)
  const left = await clickhouse.rows(
    `SELECT project_id, distinct_id, version FROM profiles
     WHERE project_id = 'o' OR distinct_id IN ('user76', 'user77', 'unknown') ORDER BY ALL`,
  )
  t.strictSame(left, [
    { project_id: 'o', distinct_id: awkward, version: '18000000000000000000' },
    { project_id: 'p', distinct_id: 'unknown', version: '2' },
    { project_id: 'p', distinct_id: 'user76', version: '1' },
    { project_id: 'p', distinct_id: 'user77', version: '3' },
  ])
  await until('the list to be empty', async () => (await clickhouse.rows('SELECT 1 FROM deletions')).length === 0)
})

t.test('Purge handles more deletions than one statement can hold', async (t) => {
  await emptyClickHouse()
  const rows = "concat('user', toString(number)), '{}', 1, 1"
  await insertProfiles(`SELECT 'p', ${rows}, 1, 0 FROM numbers(60001)`)
  await insertProfiles(`SELECT 'p', ${rows}, 2, 1 FROM numbers(60000)`)
  await purgeOldRows(clickhouse, Shards.of(clickhouse), 'profiles', signal)
  const left = await clickhouse.rows('SELECT distinct_id FROM profiles WHERE NOT is_deleted')
  t.strictSame(left, [{ distinct_id: 'user60000' }])
  await until('the list to be empty', async () => (await clickhouse.rows('SELECT 1 FROM deletions')).length === 0)
})

// A small disk in a namespace, invisible to other processes.
const NAMESPACE = ['--user', '--map-root-user', '--mount']
const canMount = spawnSync('unshare', [...NAMESPACE, 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0
const noMount = !canMount && 'needs `unshare`, and the right to mount a tmpfs in a namespace'

t.test('Purge reports a disk that is too full for a rewrite', { skip: noMount }, async (t) => {
  const dir = await temporaryFolder(t)
  const source = (path: string) => JSON.stringify(new URL(`../../src/${path}`, import.meta.url).href)
  const script = `
  const { startEmbeddedClickHouse } = await import(${source('clickhouse/embedded/engine.js')})
  const { ClickHouse } = await import(${source('clickhouse/client.js')})
  const { migrate } = await import(${source('clickhouse/migrate.js')})
  const { findEventLeftovers, rewriteParts } = await import(${source('store/rewrite.js')})
  const log = { info() {}, warn() {}, error() {} }
  const engine = await startEmbeddedClickHouse({ path: ${JSON.stringify(`${dir}/data`)}, log })
  const clickhouse = new ClickHouse({ url: engine.url })
  await migrate(clickhouse)
  const id = "reinterpret(bitShiftLeft(toUInt128(number), 64), 'UUID')"
  await clickhouse.command("INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties) SELECT 'p', " + id + ", 'e', 'u', 0, 0, randomString(10000) FROM numbers(2000)")
  await clickhouse.command('DELETE FROM events WHERE event_id IN (SELECT event_id FROM events LIMIT 1)')
  const [{ id: month }] = await findEventLeftovers(clickhouse)
  await rewriteParts(clickhouse, month, AbortSignal.timeout(60000)).catch(({ name, message }) => console.log(name, message))
  await clickhouse.close()
  await engine.close()`
  const file = join(await temporaryFolder(t), 'fill.mjs')
  await writeFile(file, script)
  const args = ['bash', '-c', 'mount -t tmpfs -o size=40m tmpfs "$0" && exec "$@"', dir]
  const node = [process.execPath, ...process.execArgv, file]
  const { stdout, stderr } = spawnSync('unshare', [...NAMESPACE, ...args, ...node], {
    encoding: 'utf8',
    timeout: 120_000,
  })
  t.match(stdout, /^DiskSpaceError .* too full .*197001 has \d.* MiB.*Free space or enlarge the disk/, stderr)
})

t.test(
  'Purge gathers the deletions of a project that erases in a loop, and serves another project immediately',
  async (t) => {
    await emptyClickHouse()
    let purges = 0
    const waitForAll = async () => {
      purges++
      return 0n
    }
    const purge = purgeOf(t, 0, { pace: { pauseMs: 3_000, pauseFactor: 5 }, waitForAll })
    const edits = new EventEdits(Shards.of(clickhouse), unnoted)
    const events: string[] = []
    for (let i = 0; i < 8; i++) events.push(await insertEvent('2026-02', i))
    for (const eventId of events) await edits.apply({ projectId: 'p', eventId, properties: null })
    const began = performance.now()
    await purge.now('loop')
    const ended: string[] = []
    const purged = (project: string) => purge.now(project).then(() => ended.push(project))
    await Promise.all([...events.map(() => purged('loop')), purged('other')])
    t.equal(ended[0], 'other')
    t.equal(purges, 3, 'the whole loop in one')
    t.ok(performance.now() - began >= 3_000)
    const onDisk = await clickhouse.rows('SELECT 1 FROM events SETTINGS apply_deleted_mask = 0, apply_patch_parts = 0')
    t.equal(onDisk.length, 0)
  },
)

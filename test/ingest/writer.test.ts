import { pino } from 'pino'
import t, { type Test } from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { StoreError, StoreUnreachableError } from '../../src/clickhouse/errors.js'
import { migrate } from '../../src/clickhouse/migrate.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { loadConfig } from '../../src/config.js'
import { type Appended, GroupCommit } from '../../src/ingest/group-commit.js'
import { Writer, type WriterOptions } from '../../src/ingest/writer.js'
import type { Journal } from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { openRedisJournal } from '../../src/journal/redis/journal.js'
import { openLanes } from '../../src/lanes/lanes.js'
import { BufferPool } from '../../src/lib/buffer-pool.js'
import { describeError } from '../../src/lib/log.js'
import { formatEventId } from '../../src/model/event-id.js'
import { nextPosition, START, toMilliseconds } from '../../src/model/position.js'
import { NO_IDS } from '../../src/model/request-ids.js'
import { findLastPosition } from '../../src/store/journals.js'
import { openTables, type Tables } from '../../src/store/tables.js'
import { fromServer, silent, startRedis, temporaryFolder, until } from '../helper.js'
import { RedisPair } from '../redis-pair.js'
import { emptyClickHouse } from '../shared-engine.js'
import { batchFrom, eventFrom } from '../submissions.js'

const { url, clickhouse } = await emptyClickHouse()

let projects = 0

interface StartOptions extends Partial<Pick<WriterOptions, 'maxBlockBytes' | 'foreignMs' | 'log'>> {
  store?: ClickHouse
  /** of the journal */
  path?: string
}

/** A new journal with a writer; the tables are shared, so the project is new, too. */
async function start(
  t: Test,
  change: (tables: Tables) => Partial<Tables> = () => ({}),
  { path, ...options }: StartOptions = {},
) {
  const journal = await openLmdbJournal({ path: path ?? (await temporaryFolder(t)), maxBytes: 1e9 })
  return startOn(t, journal, change, options)
}

function startOn(
  t: Test,
  journal: Journal,
  change: (tables: Tables) => Partial<Tables> = () => ({}),
  { store = clickhouse, ...options }: Omit<StartOptions, 'path'> = {},
) {
  const projectId = `project-${++projects}`
  const commits = new GroupCommit(journal, new BufferPool())
  const tables = openTables(store, journal)
  const writer = new Writer({
    journal,
    tables: { ...tables, ...change(tables) },
    log: silent,
    pauseMs: 10,
    ...options,
  })
  t.teardown(async () => {
    await writer.close()
    await journal.close()
  })
  return {
    projectId,
    journal,
    commits,
    writer,
    event: (name: string) =>
      appended(
        commits.append(eventFrom(fromServer(projectId), Buffer.from(`{"event":"${name}","distinct_id":"u"}`)), NO_IDS),
      ),
    stored: async () => {
      const rows = await clickhouse.rows<{ event: string; id: string }>(
        `SELECT event, toString(event_id) AS id FROM events WHERE project_id = {project:String} ORDER BY toUInt128(event_id)`,
        { project: projectId },
      )
      return rows
    },
    drained: () =>
      until('the journal to be empty', async () => {
        const { entries } = await journal.depth()
        return entries === 0
      }),
  }
}

/** The places of events without ids. */
async function appended(appending: Promise<Appended | null>): Promise<Appended> {
  const place = await appending
  if (!place) throw new Error('they are known')
  return place
}

t.test('an event is stored under the id of its place', async (t) => {
  const { event, writer, stored, drained, journal } = await start(t)
  const places = await Promise.all(['a', 'b', 'c'].map(event))
  writer.start()
  await drained()
  t.strictSame(
    await stored(),
    places.map((place, i) => ({ event: 'abc'[i], id: formatEventId({ ...place, journalId: journal.id }) })),
  )
})

t.test('an INSERT whose response was lost is found to be stored', async (t) => {
  let inserts = 0
  const { event, writer, stored, drained } = await start(t, (tables) => ({
    async insert(kind, entries, token, signal) {
      await tables.insert(kind, entries, token, signal)
      if (inserts++ === 0) throw new StoreUnreachableError('the answer was lost')
    },
  }))
  await event('a')
  await event('b')
  writer.start()
  await drained()
  t.equal(inserts, 1)
  t.strictSame(
    (await stored()).map(({ event }) => event),
    ['a', 'b'],
  )
})

t.test('events that arrive after the clock was fast have the time of their acceptance', async (t) => {
  const { projectId, journal, commits, event, writer, drained } = await start(t)
  // Positions never decrease, so they stay where the fast clock has put them.
  const fast = Date.now() + 3_600_000
  await journal.advancePast(nextPosition(START, fast))
  const from = Date.now()
  const { position } = await event('late')
  await commits.append(batchFrom(fromServer(projectId), Buffer.from('{"events":[{"event":1'), 1), NO_IDS)
  const to = Date.now()
  t.equal(toMilliseconds(position), fast)
  writer.start()
  await drained()
  const isAtAcceptance = (ms: unknown) => Number(ms) >= from && Number(ms) <= to
  const [row] = await clickhouse.rows<Record<string, string>>(
    'SELECT timestamp, received_at FROM events WHERE project_id = {project:String}',
    { project: projectId },
  )
  t.ok(isAtAcceptance(row?.timestamp), `the default timestamp is ${row?.timestamp}`)
  t.ok(isAtAcceptance(row?.received_at), `received_at is ${row?.received_at}`)
  const [letter] = await clickhouse.rows<Record<string, string>>(
    'SELECT received_at FROM dead_letters WHERE project_id = {project:String}',
    { project: projectId },
  )
  t.ok(isAtAcceptance(letter?.received_at), `received_at of the dead letter is ${letter?.received_at}`)
})

t.test('a block that the journal has lost is not stored under another token', async (t) => {
  const { projectId, event, writer, stored, drained, journal } = await start(t)
  const names = ['a', 'b']
  const places = []
  for (const name of names) places.push(await event(name))
  // Like Redis after a power failure: the INSERT was done, but the record of the frozen block is lost.
  const entries = places.map(({ position }, i) => ({
    position,
    kind: 'events' as const,
    projectId,
    count: 1,
    receivedAt: toMilliseconds(position),
    body: Buffer.from(`{"events":[{"event":"${names[i]}","distinct_id":"u"}]}`),
  }))
  await openTables(clickhouse, journal).insert('events', entries, 'another token', AbortSignal.timeout(60_000))
  await event('c')
  writer.start()
  await drained()
  t.strictSame(
    (await stored()).map(({ event }) => event),
    ['a', 'b', 'c'],
  )
})

t.test('a retried block stores nothing twice', async (t) => {
  let lost = 0
  const { event, writer, stored, drained } = await start(t, (tables) => ({
    // As while the first INSERT is still running.
    lastStored: async () => null,
    async insert(kind, entries, token, signal) {
      await tables.insert(kind, entries, token, signal)
      if (lost++ < 2) throw new StoreUnreachableError('the answer was lost')
    },
  }))
  await event('a')
  await event('b')
  writer.start()
  await drained()
  t.equal(lost, 3)
  t.strictSame(
    (await stored()).map(({ event }) => event),
    ['a', 'b'],
  )
})

t.test('events that arrive between a lost response and the retry are stored too', async (t) => {
  let release = () => {}
  const gate = new Promise<void>((resolve) => {
    release = resolve
  })
  let calls = 0
  const { event, writer, stored, drained } = await start(t, (tables) => ({
    async insert(kind, entries, token, signal) {
      await tables.insert(kind, entries, token, signal)
      if (++calls > 1) return
      await gate
      throw new StoreUnreachableError('the answer was lost')
    },
  }))
  await event('a')
  writer.start()
  await until('the first INSERT', () => calls === 1)
  await event('b')
  release()
  await drained()
  t.strictSame(
    (await stored()).map(({ event }) => event),
    ['a', 'b'],
  )
})

t.test('an entry that ClickHouse cannot read is rewritten and stored, and affects no other', async (t) => {
  const { commits, projectId, event, writer, stored, drained } = await start(t)
  const deep = '['.repeat(2000) + ']'.repeat(2000)
  await event('before')
  await commits.append(
    batchFrom(fromServer(projectId), Buffer.from('{"events":[{"event":"x","event":"twice","distinct_id":"u"}]}'), 1),
    NO_IDS,
  )
  await event('between')
  await commits.append(
    batchFrom(fromServer(projectId), Buffer.from(`{"deep":${deep},"events":[{"event":"deep","distinct_id":"u"}]}`), 1),
    NO_IDS,
  )
  await event('after')
  writer.start()
  await drained()
  t.strictSame(
    (await stored()).map(({ event }) => event),
    ['before', 'twice', 'between', 'deep', 'after'],
  )
})

t.test('an entry that cannot be stored in any form becomes a dead letter, once', async (t) => {
  let lost = 0
  const { commits, projectId, event, writer, stored, drained } = await start(t, (tables) => ({
    async insertDeadLetter(entry, reason, token) {
      await tables.insertDeadLetter(entry, reason, token)
      if (lost++ === 0) throw new StoreUnreachableError('the answer was lost')
    },
  }))
  // Impossible in a request, but possible in an entry that was damaged.
  const damaged = Buffer.from('{"events":[{"event":"a","distinct_id":{"no":"text"},"timestamp":"never"}]}')
  await event('before')
  const place = await commits.append(batchFrom(fromServer(projectId), damaged, 1), NO_IDS)
  const position = place?.position
  await event('between')
  await commits.append(batchFrom(fromServer(projectId), damaged.subarray(0, 20), 1), NO_IDS)
  await event('after')
  writer.start()
  await drained()
  t.strictSame(
    (await stored()).map(({ event }) => event),
    ['before', 'between', 'after'],
  )
  const letters = await clickhouse.rows<Record<string, string>>(
    'SELECT position, kind, body, reason FROM dead_letters WHERE project_id = {project:String} ORDER BY position',
    { project: projectId },
  )
  t.match(letters, [
    { position: String(position), kind: 'events', body: damaged.toString(), reason: /ClickHouse error/ },
    { body: damaged.toString('utf8', 0, 20) },
  ])
  t.equal(letters.length, 2)
})

/**
 * Additions of an operator to the table of events, each of which prevents some events from being stored, and how they
 * are removed.
 */
const OBSTACLES = [
  ["ADD CONSTRAINT own CHECK event != 'refused 0'", 'DROP CONSTRAINT own'],
  [
    "ADD COLUMN own1 DateTime MATERIALIZED toDateTime(if(event = 'refused 1', event, '2026-11-01 00:00:00'))",
    'DROP COLUMN own1',
  ],
  ["ADD COLUMN own2 UInt8 MATERIALIZED throwIf(event = 'refused 2')", 'DROP COLUMN own2'],
  ["ADD COLUMN own3 Int64 MATERIALIZED intDiv(1, event != 'refused 3')", 'DROP COLUMN own3'],
  ["ADD COLUMN own4 Enum('a' = 1) MATERIALIZED if(event = 'refused 4', event, 'a')", 'DROP COLUMN own4'],
] as const

t.test('an event that the table refuses becomes a dead letter, and affects no other', async (t) => {
  const alter = (changes: string[]) => clickhouse.command(`ALTER TABLE events ${changes.join(', ')}`)
  await alter(OBSTACLES.map(([added]) => added))
  t.teardown(() => alter(OBSTACLES.map(([, removed]) => removed)))
  const { event, writer, stored, drained, projectId } = await start(t)
  const refused = OBSTACLES.map((_, i) => `refused ${i}`)
  for (const name of ['before', ...refused.slice(0, 2), 'between', ...refused.slice(2), 'after']) await event(name)
  writer.start()
  await drained()
  t.strictSame(
    (await stored()).map(({ event }) => event),
    ['before', 'between', 'after'],
  )
  const letters = await clickhouse.rows<{ body: string }>(
    'SELECT body FROM dead_letters WHERE project_id = {project:String} ORDER BY position',
    { project: projectId },
  )
  t.strictSame(
    letters.map(({ body }) => JSON.parse(body).events[0].event),
    refused,
  )
})

t.test('a failing view of the operator neither duplicates nor delays events', async (t) => {
  await clickhouse.command('CREATE TABLE own (value Int64) ENGINE = MergeTree ORDER BY value')
  await clickhouse.command(
    "CREATE MATERIALIZED VIEW own_view TO own AS SELECT toInt64(if(event = 'bad', event, '1')) AS value FROM events",
  )
  t.teardown(async () => {
    await clickhouse.command('DROP TABLE own_view')
    await clickhouse.command('DROP TABLE own')
  })
  const { event, writer, stored, drained, projectId } = await start(t)
  const names = ['before', 'bad', 'after']
  for (const name of names) await event(name)
  writer.start()
  await drained()
  t.strictSame(
    (await stored()).map(({ event }) => event),
    names,
  )
  const query = 'SELECT body FROM dead_letters WHERE project_id = {project:String}'
  t.strictSame(await clickhouse.rows(query, { project: projectId }), [])
})

t.test('no value of a refused entry reaches the log; the dead letter says why', async (t) => {
  const lines: string[] = []
  const log = pino({ serializers: { err: describeError } }, { write: (line: string) => lines.push(line) })
  const { commits, projectId, event, writer, drained } = await start(t, undefined, { maxBlockBytes: 1e6, log })
  const refused = [
    '{"events":[{"event":"a","distinct_id":"u","timestamp":"private-1"}]}',
    '{"events":[{"event":"a","distinct_id":"u","properties":private-2}]}',
    'private-3',
  ]
  for (const body of refused) await commits.append(batchFrom(fromServer(projectId), Buffer.from(body), 1), NO_IDS)
  await event('after')
  writer.start()
  await drained()
  const letters = await clickhouse.rows<{ reason: string }>(
    'SELECT reason FROM dead_letters WHERE project_id = {project:String} ORDER BY position',
    { project: projectId },
  )
  t.equal(letters.length, refused.length)
  t.match(letters.map(({ reason }) => reason).join('\n'), 'private-', 'ClickHouse did quote a value')
  t.ok(lines.some((line) => line.includes('an entry was stored as a dead letter')))
  t.match(lines.join(''), /"ClickHouse error \d+ \([A-Z_]+\)"/)
  t.notMatch(lines.join(''), 'private-')
  const failed = await clickhouse.rows("SELECT toUInt8('private-4')").catch((error: unknown) => error)
  t.match(failed, { code: 6, reason: /private-4/ })
  t.notMatch(JSON.stringify(describeError(failed)), 'private-4')
})

t.test('an entry that is not JSON becomes a dead letter, and delays nothing', async (t) => {
  const { commits, projectId, event, writer, stored, drained, journal } = await start(t)
  const bodies = [
    'not JSON',
    '',
    '{"events":[{"event":"a","distinct_id":"u"}',
    '}',
    '[]',
    '{"events":{}}',
    '"',
    '\0',
  ].map((text) => Buffer.from(text))
  await event('before')
  for (const body of bodies) await commits.append(batchFrom(fromServer(projectId), body, 1), NO_IDS)
  const key = 'ab'.repeat(32)
  const row = {
    type: 'commit',
    keyClass: 'secret',
    projectId: 'p',
    kind: 'profiles',
    stateKey: key,
    expected: START,
    readAt: Date.now(),
    state: 'kept',
    row: '{"project',
    ids: NO_IDS,
  } as const
  await journal.write([row])
  await event('after')
  writer.start()
  await drained()
  t.strictSame(
    (await stored()).map(({ event }) => event),
    ['before', 'after'],
  )
  const letters = await clickhouse.rows<{ body: string }>(
    `SELECT body FROM dead_letters WHERE journal_id = {journal:UInt32} ORDER BY position`,
    { journal: journal.id },
  )
  t.strictSame(
    letters.map(({ body }) => body),
    [...bodies.map(String), row.row],
  )
  t.equal(
    (await journal.readStates([key], 1e6)).states[0]?.state,
    'kept',
    'a state that is not stored is not forgotten',
  )
})

t.test('a backlog is stored in order, in blocks of the configured size', async (t) => {
  const sizes: number[] = []
  const recording = (tables: Tables): Partial<Tables> => ({
    async insert(kind, entries, token, signal) {
      sizes.push(entries.length)
      await tables.insert(kind, entries, token, signal)
    },
  })
  const { event, writer, stored, drained } = await start(t, recording, { maxBlockBytes: 100 })
  const names = Array.from({ length: 10 }, (_, i) => `e${i}`)
  for (const name of names) await event(name)
  writer.start()
  await drained()
  t.ok(sizes.every((size) => size <= 3))
  t.strictSame(
    (await stored()).map(({ event }) => event),
    names,
  )
})

/** A ClickHouse with limited memory for each INSERT, which counts those that failed. */
class Small extends ClickHouse {
  memory = 12_000_000
  failures = 0

  constructor() {
    super({ url: url })
  }

  override async insert(...[query, values, settings, signal]: Parameters<ClickHouse['insert']>): Promise<void> {
    const limited = { ...settings, max_memory_usage: String(this.memory) }
    try {
      await super.insert(query, values, limited, signal)
    } catch (error) {
      if (error instanceof StoreError && error.code === 241) this.failures++
      throw error
    }
  }
}

/** Batches of some 130 kB; about three of them fit into 12 MB of ClickHouse's memory. */
async function appendBatches({ commits, projectId }: Pick<Started, 'commits' | 'projectId'>, count: number) {
  const names = Array.from({ length: count }, (_, n) => `batch${n}`)
  for (const name of names) {
    const events = Array.from({ length: 500 }, () => ({ event: name, distinct_id: 'u', properties: 'x'.repeat(200) }))
    await commits.append(batchFrom(fromServer(projectId), Buffer.from(JSON.stringify({ events })), 500), NO_IDS)
  }
  return names.flatMap((name) => Array<string>(500).fill(name))
}

type Started = Awaited<ReturnType<typeof start>>

t.test('a block that is too large for the memory of ClickHouse is stored in parts', async (t) => {
  const small = new Small()
  t.teardown(() => small.close())
  const started = await start(t, undefined, { store: small })
  const names = await appendBatches(started, 16)
  started.writer.start()
  await started.drained()
  t.strictSame(
    (await started.stored()).map(({ event }) => event),
    names,
  )
  t.ok(small.failures > 0, 'it was too large')
  t.ok(small.failures < 6, `it was halved only as far as needed: ${small.failures}`)
  t.equal(started.writer.metrics.retries.memory, small.failures)
})

t.test('while ClickHouse has memory for nothing, nothing is lost, and blocks do not become tiny', async (t) => {
  const small = new Small()
  t.teardown(() => small.close())
  small.memory = 1_000_000
  let smallest = Number.POSITIVE_INFINITY
  const recording = ({ insert }: Tables): Partial<Tables> => ({
    async insert(kind, entries, token, signal) {
      smallest = Math.min(smallest, entries.length)
      await insert(kind, entries, token, signal)
    },
  })
  const started = await start(t, recording, { store: small })
  const names = await appendBatches(started, 16)
  started.writer.start()
  await until('some tries', () => small.failures === 5)
  t.equal(smallest, 2)
  small.memory = 1_000_000_000
  await started.drained()
  t.strictSame(
    (await started.stored()).map(({ event }) => event),
    names,
  )
})

const NO_MEMORY = new StoreError(241, 'no memory')

t.test('a block is not shrunk while an INSERT of it may be running', async (t) => {
  const sizes: number[] = []
  const started = await start(t, (tables) => ({
    isInserting: async () => sizes.length < 2,
    async insert(kind, entries, token, signal) {
      sizes.push(entries.length)
      // The last of these failures is too late.
      if (sizes.length > 2) await tables.insert(kind, entries, token, signal)
      if (sizes.length <= 3) throw NO_MEMORY
    },
  }))
  const names = await appendBatches(started, 4)
  started.writer.start()
  await started.drained()
  t.strictSame(sizes.slice(0, 3), [4, 4, 2])
  t.strictSame(
    (await started.stored()).map(({ event }) => event),
    names,
  )
})

t.test('a block that may have been sent to a replica that does not respond is not shrunk', async (t) => {
  const sizes: number[] = []
  const started = await start(t, () => ({
    isInserting: async () => null,
    async insert(_kind, entries) {
      sizes.push(entries.length)
      throw NO_MEMORY
    },
  }))
  await appendBatches(started, 4)
  started.writer.start()
  await until('some tries', () => sizes.length >= 3)
  t.strictSame(sizes.slice(0, 3), [4, 4, 4])
})

t.test('a block whose INSERT got no response is not shrunk soon after that', async (t) => {
  const { now } = performance
  let ahead = 0
  performance.now = () => now.call(performance) + ahead
  t.teardown(() => {
    performance.now = now
  })
  const sizes: number[] = []
  let noteTried = () => {}
  const tried = new Promise<void>((resolve) => {
    noteTried = resolve
  })
  const started = await start(t, () => ({
    isInserting: async () => null,
    async insert(_kind, entries) {
      if (sizes.push(entries.length) === 4) noteTried()
      if (sizes.length !== 2) throw NO_MEMORY
      ahead = 3_600_000
      throw new StoreUnreachableError('no response')
    },
  }))
  await appendBatches(started, 4)
  started.writer.start()
  await tried
  t.strictSame(sizes.slice(0, 4), [4, 4, 4, 4])
  ahead *= 2
  await until('a smaller one', () => sizes.at(-1) === 2)
})

t.test('a block that is stored in part, for example across the end of a month, is not shrunk', async (t) => {
  const sizes: number[] = []
  const started = await start(t, (tables) => ({
    async insert(kind, entries, _token, signal) {
      sizes.push(entries.length)
      if (sizes.length === 1) await tables.insert(kind, entries.slice(0, 1), 'of the first month', signal)
      throw NO_MEMORY
    },
  }))
  await appendBatches(started, 4)
  started.writer.start()
  await until('some tries', () => sizes.length >= 3)
  t.strictSame(sizes.slice(0, 3), [4, 4, 4])
})

t.test('a block that an earlier writer froze is shrunk once no INSERT of it can be running', async (t) => {
  const path = await temporaryFolder(t)
  const small = new Small()
  t.teardown(() => small.close())
  const earlier = await start(t, undefined, { path })
  const names = await appendBatches(earlier, 16)
  await earlier.journal.claim(1e9)
  await earlier.journal.close()

  const patient = await start(t, undefined, { store: small, path })
  patient.writer.start()
  await until('some tries', () => small.failures >= 3)
  await patient.writer.close()
  t.equal((await patient.journal.claim(1))?.entries.length, 16)
  await patient.journal.close()

  const later = await start(t, undefined, { store: small, path, foreignMs: 0 })
  later.writer.start()
  await later.drained()
  const rows = await clickhouse.rows<{ event: string }>(
    'SELECT event FROM events WHERE project_id = {project:String} ORDER BY toUInt128(event_id)',
    { project: earlier.projectId },
  )
  t.strictSame(
    rows.map(({ event }) => event),
    names,
  )
})

t.test('closing stores what is waiting, within its time limit', async (t) => {
  const { event, writer, stored, journal } = await start(t)
  writer.start()
  await event('last')
  await writer.close(5_000)
  t.equal((await journal.depth()).entries, 0)
  t.equal((await stored()).length, 1)
})

t.test('a writer that cannot reach ClickHouse lets another one take over', async (t) => {
  const { url } = await startRedis(t)
  const open = () => openRedisJournal({ url, maxBytes: 1e9, log: silent })
  const unreachable = new ClickHouse({ url: 'http://127.0.0.1:1' })
  t.teardown(() => unreachable.close())
  const journal = await open()
  const claims: (boolean | undefined)[] = []
  const claim = journal.claim.bind(journal)
  journal.claim = (maxBytes, isWeak) => {
    claims.push(isWeak)
    return claim(maxBytes, isWeak)
  }
  const cutOff = startOn(t, journal, undefined, { store: unreachable })
  const failures = () => cutOff.writer.metrics.retries.unreachable
  const { writer } = startOn(t, await open())
  await cutOff.event('a')
  cutOff.writer.start()
  await until('a failure', () => failures() > 0)
  writer.start()
  await cutOff.drained()
  // The failure after which it has yielded, or one that it had because the lease had expired.
  await until('a claim that any other comes before', () => claims.at(-1) === true)
  await cutOff.event('b')
  await cutOff.drained()
  t.strictSame(
    (await cutOff.stored()).map(({ event }) => event),
    ['a', 'b'],
  )
})

t.test('a writer that has yielded stores again if no other one is left, however slow ClickHouse is', async (t) => {
  const { url } = await startRedis(t)
  const open = () => openRedisJournal({ url, maxBytes: 1e9, log: silent })
  let isSlow = true
  const { writer, event, drained, stored } = startOn(t, await open(), (tables) => ({
    ping: () => Promise.reject(new StoreUnreachableError('it takes longer than 2 s')),
    async insert(...block) {
      if (isSlow) throw new StoreUnreachableError('it takes longer than the limit')
      await tables.insert(...block)
    },
  }))
  const other = await open()
  await event('a')
  writer.start()
  await until('a failure', () => writer.metrics.retries.unreachable > 0)
  await until('the other one to take over', async () => (await other.claim(1e6)) !== null)
  isSlow = false
  await other.close()
  await drained()
  t.strictSame(
    (await stored()).map(({ event }) => event),
    ['a'],
  )
})

/** A writer on a Redis with a replica that may take over, and another process that only accepts events. */
async function startOnPair(t: Test, change?: (tables: Tables) => Partial<Tables>, options?: StartOptions) {
  const pair = await RedisPair.start(t)
  const open = () =>
    openRedisJournal({
      url: pair.url,
      maxBytes: 1e9,
      lastStored: (from) => findLastPosition(Shards.of(clickhouse), from),
      log: silent,
    })
  const writing = startOn(t, await open(), change, options)
  const journal = await open()
  t.teardown(() => journal.close())
  const commits = new GroupCommit(journal, new BufferPool())
  const { projectId } = writing
  const otherEvent = (name: string) =>
    appended(
      commits.append(eventFrom(fromServer(projectId), Buffer.from(`{"event":"${name}","distinct_id":"u"}`)), NO_IDS),
    )
  return { ...writing, pair, otherEvent, names: async () => (await writing.stored()).map(({ event }) => event) }
}

t.test('a failover to a replica that lags stores nothing twice', async (t) => {
  const { pair, event, projectId, writer, names, drained } = await startOnPair(t, undefined, { maxBlockBytes: 100 })
  const sent = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
  for (const name of sent) await event(name)
  // The replica knows none of the several blocks.
  await pair.detach()
  writer.start()
  await drained()
  await clickhouse.command(`DELETE FROM events WHERE project_id = {project:String} AND event = 'd'`, {
    project: projectId,
  })
  await pair.failOver()
  await event('h')
  await drained()
  t.strictSame(await names(), ['a', 'b', 'c', 'e', 'f', 'g', 'h'], 'and deleted events do not return')
})

t.test('a failover to a replica that has a block with other limits stores nothing twice', async (t) => {
  let inserts = 0
  let isOver = false
  const { pair, event, writer, names, drained } = await startOnPair(t, (tables) => ({
    async insert(kind, entries, token, signal) {
      // The block is frozen by now. It is refused in both spellings, so it will be split.
      if (inserts === 0) await pair.detach()
      if (++inserts <= 2) throw new StoreError(27, 'cannot parse')
      if (inserts > 3 && !isOver) throw new StoreUnreachableError('the rest has to wait')
      await tables.insert(kind, entries, token, signal)
    },
  }))
  for (const name of ['a', 'b', 'c']) await event(name)
  writer.start()
  await until('a part', async () => (await names()).length > 0)
  await pair.failOver()
  isOver = true
  await event('d')
  await drained()
  t.strictSame(await names(), ['a', 'b', 'c', 'd'])
})

t.test('after a change of the layout, entries that another shard has are not stored again', async (t) => {
  const names = ['former', 'present'].map((name) => `${name}${++projects}`)
  const shards = new Shards(
    names.map((name, number) => {
      return { number, name, clickhouse: new ClickHouse({ url: url.replace(/analytics$/, name) }) }
    }),
  )
  t.teardown(() => shards.close())
  await shards.each(({ clickhouse }) => migrate(clickhouse))
  const config = loadConfig({ CLICKHOUSE_URL: url, DATA_DIR: await temporaryFolder(t), LANES: '2' })
  const layout = { version: 2, lanes: 2, shards: 2 }
  const log = pino({ level: 'silent' })
  const lanes = await openLanes(config, shards, { layout, log, closing: new AbortController().signal })
  t.teardown(() => lanes.close())
  lanes.noteLayout(false)
  const lane = lanes.all[1]
  if (!lane) return t.fail('there are two')
  await lane.commits.append(eventFrom(fromServer('p'), Buffer.from('{"event":"e","distinct_id":"u"}')), NO_IDS)
  const block = await lane.journal.claim(1e6)
  // It was stored while the lane used the first shard; the failover lost that fact.
  const former = openTables(shards.first, lane.journal)
  await former.insert('events', block?.entries ?? [], 'another token', AbortSignal.timeout(60_000))
  lane.writer.start()
  await until('the journal to be empty', async () => (await lane.journal.depth()).entries === 0)
  const counts = await shards.each(({ clickhouse }) =>
    clickhouse.rows<{ n: string }>('SELECT count() AS n FROM events'),
  )
  t.strictSame(
    counts.map(([row]) => Number(row?.n)),
    [1, 0],
  )
})

t.test('events accepted after a failover are stored, however far ahead the clock of the master was', async (t) => {
  const { pair, event, otherEvent, writer, stored, names, drained } = await startOnPair(t)
  await event('a')
  await pair.detach()
  await pair.setClock(Date.now() + 3_600_000)
  const known = [await event('b'), await event('c')]
  writer.start()
  await drained()
  await pair.failOver()
  // From a process that received none of the earlier positions.
  const places = [await otherEvent('d'), await otherEvent('e')]
  t.ok(places.every(({ position }) => known.every((before) => position > before.position)))
  await drained()
  t.strictSame(await names(), ['a', 'b', 'c', 'd', 'e'])
  t.equal(new Set((await stored()).map(({ id }) => id)).size, 5)
})

t.test('a running INSERT is awaited before the stored positions are read', async (t) => {
  const { event, writer, stored, drained, journal } = await start(t)
  await event('a')
  // It holds the token of a block that this journal has forgotten.
  const running = clickhouse.rows(
    `SELECT sleepEachRow(0.1) FROM numbers(5) SETTINGS insert_deduplication_token = '${journal.id}:1-0:2-0'`,
  )
  const isRunning = () => clickhouse.rows(`SELECT 1 FROM system.processes WHERE query LIKE 'SELECT sleepEachRow%'`)
  await until('it', async () => (await isRunning()).length > 0)
  writer.start()
  let isOver = false
  running.then(() => {
    isOver = true
  })
  await drained()
  t.ok(isOver)
  t.equal((await stored()).length, 1)
})

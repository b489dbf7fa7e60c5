import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { isStoreError } from '../../src/clickhouse/errors.js'
import { openShards } from '../../src/clickhouse/open-shards.js'
import type { Shards } from '../../src/clickhouse/shards.js'
import { DEFAULT_SETTINGS } from '../../src/contract/project-settings.js'
import { type Alias, HAS_NAMES } from '../../src/model/alias.js'
import { formatEventId, lastIdAt } from '../../src/model/event-id.js'
import { getKind } from '../../src/questions/kinds.js'
import { type IdRange, queryEventNames, queryFieldValues, queryPropertyNames } from '../../src/questions/names.js'
import { readQuestion } from '../../src/questions/parse.js'
import { CHAINED_MS, Questions } from '../../src/questions/run.js'
import { type QueryContext, Statement } from '../../src/questions/statement.js'
import { selectAliasEnds } from '../../src/questions/users-join.js'
import { ALIASES } from '../../src/store/aliases.js'
import { EventEdits } from '../../src/store/event-edits.js'
import { countEvents, type EventFilter, readEvent, readEventsOfUser } from '../../src/store/event-pages.js'
import { EventWalks, type PageRequest } from '../../src/store/event-walks.js'
import { newestRows } from '../../src/store/newest-rows.js'
import { prepareShards } from '../../src/store/prepare-shards.js'
import { PROFILES, readProfilePage } from '../../src/store/profiles.js'
import { readSessionPage } from '../../src/store/session-pages.js'
import { findUserSessions, readSessionsOfUser, SESSIONS } from '../../src/store/sessions.js'
import { openTables } from '../../src/store/tables.js'
import { unnoted } from '../helper.js'
import { shardsUrl, startNode, startNodes } from '../nodes.js'

const NODES = 3
const EVENTS = 300
const SIGNAL = new AbortController().signal
/** All kinds of JSON, which must come back byte for byte. */
const TEXTS = [
  '{}',
  '{"a": 1,\r\n "b":"\\u0000\\ud83d\\n"}',
  '{"é\\t":"日本 \'\\\\","c":[1e400,{"d":null}]}',
  '{"n":0.10000000000000000001}',
]

const nodes = await startNodes(t, NODES)
const one = await startNode(t)
const several = open(t, shardsUrl(nodes))
const single = open(t, one.url)
const both = [several, single]

function open(t: Test, url: string): Shards {
  const shards = openShards(url)
  t.teardown(() => shards.close())
  return shards
}

function idOf(i: number): string {
  return formatEventId({ position: BigInt(1_700_000_000_000 + i) << 16n, index: 0, journalId: (i % NODES) + 1 })
}

/** Stores the same events in both stores; entry i belongs to lane i % 3. */
async function fill(): Promise<void> {
  await Promise.all(both.map(prepareShards))
  for (const shards of both) {
    for (let lane = 0; lane < NODES; lane++) {
      const { clickhouse } = shards.at(lane % shards.all.length)
      const entries = Array.from({ length: EVENTS }, (_, i) => i)
        .filter((i) => i % NODES === lane)
        .map((i) => ({
          kind: 'events' as const,
          projectId: 'p',
          position: BigInt(1_700_000_000_000 + i) << 16n,
          receivedAt: 5,
          count: 1,
          body: Buffer.from(
            `{"events":[{"event":"e${i % 4}","distinct_id":"u${i % 7}","timestamp":${i}.5,"properties":${TEXTS[i % TEXTS.length]}}]}`,
          ),
        }))
      await openTables(clickhouse, { id: lane + 1 }).insert('events', entries, `block:${lane}`, SIGNAL)
    }
  }
}

function wanted(given: Partial<PageRequest>): PageRequest {
  const upTo = lastIdAt(2n ** 64n - 1n)
  return {
    projectId: 'p',
    filter: {},
    order: 'asc',
    limit: 50,
    startAt: null,
    page: undefined,
    upTo,
    deletions: '',
    ...given,
  }
}

async function page(shards: Shards, format: 'json' | 'ndjson' | 'csv' | 'parquet', given: Partial<PageRequest>) {
  const { rows, next } = await new EventWalks(shards).read(format, wanted(given), SIGNAL)
  return { rows: await text(rows), next }
}

/** Stores the same aliases in both stores, each as the only version unless `later` is set. */
async function storeAliases(
  projectId: string,
  links: readonly (Pick<Alias, 'distinctId' | 'createdAt' | 'stepAt'> & { name: string })[],
  later = 0,
): Promise<void> {
  const entries = links.map(({ name, ...link }, i) => {
    const body = Buffer.from(ALIASES.row(projectId, name, { ...HAS_NAMES, ...link, said: link.distinctId }))
    return { kind: ALIASES.kind, projectId, position: BigInt(900 + later + i), receivedAt: 1, count: 1, body }
  })
  for (const shards of both) {
    for (const { number, clickhouse } of shards.all) {
      const own = entries.filter((_, i) => i % shards.all.length === number)
      if (own.length > 0) await openTables(clickhouse, { id: 1 }).insert('aliases', own, '', SIGNAL)
    }
  }
}

t.before(fill)

t.test('names, properties and values come from all shards', async (t) => {
  const after = idOf(EVENTS / 3)
  const ranges = [
    // In an earlier month, in this one, and after some events.
    { after: null, upTo: lastIdAt(1_710_000_000_000n << 16n) },
    { after: null, upTo: idOf(EVENTS / 2) },
    { after, upTo: idOf(EVENTS / 2), event: 'e1' },
  ]
  for (const range of ranges) {
    const asked = both.map((shards) => ({
      projectId: 'p',
      now: 0,
      shards,
      hasAliases: false,
      repairsTexts: true,
      pages: DEFAULT_SETTINGS,
    }))
    const builds = [
      queryEventNames,
      queryPropertyNames,
      (a: QueryContext, r: IdRange) => queryFieldValues(a, r, 'distinct_id'),
    ]
    for (const build of builds) {
      const [found, expected] = await Promise.all(
        asked.map(async (one) => {
          const { sql, parameters, settings } = build(one, range)
          return await one.shards.rows(sql, parameters, settings)
        }),
      )
      t.not(expected?.length, 0)
      t.strictSame(found, expected)
    }
  }
})

t.test('pages over three shards have the same bytes as over one', async (t) => {
  const cases: [EventFilter, Partial<PageRequest>[]][] = [
    [{}, [{ page: 1 }, { page: 2 }, { page: 7 }, { startAt: idOf(100) }, { limit: 1 }]],
    [{ distinctId: 'u3', from: 20, to: 200.5 }, [{ page: 1 }, { startAt: idOf(100) }]],
  ]
  for (const [filter, pages] of cases) {
    for (const order of ['asc', 'desc'] as const) {
      for (const given of pages) {
        const isAny = given.page === 2 && order === 'asc'
        for (const format of isAny ? (['json', 'ndjson', 'csv'] as const) : (['json'] as const)) {
          const [many, alone] = await Promise.all(
            both.map((shards) => page(shards, format, { filter, order, ...given })),
          )
          t.strictSame(many, alone, JSON.stringify({ filter, order, format, ...given }))
        }
      }
    }
  }
  const { rows } = await page(several, 'parquet', { limit: 1000 })
  t.equal(rows.slice(0, 4), 'PAR1')
})

t.test('a slow filter is searched in steps over all shards', async (t) => {
  const [many, alone] = await Promise.all(
    both.map(async (shards) => {
      const walks = new EventWalks(shards, { directMs: 0, searchMs: 10_000, stepRows: 100 })
      const { rows, next } = await walks.read('ndjson', wanted({ filter: { distinctId: 'u2' }, limit: 10 }), SIGNAL)
      return { rows: await text(rows), next }
    }),
  )
  t.strictSame(many, alone)
  t.match(many?.rows, /u2/)
})

t.test('an event is found, edited and deleted on any shard', async (t) => {
  const edits = new EventEdits(several, unnoted)
  for (const home of [0, 1, 2]) {
    const eventId = idOf(home + 30)
    const event = { projectId: 'p', eventId }
    for (const asked of [0, 1, 2]) t.match(String(await readEvent(several, { ...event, home: asked })), eventId)
    t.equal(await edits.apply({ ...event, properties: `{"edited":${home}}` }, (home + 1) % NODES), true)
    t.match(String(await readEvent(several, event)), `"properties":{"edited":${home}}`)
    t.equal(await edits.apply({ ...event, projectId: 'q', properties: null }, home), false)
    t.equal(await edits.apply({ ...event, properties: null }, home), true)
    t.equal(await readEvent(several, event), null)
    t.equal(await edits.apply({ ...event, properties: null }, home), false)
  }
})

t.test("a user's events come from all shards in order", async (t) => {
  const user = { projectId: 'p', distinctIds: ['u5'], upTo: lastIdAt(2n ** 64n - 1n) }
  const [many, alone] = await Promise.all(
    both.map(async (shards) => await text(await readEventsOfUser(shards, user, {}))),
  )
  t.equal(many, alone)
  t.ok((many?.split('\n').length ?? 0) > 30)
})

/** Rows of profiles and sessions, each version on another shard, as after shards were added. */
t.test('profiles and sessions are the newest of all shards, including deletions', async (t) => {
  let version = 1n
  const put = async (table: typeof PROFILES | typeof SESSIONS, row: string, shard: number) => {
    const entry = {
      kind: table.kind,
      projectId: 'p',
      position: ++version,
      receivedAt: 1,
      count: 1,
      body: Buffer.from(row),
    }
    for (const shards of both) {
      const { clickhouse } = shards.at(shard % shards.all.length)
      await openTables(clickhouse, { id: 1 }).insert(table.kind, [entry], '', SIGNAL)
    }
  }
  const profile = (name: string, at: number | null, shard: number) => {
    return put(
      PROFILES,
      PROFILES.row(
        'p',
        name,
        at === null ? null : { properties: new Map([['at', String(at)]]), createdAt: 1, updatedAt: at },
      ),
      shard,
    )
  }
  const session = (name: string, startedAt: number, endedAt: number | null, shard: number, distinctId = 'u1') => {
    const value = {
      distinctId,
      state: endedAt === null ? 'active' : 'completed',
      properties: new Map([['s', '1']]),
      duration: null,
      startedAt,
      updatedAt: startedAt,
      endedAt,
      context: {},
    } as never
    return put(SESSIONS, SESSIONS.row('p', name, value), shard)
  }
  for (let i = 0; i < 12; i++) await profile(`n${i}`, i, i)
  await profile('n3', 100, 1)
  await profile('n4', null, 2)
  await profile('n5', null, 0)
  await profile('n5', 200, 1)
  for (let i = 0; i < 12; i++) await session(`s${i}`, i, i, i)
  // Open again, so that null is newer than a number, and with another user.
  await session('s3', 3, null, 1)
  await session('s4', 4, 4, 2, 'u2')
  await put(SESSIONS, SESSIONS.row('p', 's5', null), 0)

  const names = Array.from({ length: 12 }, (_, i) => `n${i}`)
  const looks: ((shards: Shards) => Promise<unknown>)[] = [
    async (shards) => [...(await PROFILES.read(shards, 'p', names, 1000))].sort(),
    async (shards) => [...(await PROFILES.read(shards, 'p', names, 1))].sort(),
    async (shards) => [...(await SESSIONS.read(shards, 'p', ['s3', 's4', 's5', 's6'], 1000))].sort(),
    async (shards) => (await findUserSessions(shards, 'p', ['u1'])).map(({ sessionId }) => sessionId).sort(),
    async (shards) => await text(await readSessionsOfUser(shards, { projectId: 'p', distinctIds: ['u1'] }, {})),
    ...[0, 10].flatMap((offset) => [
      async (shards: Shards) => await text(await readProfilePage(shards, { projectId: 'p', limit: 4, offset })),
      async (shards: Shards) => {
        const { rows, hasMore } = await readSessionPage(shards, { projectId: 'p', limit: 4, offset })
        return [await text(rows), hasMore]
      },
      async (shards: Shards) => {
        const ofUser = { distinctId: 'u1', state: 'completed' } as const
        const { rows, hasMore } = await readSessionPage(shards, { projectId: 'p', limit: 4, offset, ...ofUser })
        return [await text(rows), hasMore]
      },
    ]),
  ]
  for (const look of looks) t.strictSame(await look(several), await look(single), String(look))
  const [deleted] = await several.rows<{ n: string }>(
    "SELECT count() AS n FROM profiles_all WHERE distinct_id = 'n4'",
    {},
    { final: 1 },
  )
  t.equal(Number(deleted?.n), 0, 'FINAL does not bring back what another shard has deleted')
})

t.test('each shard reads only the requested names', async (t) => {
  const from = newestRows(several, 'profiles', { keys: "project_id = 'p' AND distinct_id IN ('n1', 'n2')" })
  const plan = await several.rows<{ explain: string }>(`EXPLAIN distributed = 1, indexes = 1 SELECT * FROM ${from}`)
  const conditions = plan.map(({ explain }) => explain.trim()).filter((line) => line.startsWith('Condition:'))
  t.equal(conditions.length, NODES)
  for (const condition of conditions) t.match(condition, /distinct_id in 2-element set.*project_id in/)
})

t.test('each shard counts its own events, and sends no ids', async (t) => {
  const events = 20_000
  await several.each(({ clickhouse }) =>
    clickhouse.command(
      `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties)
       SELECT 'many', generateUUIDv7(), 'e', 'u', 0, 0, '{}' FROM numbers(${events})`,
    ),
  )
  const received = async () => {
    const bytes = await several.each(({ clickhouse }) =>
      clickhouse.rows<{ value: string }>("SELECT value FROM system.events WHERE event = 'NetworkReceiveBytes'"),
    )
    return bytes.flat().reduce((sum, { value }) => sum + Number(value), 0)
  }
  const before = await received()
  const page = { projectId: 'many', upTo: lastIdAt(2n ** 64n - 1n) }
  t.equal(await countEvents(several, page, {}), NODES * events)
  const bytes = (await received()) - before
  t.ok(bytes < events, `${bytes} bytes for the ids of ${NODES * events} events`)
})

t.test('a shard returns events with arrays that match a negated filter', async (t) => {
  for (const shards of both) {
    for (const [lane, shard] of shards.all.entries()) {
      const body = Buffer.from(
        '{"events":[{"event":"a","distinct_id":"u","timestamp":50,"properties":{"c":["y"]}},' +
          '{"event":"a","distinct_id":"u","timestamp":50,"properties":{"c":[]}}]}',
      )
      const position = 1_800_000_000_000n << 16n
      const entry = { kind: 'events' as const, projectId: 'arrays', position, receivedAt: 5, count: 2, body }
      await openTables(shard.clickhouse, { id: lane + 1 }).insert('events', [entry], `arrays:${lane}`, SIGNAL)
    }
    const questions = new Questions({
      shards,
      barrier: { waitForProject: async () => ({ stored: 0n, pending: 0, deletions: '' }) },
      aliases: { hasAny: async () => false },
      limits: { QUERY_TIMEOUT: 30, QUERY_MEMORY: 1 << 30 },
      now: () => 2000,
    })
    for (const [where, count] of [
      [['not_contains', 'properties.c', 'x'], 2],
      [['not_contains', 'properties.c', 'y'], 1],
      [['is_not', 'properties.c', ['y']], 1],
    ]) {
      const question = { kind: 'series', series: [{ event: '*', where }], from: 40, to: 1000, interval: 'none' }
      const { results } = await questions.ask('arrays', question, SIGNAL)
      t.match(results, [{ total: Number(count) * shards.all.length }], JSON.stringify(where))
    }
  }
})

t.test(
  'selectAliasEnds follows an alias to its user in any number of steps, and picks one user of a cycle',
  async (t) => {
    const long = Array.from({ length: 2_500 }, (_, i) => {
      return { name: `long ${i}`, distinctId: `long ${i + 1}`, createdAt: i, stepAt: 1 }
    })
    const leaves = [0, 1, 1249, 2499, 2500].map((i) => {
      return { name: `leaf of ${i}`, distinctId: `long ${i}`, createdAt: 9_000 + i, stepAt: 0 }
    })
    const cycle = ['b', 'c', 'a'].map((next, i) => ({
      name: 'abc'.charAt(i),
      distinctId: next,
      createdAt: i % 2,
      stepAt: 1,
    }))
    const before = { name: 'before', distinctId: 'a', createdAt: 99, stepAt: 1 }
    const ended = { name: 'ended', distinctId: 'flat', createdAt: 1, stepAt: 1 }
    await storeAliases('chains', [...long, ...leaves, ...cycle, before, ended])
    // A step that no alias points to any more.
    await storeAliases('chains', [{ ...ended, stepAt: 0 }], 5_000)
    const expected = new Map([
      ...[...long, ...leaves].map(({ name }) => [name, 'long 2500'] as const),
      ...['a', 'b', 'c', 'before'].map((name) => [name, 'b'] as const),
      ['ended', 'flat'],
    ])
    for (const shards of both) {
      const statement = new Statement({
        projectId: 'chains',
        now: 0,
        shards,
        hasAliases: true,
        hasChains: true,
        repairsTexts: false,
        pages: DEFAULT_SETTINGS,
      })
      const sql = `SELECT alias, user FROM (${selectAliasEnds(statement)})`
      const rows = await shards.rows<{ alias: string; user: string }>(sql, statement.parameters)
      t.equal(rows.length, expected.size)
      t.same(new Map(rows.map(({ alias, user }) => [alias, user])), expected)
    }
  },
)

t.test('a question expects aliases to lead to users in one step, and follows chains once it has met one', async (t) => {
  const [shard] = single.all
  if (!shard) throw new Error('there is no shard')
  const events = ['x', 'y', 'z'].map((distinct_id) => ({ event: 'a', distinct_id, timestamp: 50 }))
  const body = Buffer.from(JSON.stringify({ events }))
  const position = 1_800_000_000_001n << 16n
  const entry = { kind: 'events' as const, projectId: 'met', position, receivedAt: 5, count: events.length, body }
  await openTables(shard.clickhouse, { id: 1 }).insert('events', [entry], 'met', SIGNAL)
  const statements: string[] = []
  let now = 2000
  const shards = open(t, one.url)
  const rows = shards.rows.bind(shards)
  shards.rows = (sql, ...rest) => {
    if (sql.includes('events AS e')) statements.push(sql.includes('RECURSIVE') ? 'chains' : 'one step')
    return rows(sql, ...rest)
  }
  const questions = new Questions({
    shards,
    barrier: { waitForProject: async () => ({ stored: 0n, pending: 0, deletions: '' }) },
    aliases: { hasAny: async () => true },
    limits: { QUERY_TIMEOUT: 30, QUERY_MEMORY: 1 << 30 },
    now: () => now,
  })
  const countUsers = async () => {
    const question = { kind: 'series', series: [{ event: 'a', metric: 'users' }], from: 40, to: 1000, interval: 'none' }
    const { results } = await questions.ask('met', question, SIGNAL)
    return [(results as { total: number }[])[0]?.total, statements.splice(0)]
  }
  await storeAliases('met', [{ name: 'x', distinctId: 'y', createdAt: 1, stepAt: 0 }], 10_000)
  t.strictSame(await countUsers(), [2, ['one step']])
  await storeAliases('met', [{ name: 'y', distinctId: 'z', createdAt: 2, stepAt: 1 }], 20_000)
  t.strictSame(await countUsers(), [1, ['one step', 'chains']])
  t.strictSame(await countUsers(), [1, ['chains']])

  const settled = [
    { name: 'x', distinctId: 'z', createdAt: 1, stepAt: 0 },
    { name: 'y', distinctId: 'z', createdAt: 2, stepAt: 0 },
  ]
  await storeAliases('met', settled, 30_000)
  now += CHAINED_MS
  t.strictSame(await countUsers(), [1, ['one step']], 'once it is settled and forgotten')
})

// This test is last, because a failing query on a shard may end libchdb, which all servers here are, when its peer
// disconnects.
t.test('questions have the same answers over several shards as over one', async (t) => {
  const chain = [
    ['u6', 'u0'],
    ['u5', 'u6'],
  ] as const
  const links = chain.map(([name, distinctId], i) => ({ name, distinctId, createdAt: i, stepAt: i === 0 ? 1 : 0 }))
  await storeAliases('p', links)
  // Earlier events have been changed only on the store with several shards.
  const common = { from: 40, to: 1000 }
  const series = [
    { event: '*', metric: 'users' },
    { event: 'e1', metric: 'median', property: 'timestamp' },
  ]
  const step = (event: string) => ({ event, where: ['not', ['is', 'user.at', [100]]] })
  const questions = [
    { kind: 'series', series, interval: 'hour', where: ['is', 'properties.a', [1, null]] },
    { kind: 'series', series, interval: 'none', breakdown: ['properties.c', 'user.at'], limit: 1 },
    { kind: 'series', series, breakdown: ['distinct_id'], limit: 3, other: false },
    { kind: 'funnel', steps: [step('e0'), step('e1')], window: '1ms' },
    { kind: 'paths', start: 'e0' },
  ]
  for (const question of questions) {
    const parsed = readQuestion({ ...common, ...question }, 2000).question
    const [many, alone] = await Promise.all(
      both.map(async (shards) => {
        const asked = {
          projectId: 'p',
          now: 2000,
          shards,
          hasAliases: true,
          hasChains: true,
          repairsTexts: true,
          pages: DEFAULT_SETTINGS,
        }
        const { sql, parameters, settings } = getKind(parsed).query(parsed, asked)
        return getKind(parsed).answer(parsed, await shards.rows(sql, parameters, settings), asked)
      }),
    )
    t.strictSame(many, alone, JSON.stringify(question))
    t.not(JSON.stringify(many?.results).match(/[1-9]/), null)
  }
  const [first] = questions
  const parsed = readQuestion({ ...common, ...first }, 2000).question
  const asked = {
    projectId: 'p',
    now: 2000,
    shards: several,
    hasAliases: true,
    hasChains: true,
    repairsTexts: false,
    pages: DEFAULT_SETTINGS,
  }
  const { sql, parameters } = getKind(parsed).query(parsed, asked)
  const failure = await several.rows(sql, parameters).catch((error: unknown) => error)
  t.ok(isStoreError(failure, 'FUNCTION_THROW_IF_VALUE_IS_NON_ZERO'), 'a shard reports that a text needs repair')
})

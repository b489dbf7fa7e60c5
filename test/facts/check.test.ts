import { randomUUID } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import type { ClickHouse } from '../../src/clickhouse/client.js'
import { StoreError, StoreTimeoutError, StoreUnreachableError } from '../../src/clickhouse/errors.js'
import { Questions } from '../../src/questions/run.js'
import { FactsReader } from '../../src/reads/facts-reader.js'
import { logChange, requestFacts } from '../../src/store/event-changes.js'
import { EventEdits } from '../../src/store/event-edits.js'
import { insertEvents } from '../../src/store/events.js'
import { isDiskShort } from '../../src/store/fact-backlog.js'
import { checkFactsAgain, FactCheck } from '../../src/store/fact-check.js'
import { FactLead } from '../../src/store/fact-lead.js'
import { readFactsPoint } from '../../src/store/fact-points.js'
import { ACCIDENTS, damage, keepLog } from '../damage/damaged-store.js'
import { dataFolder, silent, startClickHouse, unnoted, until } from '../helper.js'
import { openShard } from './shard.js'

const EVENT = { event: 'e', distinct_id: 'u', timestamp: Date.UTC(2026, 10, 20), properties: '{}' }

t.test('projects that change during a comparison are compared again after a pause, and no others', async (t) => {
  const shard = await openShard(t)
  const { clickhouse } = shard
  for (const project of ['a', 'b']) await shard.store(project, [EVENT, EVENT])
  const copier = shard.copier()
  await shard.complete(['a', 'b'])
  await copier.close()
  const [state] = await clickhouse.rows<{ generation: number }>('SELECT max(generation) AS generation FROM facts_state')
  const generation = state?.generation ?? 0
  const check = new FactCheck(clickhouse)
  await logChange(clickhouse, new Map([['a', { kind: 'users', users: [] }]]), async () => {
    await clickhouse.command("DELETE FROM events WHERE project_id = 'a'")
    t.equal(await check.run(generation), 'changing')
    await clickhouse.command("DELETE FROM event_facts WHERE project_id = 'a'")
    t.equal(await check.run(generation), 'changing', 'not immediately')
    // As if ClickHouse had restarted and lost them. Project b was equal before, so it is not compared again.
    await clickhouse.command("DELETE FROM event_facts WHERE project_id = 'b'")
    await wait(1_100)
    t.equal(await check.run(generation), 'equal')
  })
  t.equal(await new FactCheck(clickhouse).run(generation), 'different')
})

t.test('facts are not complete if a part is detached while they are compared', async (t) => {
  const shard = await openShard(t)
  const { clickhouse } = shard
  await shard.store('a', [EVENT, EVENT])
  const copier = shard.copier()
  await shard.complete(['a'])
  await copier.close()
  await checkFactsAgain(clickhouse)
  const compared = shard.open()
  const { rows } = compared
  compared.rows = async (query, ...rest) => {
    const found = await rows.call(compared, query, ...rest)
    // As a question does that cannot read the part.
    if (query.includes('sum(difference)')) await clickhouse.command('ALTER TABLE facts_progress DETACH PARTITION ALL')
    return found as never
  }
  const options = { process: randomUUID(), isShared: false, log: silent, signal: new AbortController().signal }
  const lead = await FactLead.take(compared, options)
  t.equal(await lead?.check(new FactCheck(compared)), 'different')
})

t.test('a comparison that fails continues where it was, and with more time if it took too long', async (t) => {
  const shard = await openShard(t)
  const { clickhouse } = shard
  for (const at of [Date.UTC(2024, 0, 15), Date.UTC(2024, 1, 15)]) {
    const entry = { position: BigInt(at) << 16n, projectId: 'a', kind: 'events', count: 1, receivedAt: at } as const
    const body = Buffer.from('{"events":[{"event":"e","distinct_id":"u"}]}')
    await insertEvents(clickhouse, 7, [{ ...entry, body }], `${at}`, new AbortController().signal)
  }
  const copier = shard.copier()
  await shard.complete(['a'])
  await copier.close()
  await checkFactsAgain(clickhouse)
  const failing = shard.open()
  const { rows } = failing
  const asked: [month: unknown, limitMs: number | undefined][] = []
  failing.rows = async (query, parameters, settings, reading) => {
    if (query.includes('sum(difference)')) {
      asked.push([parameters?.month, reading?.limitMs])
      if (asked.length === 1) throw new StoreTimeoutError('ClickHouse did not respond in time')
      if (asked.length === 3) throw new StoreUnreachableError('the connection was lost')
    }
    return (await rows.call(failing, query, parameters, settings, reading)) as never
  }
  shard.copier({ clickhouse: failing, log: silent })
  await shard.complete(['a'])
  t.strictSame(asked, [
    ['202401', 110_000],
    ['202401', 220_000],
    ['202402', 220_000],
    ['202402', 220_000],
  ])
})

t.test('what was compared before rows were lost or reappeared does not count', async (t) => {
  const shard = await openShard(t)
  const { clickhouse } = shard
  await shard.store('a', [EVENT])
  const copier = shard.copier()
  await shard.complete(['a'])
  await copier.close()
  await checkFactsAgain(clickhouse)
  const options = { process: randomUUID(), isShared: false, log: silent, signal: new AbortController().signal }
  const lead = await FactLead.take(clickhouse, options)
  const check = new FactCheck(clickhouse)
  const [state] = await clickhouse.rows<{ generation: number }>('SELECT max(generation) AS generation FROM facts_state')
  t.equal(await check.run(state?.generation ?? 0), 'equal')
  await clickhouse.command("DELETE FROM event_facts WHERE project_id = 'a'")
  t.equal(await check.run(state?.generation ?? 0), 'equal', 'nothing is compared twice')
  await checkFactsAgain(clickhouse)
  t.equal(await lead?.check(check), 'different')
})

t.test('a project whose events are being deleted does not keep facts of others from being read', async (t) => {
  const shard = await openShard(t)
  const { clickhouse } = shard
  const ids = await shard.store('a', [EVENT, EVENT])
  await shard.store('b', [EVENT])
  const copier = shard.copier()
  await shard.complete(['a', 'b'])
  await copier.close()
  const { log, lines } = keepLog()
  await logChange(clickhouse, new Map([['a', { kind: 'users', users: [] }]]), async () => {
    await clickhouse.command(`DELETE FROM events WHERE event_id = '${ids[0]}'`)
    await checkFactsAgain(clickhouse)
    shard.copier({ log, checkPauses: { firstMs: 50, maxMs: 50 } })
    await until('facts of the other project', async () => (await readFactsPoint(clickhouse, 'b')).point)
  })
  await shard.complete(['a', 'b'])
  t.equal(await shard.countDifferences(), 0)
  t.equal(await shard.countFacts(), 2)
  t.match(lines, [{ project: 'a', msg: /copying its facts again/ }])
})

t.test('a copier halves a step that took too much memory', async (t) => {
  const shard = await openShard(t)
  const { clickhouse } = shard
  t.equal(typeof (await isDiskShort(clickhouse)), 'boolean')
  await shard.store(
    'a',
    Array.from({ length: 400 }, () => EVENT),
  )
  const warned: unknown[] = []
  const small = shard.open()
  const command = small.command.bind(small)
  // As if ClickHouse had memory for 100 events.
  small.command = async (query, ...rest) => {
    if (query.startsWith('INSERT INTO event_facts')) {
      const copied = await countCopied(query)
      if (copied > 100) throw new StoreError(241, 'Memory limit exceeded')
    }
    await command(query, ...rest)
  }
  const countCopied = async (query: string) => {
    const hi = /<= toUInt128\('(\d+)'\)/.exec(query)?.[1] ?? '0'
    const lo = /> toUInt128\('(\d+)'\)/.exec(query)?.[1] ?? '0'
    const sql =
      'SELECT count() AS count FROM events WHERE toUInt128(event_id) > {lo:UInt128} AND toUInt128(event_id) <= {hi:UInt128}'
    return Number((await clickhouse.rows<{ count: string }>(sql, { lo, hi }))[0]?.count)
  }
  const log = { info: () => undefined, warn: (about: unknown) => void warned.push(about) }
  shard.copier({ clickhouse: small, maxStep: { rows: 400, bytes: 1_000_000 }, log })
  await shard.complete(['a'])
  t.equal(await shard.countFacts(), 400)
  t.equal(warned.length, 2, 'each failure is logged')
})

/** Damages all data of a table behind ClickHouse's back. */
async function damageTable(clickhouse: ClickHouse, table: string): Promise<void> {
  const parts = await clickhouse.rows<{ path: string }>(
    'SELECT path FROM system.parts WHERE database = currentDatabase() AND table = {table:String} AND active',
    { table },
  )
  for (const { path } of parts) await damage(join(path, 'data.bin'), 0, 1_000_000)
}

t.test('all facts are copied again if a change meets damage that nothing else noticed', async (t) => {
  const shard = await openShard(t, await startClickHouse(t))
  const ids = await shard.store('a', [EVENT, EVENT, EVENT])
  await shard.store('b', [EVENT])
  shard.copier({ log: silent })
  await shard.complete(['a', 'b'])
  await damageTable(shard.clickhouse, 'event_facts')
  await new EventEdits(shard.shards, unnoted).apply({
    projectId: 'a',
    eventId: ids[0] ?? '',
    properties: '{"edited":true}',
  })
  await shard.store('b', [EVENT])
  await shard.complete(['a', 'b'])
  t.equal(await shard.countDifferences(), 0)
  t.equal(await shard.countFacts(), 5)
})

t.test('facts are compared again after events were restored by hand', async (t) => {
  const shard = await openShard(t)
  const { clickhouse } = shard
  await shard.store('a', [EVENT, EVENT])
  await clickhouse.command('CREATE TABLE kept_events AS events')
  t.teardown(() => clickhouse.command('DROP TABLE kept_events'))
  await clickhouse.command('INSERT INTO kept_events SELECT * FROM events')
  await clickhouse.command('TRUNCATE TABLE events')
  await shard.store('a', [EVENT])
  shard.copier({ log: silent })
  await shard.complete(['a'])
  // A comparison that finds nothing is not the last one.
  await checkFactsAgain(clickhouse)
  await shard.complete(['a'])
  await clickhouse.command('INSERT INTO events SELECT * FROM kept_events')
  await checkFactsAgain(clickhouse)
  await shard.complete(['a'])
  t.equal(await shard.countFacts(), 3)
  t.equal(await shard.countDifferences(), 0)
})

t.test('facts are rebuilt however large they are', async (t) => {
  const path = join(await dataFolder(t), 'clickhouse')
  await mkdir(join(path, 'conf.d'), { recursive: true })
  const limit = '<clickhouse><max_table_size_to_drop>1</max_table_size_to_drop></clickhouse>'
  await writeFile(join(path, 'conf.d', 'limit.xml'), limit)
  const shard = await openShard(t, await startClickHouse(t, path))
  await shard.store('a', [EVENT, EVENT])
  shard.copier()
  await shard.complete(['a'])
  await t.rejects(shard.clickhouse.command('TRUNCATE TABLE event_facts'), StoreError, 'ClickHouse has the limit')
  const generation = async () => {
    return (await shard.clickhouse.rows('SELECT max(generation) AS generation FROM facts_state'))[0]
  }
  const before = await generation()
  await requestFacts(shard.clickhouse, 'rebuild', '')
  await shard.complete(['a'])
  t.not(await generation(), before)
  t.equal(await shard.countDifferences(), 0)
})

t.test('questions are answered although a table about facts is damaged, and it is repaired', async (t) => {
  const shard = await openShard(t, await startClickHouse(t))
  const { clickhouse, shards } = shard
  const ids = await shard.store('a', [EVENT, EVENT, EVENT])
  const copier = shard.copier()
  await shard.complete(['a'])
  const edits = new EventEdits(shards, unnoted)
  const edit = async (properties: string) => edits.apply({ projectId: 'a', eventId: ids[0] ?? '', properties })
  await edit('{"edited":true}')
  await shard.complete(['a'])
  await copier.close()
  const count = async () => {
    const questions = new Questions({
      shards,
      barrier: { waitForProject: async () => ({ stored: 0n, pending: 0, deletions: '' }) },
      aliases: { hasAny: async () => false },
      facts: new FactsReader(shards, []),
      limits: { QUERY_TIMEOUT: 60, QUERY_MEMORY: 1 << 30 },
    })
    const range = { from: EVENT.timestamp, to: EVENT.timestamp + 1000, interval: 'none' }
    const question = { kind: 'series', series: [{ event: 'e' }], ...range }
    const { results } = await questions.ask('a', question, new AbortController().signal)
    return (results as { total: number }[])[0]?.total
  }
  t.equal(await count(), 3)
  await clickhouse.command('SYSTEM STOP MERGES')
  const tables = ['facts_progress', 'facts_state', 'event_changes', 'facts_left_out']
  for (const table of ['facts_columns_used', ...tables]) {
    await damageTable(clickhouse, table)
    t.equal(await count(), 3, table)
    if (!['facts_progress', 'facts_state', 'event_changes'].includes(table)) continue
    await until(`${table} to be without the damaged part, which the copier might not read`, async () => {
      const aside = 'SELECT 1 FROM system.detached_parts WHERE table = {table:String}'
      return (await clickhouse.rows(aside, { table })).length > 0
    })
  }
  await requestFacts(clickhouse, 'take_in', 'a')
  const denied = shard.open()
  const command = denied.command.bind(denied)
  denied.command = async (query, ...rest) => {
    if (query.includes('DROP DETACHED')) throw new StoreError(452, 'Setting should not be changed')
    await command(query, ...rest)
  }
  const { log, lines } = keepLog()
  const refused = shard.copier({ clickhouse: denied, log })
  await until('the facts', async () => {
    return await shard.complete(['a']).then(
      () => true,
      () => false,
    )
  })
  await refused.close()
  t.match(JSON.stringify(lines), /detached parts of a table about facts cannot be removed/)
  shard.copier({ log: silent })
  // First several damaged together, then two while they are in use.
  for (const table of [null, 'facts_state', 'event_changes']) {
    if (table !== null) await damageTable(clickhouse, table)
    await until(`facts after damage of ${table}`, async () => {
      // As each question does; a damaged log also fails edits until it is repaired.
      t.equal(await count(), 3, `${table}`)
      await edit(`{"edited":"${table}"}`).catch(() => undefined)
      return await shard.complete(['a']).then(
        () => true,
        () => false,
      )
    })
    t.equal(await edit('{"edited":"again"}'), true)
    await shard.complete(['a'])
    t.equal(await shard.countDifferences(), 0)
    t.equal(await shard.countFacts(), 3)
  }
})

t.test('facts are right after ClickHouse has started without parts of a table about them', async (t) => {
  const path = join(await dataFolder(t), 'clickhouse')
  let engine = await startClickHouse(t, path)
  let shard = await openShard(t, engine)
  let count = 0
  const store = async (n = 5) => {
    count += n
    return await shard.store(
      'a',
      Array.from({ length: n }, () => EVENT),
    )
  }
  const list = async (table: string) => {
    return await shard.clickhouse.rows<{ path: string; last: string }>(
      `SELECT path, max_block_number AS last FROM system.parts
       WHERE database = currentDatabase() AND table = {table:String} AND active`,
      { table },
    )
  }
  const cases: [table: string, accident: string, isAll: boolean][] = [
    ['facts_state', 'whose folder is gone', false],
    ['facts_state', 'whose folder is gone', true],
    ['facts_progress', 'whose folder is gone', false],
    ['facts_progress', 'with damaged checksums', true],
    ['event_changes', 'with damaged checksums', true],
  ]
  for (const [table, accident, isAll] of cases) {
    await shard.clickhouse.command('SYSTEM STOP MERGES')
    const ids = await store()
    const first = shard.copier({ log: silent })
    await shard.complete(['a'])
    await first.close()
    const kept = new Set((isAll ? [] : await list(table)).map(({ path }) => path))
    // Another leader, and another generation.
    const second = shard.copier({ log: silent })
    await requestFacts(shard.clickhouse, 'rebuild', '')
    await shard.complete(['a'])
    await store()
    await shard.complete(['a'])
    await second.close()
    const edits = new EventEdits(shard.shards, unnoted)
    await edits.apply({ projectId: 'a', eventId: ids[0] ?? '', properties: `{"edited":"${table}"}` })
    await edits.close()
    const lost = (await list(table)).filter(({ path }) => !kept.has(path))
    t.ok(lost.length > 0)
    await shard.clickhouse.close()
    await engine.close()
    const happen = ACCIDENTS.find(([name]) => name === accident)?.[1]
    for (const part of lost) await happen?.(part as never)

    engine = await startClickHouse(t, path)
    shard = await openShard(t, engine)
    for (let leader = 1; leader <= 2; leader++) {
      const next = shard.copier({ log: silent })
      await shard.complete(['a'])
      await store()
      await shard.complete(['a'])
      const what = `${table}, ${isAll ? 'all' : 'the latest'} parts ${accident}, leader ${leader}`
      t.equal(await shard.countDifferences(), 0, what)
      t.equal(await shard.countFacts(), count, what)
      const { point } = await readFactsPoint(shard.clickhouse, 'a')
      const late = await shard.clickhouse.rows('SELECT 1 FROM event_facts WHERE step > {step:UInt32}', {
        step: point?.step ?? 0,
      })
      t.strictSame(late, [], 'a reading that is bounded by the step has them all')
      await next.close()
    }
    t.strictSame(await shard.clickhouse.rows("SELECT table FROM system.detached_parts WHERE reason != ''"), [])
  }
})

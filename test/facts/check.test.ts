import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { StoreError } from '../../src/clickhouse/errors.js'
import { logChange } from '../../src/store/event-changes.js'
import { isDiskShort } from '../../src/store/fact-backlog.js'
import { FactCheck } from '../../src/store/fact-check.js'
import { openShard } from './shard.js'

const EVENT = { event: 'e', distinct_id: 'u', timestamp: Date.UTC(2026, 10, 20), properties: '{}' }

t.test('a comparison of projects that are being changed repeats only these, after a pause', async (t) => {
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
      if (copied > 100) throw new StoreError(241, new Error('Memory limit exceeded'))
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

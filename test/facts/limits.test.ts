import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { type ChangeScope, logChange, readOpenChanges } from '../../src/store/event-changes.js'
import { EventEdits } from '../../src/store/event-edits.js'
import { findStepEnd } from '../../src/store/fact-backlog.js'
import { FactLead, LeadLostError } from '../../src/store/fact-lead.js'
import { silent, unnoted } from '../helper.js'
import { openShard } from './shard.js'

function some(count: number, event = 'e') {
  return Array.from({ length: count }, (_, i) => ({
    event,
    distinct_id: `u${i}`,
    timestamp: Date.UTC(2026, 10, 20),
    properties: '{"plan":"pro"}',
  }))
}

t.test('changes of many events, long names and many projects are followed', async (t) => {
  const shard = await openShard(t)
  const { clickhouse } = shard
  const projects = Array.from({ length: 40 }, (_, i) => `project ${i}`)
  const ids = await shard.store('long', some(1_000, 'Product List Viewed From Recommendations '.repeat(4)))
  const replays = Array.from({ length: 3 }, () => shard.skip('replayed', some(1_000)))
  await shard.store('replayed', some(10))
  const stored = new Map<string, string>()
  for (const project of projects) stored.set(project, (await shard.store(project, some(1)))[0] ?? '')
  const copier = shard.copier()
  await shard.complete(['long', 'replayed', projects.at(-1) ?? ''])
  await copier.close()

  const scopes = new Map([['long', { kind: 'events' as const, ids }]])
  await logChange(clickhouse, scopes, async () => {
    await clickhouse.command(`UPDATE events SET properties = '{"plan":"free"}' WHERE project_id = 'long'`)
  })
  for (const replay of replays) await replay()
  const several = new Map<string, ChangeScope>()
  for (const [project, id] of stored) several.set(project, { kind: 'events', ids: [id] })
  await logChange(clickhouse, several, async () => {
    await clickhouse.command(`UPDATE events SET properties = '{"plan":"none"}' WHERE project_id LIKE 'project %'`)
  })
  shard.copier()
  await shard.complete(['long', 'replayed', projects.at(-1) ?? ''])
  t.equal(await shard.countDifferences(), 0)
  t.equal(await shard.countFacts(), 4_050)
})

t.test('new events are copied while others are edited all the time', async (t) => {
  const shard = await openShard(t)
  const ids = await shard.store('edited', some(50))
  shard.copier()
  await shard.complete(['edited'])
  const edits = new EventEdits(shard.shards, unnoted)
  let isOver = false
  const editing = [0, 1].map(async (first) => {
    for (let i = first; !isOver; i += 2) {
      await edits.apply({ projectId: 'edited', eventId: ids[i % ids.length] ?? '', properties: `{"n":${i}}` })
    }
  })
  await shard.store('new', some(50))
  let copied = '0'
  for (const deadline = performance.now() + 10_000; copied !== '50' && performance.now() < deadline; await wait(50)) {
    const sql = "SELECT count() AS count FROM event_facts WHERE project_id = 'new'"
    copied = (await shard.clickhouse.rows<{ count: string }>(sql))[0]?.count ?? ''
  }
  isOver = true
  await Promise.all(editing)
  t.equal(copied, '50')
  await shard.complete(['edited', 'new'])
  t.equal(await shard.countDifferences(), 0)
})

t.test('a step ends at the last event that fits, or with a month that has events', async (t) => {
  const { clickhouse } = await openShard(t)
  const idAt = (day: string) => BigInt(Date.parse(day)) << 80n
  const toUuid = (id: bigint) =>
    id
      .toString(16)
      .padStart(32, '0')
      .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
  const days = ['2025-01-05', '2025-01-31T23:59:59.999', '2025-04-01', '2025-04-02', '2025-04-03']
  const ids = days.map((day) => idAt(`${day.padEnd(23, 'T00:00:00.000')}Z`))
  const rows = ids.map((id) => `('p', '${toUuid(id)}', 'e', 'u', 0, 0, '{}', '')`)
  await clickhouse.command(
    `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties, insert_id) VALUES
     ${rows}, ('other', '${toUuid(idAt('2025-02-01'))}', 'e', 'u', 0, 0, '{}', '')`,
  )
  const hi = idAt('2025-05-01')
  const find = async (lo: bigint, to = hi) => {
    const end = await findStepEnd(clickhouse, { projectId: 'p', lo, hi: to }, { rows: 2, bytes: 100 })
    return end && [ids.indexOf(end.hi), end.rows]
  }
  t.strictSame(await find(0n), [1, 2])
  t.strictSame(await find(ids[0] ?? 0n), [1, 1], 'the month ends')
  t.strictSame(await find(ids[1] ?? 0n), [3, 2], 'without months between that have none')
  t.strictSame(await find(ids[1] ?? 0n, ids[2]), [2, 1])
  t.strictSame(await find(ids[3] ?? 0n), [4, 1])
  t.equal(await find(ids[4] ?? 0n), null)
  t.equal(await find(ids[1] ?? 0n, idAt('2025-03-31')), null)
})

t.test('a restarted copier does not count the events in facts', async (t) => {
  const shard = await openShard(t)
  await shard.store('a', some(500))
  const first = shard.copier()
  await shard.complete(['a'])
  await first.close()
  await shard.store('a', some(7))
  await shard.store('b', some(5))
  const next = shard.copier({
    journals: [{ depth: async () => ({ bytes: 0 }), listen: () => () => undefined }] as never,
  })
  let most = 0
  for (const deadline = performance.now() + 5_000; performance.now() < deadline; await wait(1)) {
    most = Math.max(most, next.waiting ?? 0)
    if (most > 0 && next.waiting === 0) break
  }
  t.ok(most > 0 && most <= 12, `${most}`)
})

t.test('a replaced leader finds out even if all changes are in projects without facts', async (t) => {
  const { clickhouse } = await openShard(t)
  const take = async () => {
    const options = { process: randomUUID(), isShared: false, log: silent, signal: new AbortController().signal }
    const lead = await FactLead.take(clickhouse, options)
    if (!lead) throw new Error('another process leads')
    return lead
  }
  const old = await take()
  const lead = await take()
  await logChange(clickhouse, new Map([['a', { kind: 'users', users: [] }]]), async () => undefined)
  const changes = await readOpenChanges(clickhouse)
  await t.rejects(old.follow(changes), LeadLostError)
  t.equal((await readOpenChanges(clickhouse)).length, 1)
  t.equal(await lead.follow(changes), 1)
  t.equal((await readOpenChanges(clickhouse)).length, 0)
})

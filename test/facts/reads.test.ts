import { randomUUID } from 'node:crypto'
import t from 'tap'
import { Shards } from '../../src/clickhouse/shards.js'
import { type FactsPoint, FactsReader } from '../../src/reads/facts-reader.js'
import { forgetSettledChanges, logChange } from '../../src/store/event-changes.js'
import { EventEdits } from '../../src/store/event-edits.js'
import { deleteEventsOfUsers } from '../../src/store/events.js'
import { unnoted, until } from '../helper.js'
import { openShard } from './shard.js'

const PROJECT = 'a'
const ROUNDS = 4
const STORED_TOGETHER = 20
const USERS = 40

/** The versions that a reader must find: by id, the lowest that it may see. */
interface Expected {
  alive: Map<string, number>
  /** ids that no reader may see any more */
  gone: Set<string>
}

t.test('a read at a point has all events, even while they are copied and changed', async (t) => {
  const shard = await openShard(t)
  const { clickhouse } = shard
  const reader = new FactsReader(shard.shards, [])
  const edits = new EventEdits(shard.shards, unnoted)
  const model: Expected = { alive: new Map(), gone: new Set() }
  const userOf = new Map<string, string>()
  /** being deleted, so a reader may see them or not */
  const leaving = new Set<string>()
  let isWriting = true
  const seen = { points: 0, bounded: 0, unbounded: 0, alone: 0, closed: 0 }

  const store = async (round: number) => {
    const events = Array.from({ length: STORED_TOGETHER }, (_, i) => ({
      event: `e${i % 3}`,
      distinct_id: `u${(round * STORED_TOGETHER + i) % USERS}`,
      timestamp: Date.UTC(2026, 10, 1 + (i % 28)),
      properties: '{"v":1}',
    }))
    const ids = await shard.store(PROJECT, events)
    for (const [i, id] of ids.entries()) {
      userOf.set(id, events[i]?.distinct_id ?? '')
      model.alive.set(id, 1)
    }
  }
  const remove = async (ids: string[], run: () => Promise<unknown>) => {
    for (const id of ids) leaving.add(id)
    await run()
    for (const id of ids) {
      model.alive.delete(id)
      model.gone.add(id)
    }
  }
  const change = async (round: number) => {
    const ids = [...model.alive.keys()].filter((id) => !leaving.has(id))
    const [edited = '', deleted = ''] = [ids[round % ids.length], ids[(7 * round + 3) % ids.length]]
    if (edited === deleted) return
    const properties = `{"v":${round + 2}}`
    await edits.apply({ projectId: PROJECT, eventId: edited, properties })
    model.alive.set(edited, round + 2)
    await remove([deleted], () => edits.apply({ projectId: PROJECT, eventId: deleted, properties: null }))
  }
  const erase = async (round: number) => {
    const user = `u${(11 * round) % USERS}`
    const ids = [...model.alive.keys()].filter((id) => userOf.get(id) === user)
    await remove(ids, () => deleteEventsOfUsers(clickhouse, PROJECT, [user]))
  }

  const read = async (point: FactsPoint, isBounded: boolean) => {
    const rows = await clickhouse.rows<{ id: string; v: string }>(
      `SELECT toString(event_id) AS id, JSONExtractRaw(properties, 'v') AS v FROM event_facts
       WHERE project_id = {project:String} ${isBounded ? 'AND step <= {step:UInt32}' : ''}
       ${
         point.hasLater
           ? `UNION ALL SELECT toString(event_id) AS id, JSONExtractRaw(properties, 'v') AS v FROM events
              WHERE project_id = {project:String} AND toUInt128(event_id) > {hi:UInt128}`
           : ''
       }`,
      { project: PROJECT, step: point.shards[0]?.step ?? 0, hi: String(point.shards[0]?.hi) },
    )
    return (await reader.stillHolds(PROJECT, point, isBounded)) ? rows : null
  }
  const check = async (isBounded: boolean) => {
    const before = new Map(model.alive)
    const gone = new Set(model.gone)
    const point = await reader.point(PROJECT, shard.appended)
    if (!point) {
      seen.closed++
      return
    }
    const rows = await read(point, isBounded || point.isStepping)
    if (!rows) return
    seen.points++
    seen[isBounded || point.isStepping ? 'bounded' : 'unbounded']++
    if (!point.hasLater) seen.alone++
    const found = new Map(rows.map(({ id, v }) => [id, Number(v)]))
    const faults = [
      ...(found.size === rows.length ? [] : [`${rows.length - found.size} rows are duplicates`]),
      ...[...before].flatMap(([id, version]) => {
        if (leaving.has(id)) return []
        return (found.get(id) ?? 0) >= version ? [] : [`${id} is ${found.get(id)}, not ${version}`]
      }),
      ...[...gone].filter((id) => found.has(id)).map((id) => `${id} was returned although it was deleted`),
    ]
    if (faults.length > 0) t.strictSame(faults, [], JSON.stringify({ point: String(point.shards[0]?.hi), isBounded }))
  }

  await store(0)
  shard.copier({ maxStep: { rows: 30, bytes: 1_000_000 } })
  await shard.complete([PROJECT])
  const readers = [true, false].map(async (isBounded) => {
    while (isWriting) await check(isBounded)
  })
  for (let round = 1; round <= ROUNDS; round++) {
    await Promise.all([store(round), change(round)])
    if (round % 3 === 0) await erase(round)
    const { points } = seen
    await until('a reading of facts', () => seen.points > points)
  }
  isWriting = false
  await Promise.all(readers)
  await shard.complete([PROJECT])
  // The second point is known to have everything, because nothing was accepted since the first.
  for (const isBounded of [true, false, true, false]) await check(isBounded)
  t.equal(await shard.countDifferences(), 0)
  t.equal(await shard.countFacts(), model.alive.size)
  t.ok(seen.bounded > 0 && seen.unbounded > 0 && seen.alone > 0, JSON.stringify(seen))
})

t.test('a change is noticed even after it is forgotten', async (t) => {
  const shard = await openShard(t)
  const { clickhouse } = shard
  const [id = ''] = await shard.store(PROJECT, [
    { event: 'e', distinct_id: 'u', timestamp: Date.UTC(2026, 10, 1), properties: '{"v":1}' },
  ])
  shard.copier()
  await shard.complete([PROJECT])
  const edits = new EventEdits(shard.shards, unnoted)
  // The first change of a project, and a later one.
  for (let round = 2; round < 4; round++) {
    const reader = new FactsReader(shard.shards, [])
    const point = await reader.point(PROJECT, shard.appended)
    if (!point) throw new Error('there is no point')
    t.ok(await reader.stillHolds(PROJECT, point, true))
    await edits.apply({ projectId: PROJECT, eventId: id, properties: `{"v":${round}}` })
    await edits.close()
    await shard.complete([PROJECT])
    const settings = { mutations_sync: '2' }
    await clickhouse.command('ALTER TABLE event_changes UPDATE noted_at = noted_at - 3600 WHERE 1', {}, settings)
    await forgetSettledChanges(clickhouse)
    const kinds = await clickhouse.rows("SELECT DISTINCT kind FROM event_changes WHERE kind != 'forgotten'")
    t.strictSame(kinds, [], 'it is forgotten')
    t.notOk(await reader.stillHolds(PROJECT, point, true))
  }
})

t.test('a point does not hold once the shards have another order', async (t) => {
  const shard = await openShard(t)
  const shards = new Shards([0, 1].map((number) => ({ ...shard.shards.at(0), number })))
  let order = [0, 1]
  shards.rows = async <Row>() => order.map((number) => ({ number })) as Row[]
  await shard.store(PROJECT, [{ event: 'e', distinct_id: 'u', timestamp: 1, properties: '{}' }])
  shard.copier()
  await shard.complete([PROJECT])
  const reader = new FactsReader(shards, [])
  for (const next of [
    [1, 0],
    [0, 1],
  ]) {
    const point = await reader.point(PROJECT, shard.appended)
    if (!point) throw new Error('there is no point')
    t.strictSame(point.order, order)
    t.ok(await reader.stillHolds(PROJECT, point, true))
    order = next
    t.notOk(await reader.stillHolds(PROJECT, point, true))
  }
})

t.test('a point is reused for a second, and later changes are noticed', async (t) => {
  const shard = await openShard(t)
  const reader = new FactsReader(shard.shards, [])
  const event = { event: 'e', distinct_id: 'u', timestamp: Date.UTC(2026, 10, 1), properties: '{"v":1}' }
  const [id = ''] = await shard.store(PROJECT, [event])
  const copier = shard.copier()
  await shard.complete([PROJECT])
  const first = await reader.point(PROJECT, shard.appended)
  if (!first) throw new Error('there is no point')
  t.notOk(first.hasLater)
  t.ok(await reader.stillHolds(PROJECT, first, false))
  const again = await reader.point(PROJECT, shard.appended)
  t.equal(again?.shards, first.shards, 'nothing is read')
  t.notOk(again?.hasLater)
  t.ok((await reader.point(PROJECT))?.hasLater, 'nobody knows what was accepted')

  await copier.close()
  await shard.store(PROJECT, [event])
  // On a slow machine, this one is read anew.
  const later = await reader.point(PROJECT, shard.appended)
  if (!later) throw new Error('there is no later point')
  t.equal(later.shards[0]?.hi, first.shards[0]?.hi)
  t.ok(later.hasLater)

  await new EventEdits(shard.shards, unnoted).apply({ projectId: PROJECT, eventId: id, properties: '{"v":2}' })
  t.notOk(await reader.stillHolds(PROJECT, later, true))
  t.equal(await reader.point(PROJECT, shard.appended), null, 'the edit is waited for, and the copier is closed')
  shard.copier()
  await shard.complete([PROJECT])
  const next = await reader.point(PROJECT, shard.appended)
  t.not(next?.shards[0]?.changes, first.shards[0]?.changes)
  t.notOk(next?.hasLater)
})

t.test('an edit that finds no event leaves the facts open', async (t) => {
  const shard = await openShard(t)
  const event = { event: 'e', distinct_id: 'u', timestamp: Date.UTC(2026, 10, 1), properties: '{"v":1}' }
  const [id = ''] = await shard.store(PROJECT, [event])
  const copier = shard.copier()
  await shard.complete([PROJECT])
  await copier.close()
  const edits = new EventEdits(shard.shards, unnoted)
  const unknown = { projectId: PROJECT, eventId: randomUUID() }
  // A reader that remembers no point.
  const point = () => new FactsReader(shard.shards, []).point(PROJECT)
  for (const properties of ['{}', null]) {
    t.notOk(await edits.apply({ ...unknown, properties }))
    await until('open facts', async () => (await point()) !== null)
  }
  // The same during an edit that finds its event.
  const edited = await Promise.all([
    edits.apply({ ...unknown, properties: '{}' }),
    edits.apply({ projectId: 'b', eventId: id, properties: '{}' }),
    edits.apply({ projectId: PROJECT, eventId: id, properties: '{}' }),
  ])
  t.strictSame(edited, [false, false, true])
  t.equal(await point(), null)
})

t.test('a reader that waits for a change stops waiting when its client is gone', async (t) => {
  const shard = await openShard(t)
  const event = { event: 'e', distinct_id: 'u', timestamp: Date.UTC(2026, 10, 1), properties: '{"v":1}' }
  const ids = await shard.store(PROJECT, [event])
  shard.copier()
  await shard.complete([PROJECT])
  const client = new AbortController()
  await logChange(shard.clickhouse, new Map([[PROJECT, { kind: 'events', ids }]]), async () => {
    const waiting = new FactsReader(shard.shards, []).point(PROJECT, null, client.signal)
    client.abort()
    await t.rejects(waiting, { name: 'StoreUnreachableError' })
  })
})

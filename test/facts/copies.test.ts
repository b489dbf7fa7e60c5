import t from 'tap'
import { parseEventId } from '../../src/model/event-id.js'
import { deleteEventsOfBatches } from '../../src/store/batches.js'
import { EventEdits } from '../../src/store/event-edits.js'
import { deleteEventsBefore, deleteEventsOfUsers } from '../../src/store/events.js'
import { unnoted, until } from '../helper.js'
import { openShard, type StoredEvent } from './shard.js'

const DAY_MS = 86_400_000
const NOW = Date.UTC(2026, 10, 20)

function events(count: number, properties = '{"plan":"pro","n":1.50}'): StoredEvent[] {
  return Array.from({ length: count }, (_, i) => ({
    event: `event ${i % 3}`,
    distinct_id: `user ${i % 7}`,
    timestamp: NOW - (i % 90) * DAY_MS,
    properties,
  }))
}

/** The batch of an event. */
function toBatch([id = '']: readonly string[]) {
  const place = parseEventId(id)
  if (!place) throw new Error('no such event')
  return { position: place.position, journalId: place.journalId }
}

t.test('facts match the events, whatever happens to them', async (t) => {
  const shard = await openShard(t)
  const { clickhouse } = shard
  const ids = await shard.store('a', events(300))
  await shard.store('b', events(20))
  shard.copier()
  await shard.complete(['a', 'b'])
  t.equal(await shard.countFacts(), 320)
  t.equal(await shard.countDifferences(), 0)

  const settled = async (title: string, count: number) => {
    await shard.complete(['a', 'b'])
    t.equal(await shard.countDifferences(), 0, title)
    t.equal(await shard.countFacts(), count, title)
  }
  const edits = new EventEdits(shard.shards, unnoted)
  const edit = (i: number, properties: string | null) =>
    edits.apply({ projectId: 'a', eventId: ids[i] ?? '', properties })
  t.strictSame(await Promise.all([edit(0, '{"plan":"free"}'), edit(1, '{"new":[1,2]}'), edit(2, null)]), [
    true,
    true,
    true,
  ])
  await settled('after edits and a delete', 319)
  const [changed] = await clickhouse.rows<{ plan: string }>(
    "SELECT JSONExtractRaw(properties, 'plan') AS plan FROM event_facts WHERE event_id = {id:UUID}",
    { id: ids[0] ?? '' },
  )
  t.strictSame(changed, { plan: '"free"' })

  const more = await shard.store('a', events(50))
  await settled('after more events', 369)
  const wrong = await shard.store('a', events(30))
  await settled('after a wrong import', 399)
  await deleteEventsOfBatches(shard.shards, 'a', [toBatch(wrong), { ...toBatch(more), journalId: 1 }], unnoted)
  await settled('after it was undone', 369)
  await deleteEventsOfUsers(clickhouse, 'a', ['user 3'])
  const left = 369 - 43 - 7
  await settled('after a user was erased', left)
  const replay = shard.skip('b', events(5, '{"late":true}'))
  await shard.store('b', events(1))
  await settled('with a dead letter', left + 1)
  await replay()
  await settled('after it was replayed', left + 6)
  await deleteEventsBefore(clickhouse, 'a', NOW - 30 * DAY_MS)
  await shard.complete(['a', 'b'])
  t.equal(await shard.countDifferences(), 0, 'after events expired')
  t.equal(await deleteEventsBefore(clickhouse, 'b', null), 26)
  await shard.complete(['a', 'b'])
  t.equal(await shard.countDifferences(), 0, 'after a project was erased')
  const open = await clickhouse.rows('SELECT 1 FROM event_changes FINAL WHERE state < 3')
  t.strictSame(open, [], 'nothing waits')
})

t.test('a project with many events takes turns with the others, in steps of a limited size', async (t) => {
  const shard = await openShard(t)
  await shard.store('large', events(500))
  await shard.store('large', events(500))
  for (const name of ['x', 'y', 'z']) await shard.store(name, events(10))
  shard.copier({ maxStep: { rows: 300, bytes: 1_000_000 } })
  await shard.complete(['large', 'x', 'y', 'z'])
  t.equal(await shard.countDifferences(), 0)
  const steps = await shard.clickhouse.rows<{ count: string }>(
    'SELECT count() AS count FROM event_facts GROUP BY step ORDER BY step',
  )
  t.ok(
    steps.every(({ count }) => Number(count) <= 300),
    JSON.stringify(steps),
  )
})

t.test('with facts turned off, existing ones are removed, and changes are settled', async (t) => {
  const shard = await openShard(t)
  const ids = await shard.store('a', events(10))
  const copier = shard.copier()
  await shard.complete(['a'])
  await copier.close()
  shard.copier({ isOn: false })
  await until('no facts', async () => (await shard.countFacts()) === 0)
  await new EventEdits(shard.shards, unnoted).apply({ projectId: 'a', eventId: ids[0] ?? '', properties: null })
  await until('the change', async () => {
    const open = await shard.clickhouse.rows('SELECT 1 FROM event_changes FINAL WHERE state < 3')
    return open.length === 0
  })
  t.equal(await shard.countFacts(), 0)
})

t.test('one of several processes copies, until another one takes over', async (t) => {
  const shard = await openShard(t)
  let running = [0, 1, 2].map(() => shard.copier({ isShared: true }))
  for (let stored = 10; running.length > 0; stored += 10) {
    await shard.store('a', events(10))
    await shard.complete(['a'])
    t.equal(await shard.countDifferences(), 0)
    t.equal(await shard.countFacts(), stored)
    const leading = running.filter(({ waiting }) => waiting !== null)
    t.equal(leading.length, 1)
    await leading[0]?.close()
    running = running.filter((copier) => !leading.includes(copier))
  }
})

t.test('a leader that knows fewer events than its predecessor does not remove facts', async (t) => {
  const shard = await openShard(t)
  const { appended: before } = shard
  await shard.store('a', events(10))
  const first = shard.copier()
  await shard.complete(['a'])
  await first.close()
  await shard.store('a', events(5))

  let known = before
  let looks = 0
  const reach = async () => {
    looks++
    return { accepted: known ?? 0n, stored: known ?? 0n }
  }
  shard.copier({ barrier: { reach } })
  await until('a look, and what follows from it', () => looks >= 2)
  t.equal(await shard.countDifferences(), 0)
  known = shard.appended
  await shard.complete(['a'])
  t.equal(await shard.countFacts(), 15)
  t.equal(await shard.countDifferences(), 0)
})

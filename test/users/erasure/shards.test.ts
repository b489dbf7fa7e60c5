import t, { type Test } from 'tap'
import { ClickHouse } from '../../../src/clickhouse/client.js'
import { migrate } from '../../../src/clickhouse/migrate.js'
import { Shards } from '../../../src/clickhouse/shards.js'
import { replayDeadLetter } from '../../../src/ingest/replay.js'
import type { Entry } from '../../../src/journal/journal.js'
import { chooseLane } from '../../../src/model/choose-lane.js'
import { formatEventId } from '../../../src/model/event-id.js'
import { parseProperties } from '../../../src/model/properties.js'
import { toStateKey } from '../../../src/model/state-key.js'
import { eraseFromDeadLetters } from '../../../src/store/dead-letter-erasure.js'
import {
  countDeadLetters,
  insertDeadLetter,
  readDeadLetterBody,
  readDeadLetters,
} from '../../../src/store/dead-letters.js'
import { readDisks } from '../../../src/store/disks.js'
import { EventEdits } from '../../../src/store/event-edits.js'
import { deleteEventsOfUsers, insertEvents } from '../../../src/store/events.js'
import { recordLayout } from '../../../src/store/layouts.js'
import { PROFILES } from '../../../src/store/profiles.js'
import { Purge } from '../../../src/users/erasure/purge.js'
import { freePort, silent, startClickHouse, unnoted } from '../../helper.js'

const engine = await startClickHouse(t)
const { signal } = new AbortController()

/** Databases of one engine, each as a shard; a view replaces the table over all shards. */
async function openShards(t: Test, name: string, count: number): Promise<Shards> {
  const shards = new Shards(
    Array.from({ length: count }, (_, number) => {
      const clickhouse = new ClickHouse({ url: engine.url.replace(/analytics$/, `${name}${number}`) })
      return { number, name: `${name}${number}:8123`, clickhouse }
    }),
  )
  t.teardown(() => shards.close())
  await shards.each(({ clickhouse }) => migrate(clickhouse))
  const all = shards.all.map(({ clickhouse }) => `SELECT * FROM ${clickhouse.database}.events`).join(' UNION ALL ')
  await shards.each(({ clickhouse }) => clickhouse.command(`CREATE VIEW events_all AS ${all}`))
  return shards
}

/** The same store, but one of its shards is down. */
async function withoutShard(t: Test, { all }: Shards, down: number): Promise<Shards> {
  const clickhouse = new ClickHouse({ url: `http://127.0.0.1:${await freePort()}/none` })
  t.teardown(() => clickhouse.close())
  return new Shards(all.map((shard) => (shard.number === down ? { ...shard, clickhouse } : shard)))
}

function purgeOf(t: Test, shards: Shards): Purge {
  const purge = new Purge({ shards, barrier: { waitForAll: async () => 0n }, log: silent, intervalMs: 0 })
  t.teardown(() => purge.close())
  return purge
}

const MINUTE = BigInt(Date.UTC(2026, 3, 1)) << 16n

function entryAt(position: bigint, ...names: string[]): Entry {
  const events = names.map((distinct_id) => ({ event: 'e', distinct_id }))
  const body = Buffer.from(JSON.stringify({ events }))
  return { position, kind: 'events', projectId: 'p', count: events.length, receivedAt: Number(position >> 16n), body }
}

const ids = async ({ clickhouse }: { clickhouse: ClickHouse }) =>
  (
    await clickhouse.rows<{ id: string }>(
      'SELECT toString(event_id) AS id FROM events ORDER BY toUInt128(event_id) SETTINGS apply_deleted_mask = 0',
    )
  ).map(({ id }) => id)

const DOWN = { name: 'ShardUnreachableError', message: /^Shard 1 \(.+1:8123\) of the store is unavailable/ }

t.test('each shard is purged separately, and one that is down does not stop the others', async (t) => {
  const shards = await openShards(t, 'purge', 3)
  await shards.each(async (shard) => {
    await insertEvents(shard.clickhouse, 7, [entryAt(MINUTE, 'ada', 'bob')], 'token', signal)
    const [eventId = ''] = await ids(shard)
    await new EventEdits(Shards.of(shard.clickhouse), unnoted).apply({ projectId: 'p', eventId, properties: null })
  })
  const profile = (shard: number, values: string) =>
    shards
      .at(shard)
      .clickhouse.command(
        `INSERT INTO profiles (project_id, distinct_id, properties, created_at, updated_at, version, is_deleted) VALUES ${values}`,
      )
  // The lane of ada has been on each of the shards, the lane of bob on two.
  await profile(0, `('p', 'ada', '{"first":1}', 1, 1, 1, 0), ('p', 'eve', '{}', 1, 1, 1, 0)`)
  await profile(1, `('p', 'ada', '{"second":1}', 1, 2, 2, 0), ('p', 'bob', '{"first":1}', 1, 1, 1, 0)`)
  await profile(2, `('p', 'ada', '', 0, 0, 3, 1), ('p', 'bob', '', 0, 0, 3, 1)`)
  const counts = () => shards.each(async (shard) => (await ids(shard)).length)
  const versions = () =>
    shards.each(async ({ clickhouse }) => {
      const rows = await clickhouse.rows<{ row: string }>(
        "SELECT concat(distinct_id, ' ', toString(version)) AS row FROM profiles ORDER BY ALL",
      )
      return rows.map(({ row }) => row)
    })

  await t.rejects(purgeOf(t, await withoutShard(t, shards, 1)).now('p'), DOWN)
  t.strictSame(await counts(), [1, 2, 1])
  t.strictSame(await versions(), [['eve 1'], ['ada 2', 'bob 1'], ['ada 3', 'bob 3']])

  const before = Date.now()
  const goneAt = await purgeOf(t, shards).now('p')
  t.ok(goneAt >= before)
  t.strictSame(await counts(), [1, 1, 1])
  t.strictSame(await versions(), [['eve 1'], [], ['ada 3', 'bob 3']], 'the deletion stayed noted until all were done')
})

t.test('dead letters of all shards are one list, and each is replayed on its shard', async (t) => {
  const shards = await openShards(t, 'letters', 3)
  const letter = (shard: number, journal: number, minute: number, ...names: string[]) =>
    insertDeadLetter(
      shards.at(shard).clickhouse,
      journal,
      entryAt(MINUTE + BigInt(minute), ...names),
      `a reason: ${names}`,
      `letter ${minute}`,
    )
  await letter(1, 71, 1, 'ada', 'bob')
  await letter(0, 70, 2, 'ada')
  await letter(2, 72, 2, 'bob')
  await letter(1, 71, 3, 'eve')
  const listed = async (shards: Shards, page: Parameters<typeof readDeadLetters>[1]) =>
    (await readDeadLetters(shards, page)).map(({ shard, position }) => [shard.number, Number(position - MINUTE)])
  const all = [
    [1, 1],
    [0, 2],
    [2, 2],
    [1, 3],
  ]
  t.strictSame(await listed(shards, { limit: 10 }), all, 'by position, then by journal')
  t.strictSame(await listed(shards, { limit: 2 }), all.slice(0, 2))
  const [, second] = await readDeadLetters(shards, { limit: 2 })
  t.strictSame(await listed(shards, { limit: 10, ...(second && { after: second }) }), all.slice(2))
  t.strictSame(await listed(shards, { limit: 10, at: [MINUTE + 2n] }), all.slice(1, 3))
  t.equal(await countDeadLetters(shards), 4)
  const broken = await withoutShard(t, shards, 1)
  await t.rejects(readDeadLetters(broken, { limit: 10 }), DOWN)

  await t.rejects(eraseFromDeadLetters(broken, 'p', new Set(['bob'])), DOWN)
  const { erased } = await eraseFromDeadLetters(shards, 'p', new Set(['bob']))
  t.strictSame(Object.fromEntries(erased), { bob: 1 }, 'that of shard 2 went in the interrupted call')
  t.strictSame(await listed(shards, { limit: 10 }), [...all.slice(0, 2), ...all.slice(3)])

  const [first, other] = await readDeadLetters(shards, { limit: 2 })
  if (!first || !other) throw new Error('there are two')
  let body = ''
  for await (const chunk of await readDeadLetterBody(first)) body += chunk
  t.match(body, /"ada".*"distinct_id":""/)
  const replay = () => replayDeadLetter(shards, first, 1)
  t.strictSame(await Promise.all([replay(), replay()]), [{ isStored: true }, { isStored: true }])
  const stored = () => shards.each(async ({ clickhouse }) => clickhouse.rows('SELECT distinct_id FROM events'))
  t.strictSame(await stored(), [[], [{ distinct_id: 'ada' }], []])
  // As after a move of the whole store, where an interrupted replay had already stored it.
  await insertEvents(shards.at(2).clickhouse, 70, [entryAt(other.position, 'ada')], 'moved', signal)
  t.strictSame(await replayDeadLetter(shards, other, 2), { isStored: true })
  t.strictSame(await stored(), [[], [{ distinct_id: 'ada' }], [{ distinct_id: 'ada' }]], 'once, on whichever shard')
  t.strictSame(await listed(shards, { limit: 10 }), all.slice(3))
})

t.test('states of a dead letter on another shard are stored where they are looked up', async (t) => {
  const shards = await openShards(t, 'states', 3)
  await recordLayout(shards.first, { version: 1, lanes: 3, shards: 3, state: 'active' }, 1)
  const names = Array.from({ length: 12 }, (_, i) => `user ${i}`)
  const row = (name: string) =>
    PROFILES.row('p', name, { properties: parseProperties('{}'), createdAt: 1, updatedAt: 1 })
  const body = Buffer.from(names.map(row).join(','))
  const entry: Entry = { position: MINUTE, kind: 'profiles', projectId: '', count: 1, receivedAt: 1, body }
  // As after the import of a whole store.
  await insertDeadLetter(shards.first, 70, entry, 'a reason', 'letter')
  const [letter] = await readDeadLetters(shards, { limit: 1 })
  if (!letter) throw new Error('there is one')
  t.strictSame(await replayDeadLetter(shards, letter, 1), { isStored: true })
  const found = await shards.each(async ({ clickhouse }) => {
    const rows = await clickhouse.rows<{ distinct_id: string }>('SELECT distinct_id FROM profiles')
    return rows.map(({ distinct_id }) => distinct_id).sort()
  })
  const wanted = [0, 1, 2].map((number) =>
    names.filter((name) => chooseLane(toStateKey('profiles', 'p', name), 3) === number).sort(),
  )
  t.strictSame(found, wanted)
  t.ok(wanted.every(({ length }) => length > 0))
})

t.test('an event that is deleted on another shard than its dead letter leaves that, too', async (t) => {
  const shards = await openShards(t, 'away', 3)
  const entry = entryAt(MINUTE, 'ada', 'bob')
  // As after the import of a whole store.
  await insertDeadLetter(shards.first, 70, entry, 'a reason', 'letter')
  await insertEvents(shards.at(2).clickhouse, 70, [entry], 'moved', signal)
  const [letter] = await readDeadLetters(shards, { limit: 1 })
  if (!letter) throw new Error('there is one')
  t.strictSame(await replayDeadLetter(shards, letter, 1), { isStored: true })
  const edits = new EventEdits(shards, unnoted)
  t.teardown(() => edits.close())
  const eventId = formatEventId({ position: MINUTE, index: 0, journalId: 70 })
  t.ok(await edits.apply({ projectId: 'p', eventId, properties: null }))
  let body = ''
  for await (const chunk of await readDeadLetterBody(letter)) body += chunk
  t.notMatch(body, /ada/)
  t.match(body, /bob/)
})

t.test('a replay that died after its INSERT leaves nothing of users who were erased meanwhile', async (t) => {
  const shards = await openShards(t, 'died', 2)
  const letters = [entryAt(MINUTE, 'ada', 'bob', 'eve'), entryAt(MINUTE + 1n, 'bob')]
  for (const entry of letters) {
    await insertDeadLetter(shards.first, 70, entry, 'a reason', `letter ${entry.position}`)
  }
  const [some, own] = await readDeadLetters(shards, { limit: 2 })
  if (!some || !own) throw new Error('there are two')
  await eraseFromDeadLetters(shards, 'p', new Set(['bob']))
  // The INSERTs of the replays arrived after the erasure.
  for (const entry of letters) await insertEvents(shards.at(1).clickhouse, 70, [entry], `${entry.position}`, signal)
  const users = async () => {
    const rows = await shards.first.rows<{ distinct_id: string }>('SELECT distinct_id FROM events_all ORDER BY ALL')
    return rows.map(({ distinct_id }) => distinct_id)
  }
  t.strictSame(await users(), ['ada', 'bob', 'bob', 'eve'])
  for (const letter of [some, own]) {
    t.strictSame(await replayDeadLetter(shards, letter, 1), { isStored: true })
  }
  t.strictSame(await users(), ['ada', 'eve'])
})

t.test('a replay never stores anything at the places of erased events', async (t) => {
  const shards = await openShards(t, 'places', 1)
  await insertDeadLetter(shards.first, 70, entryAt(MINUTE, 'ada', 'bob', 'eve'), 'a reason', 'letter')
  await eraseFromDeadLetters(shards, 'p', new Set(['bob']))
  const [letter] = await readDeadLetters(shards, { limit: 1 })
  if (!letter) throw new Error('there is one')
  t.strictSame(await replayDeadLetter(shards, letter, 1), { isStored: true })
  t.strictSame(
    await ids(shards.at(0)),
    [0, 2].map((index) => formatEventId({ position: MINUTE, index, journalId: 70 })),
    'nor is there anything to be purged',
  )
})

t.test('a replay does not restore events that were deleted after an interrupted replay', async (t) => {
  const shards = await openShards(t, 'deleted', 2)
  const entry = entryAt(MINUTE, 'ada')
  await insertDeadLetter(shards.first, 70, entry, 'a reason', 'letter')
  // On a shard that does not know the token of the INSERT.
  await insertEvents(shards.at(1).clickhouse, 70, [entry], 'replay', signal)
  await deleteEventsOfUsers(shards.at(1).clickhouse, 'p', ['ada'])
  const [letter] = await readDeadLetters(shards, { limit: 1 })
  if (!letter) throw new Error('there is one')
  t.strictSame(await replayDeadLetter(shards, letter, 1), { isStored: true })
  t.strictSame(await shards.first.rows('SELECT distinct_id FROM events_all'), [])
})

t.test('the disks of the other shards are known while one shard is down', async (t) => {
  const shards = await withoutShard(t, await openShards(t, 'disks', 2), 1)
  const disks = await readDisks(shards, signal)
  t.match(disks, [{ isUp: true, disks: [{ name: 'default', freeBytes: Number, totalBytes: Number }] }, { isUp: false }])
  t.strictSame(disks[1]?.disks, [])
})

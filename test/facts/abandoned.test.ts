import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { FactsReader } from '../../src/reads/facts-reader.js'
import { type ChangeScope, hashUsers, logChange, type RunningChange } from '../../src/store/event-changes.js'
import { until } from '../helper.js'
import { openShard } from './shard.js'

const ERASE = "DELETE FROM events WHERE project_id = 'a' AND distinct_id = 'u1'"
const NOW = Date.UTC(2026, 10, 20)

async function openCopied(t: Test) {
  const shard = await openShard(t)
  const events = Array.from({ length: 100 }, (_, i) => {
    return { event: 'e', distinct_id: `u${i % 5}`, timestamp: NOW, properties: '{"plan":"pro"}' }
  })
  const ids = await shard.store('a', events)
  const first = shard.copier()
  await shard.complete(['a'])
  await first.close()
  const users = await hashUsers(shard.clickhouse, ['u1'])
  const change = (scope: ChangeScope, run: (change: RunningChange) => Promise<void>) =>
    logChange(shard.clickhouse, new Map([['a', scope]]), run)
  return {
    ...shard,
    ids,
    change,
    erase: (run: () => Promise<void>) => change({ kind: 'users', users }, run),
    /** Compares facts with events, once nothing is open. */
    async compare(t: Test, count: number) {
      await shard.complete(['a'])
      t.equal(await shard.countDifferences(), 0)
      t.equal(await shard.countFacts(), count)
      t.not(await new FactsReader(shard.shards, []).point('a'), null, 'facts are read')
    },
  }
}

t.test('a copier that starts waits for changes that are being carried out', async (t) => {
  const { clickhouse, ids, change, erase, compare, copier } = await openCopied(t)
  const edit = async ({ fence, parameters }: RunningChange) => {
    await wait(2_000)
    const update = `UPDATE events SET properties = '{"edited":1}' WHERE event_id = {id:UUID} AND ${fence}`
    await clickhouse.command(update, { id: ids[0] ?? '', ...parameters })
  }
  const erased = erase(async () => {
    await wait(2_000)
    await clickhouse.command(ERASE)
  })
  const edited = change({ kind: 'events', ids: ids.slice(0, 1) }, edit)
  await wait(300)
  copier()
  await Promise.all([erased, edited])
  await compare(t, 80)
  t.equal((await clickhouse.rows(`SELECT 1 FROM event_facts WHERE properties = '{"edited":1}'`)).length, 1)
})

t.test('a change is not over while one of its statements runs, however long that takes', async (t) => {
  const { clickhouse, erase, compare, copier } = await openCopied(t)
  copier({ abandonedMs: 1_000 })
  await erase(async () => {
    await wait(500)
    const sleeps = '(SELECT max(sleepEachRow(1)) FROM numbers(3) SETTINGS max_block_size = 1) = 0'
    await clickhouse.command(`${ERASE} AND ${sleeps}`)
  })
  await compare(t, 80)
})

t.test('a change that was abandoned', async (t) => {
  const { clickhouse, ids, change, compare, copier, skip, store } = await openCopied(t)
  copier({ abandonedMs: 100 })
  const settled = () =>
    until('the change to be settled', async () => {
      return (await clickhouse.rows('SELECT 1 FROM event_changes FINAL WHERE state < 3')).length === 0
    })
  const tooLate = { name: 'StoreError', message: /took too long/ }
  const users = await hashUsers(clickhouse, ['u1'])

  await t.test('fails instead of deleting events that facts keep', async (t) => {
    const erased = change({ kind: 'users', users }, async ({ fence, parameters }) => {
      await settled()
      await clickhouse.command(`${ERASE} AND ${fence}`, parameters)
    })
    await t.rejects(erased, tooLate)
    await compare(t, 100)
  })

  await t.test('fails even if it would find no event, and once it is forgotten', async (t) => {
    for (const which of ['event_id = {id:UUID}', '0']) {
      const edited = change({ kind: 'events', ids: ids.slice(0, 1) }, async ({ fence, parameters }) => {
        await settled()
        if (which === '0') await clickhouse.command('TRUNCATE TABLE event_changes')
        // So that only the last row is left.
        else await clickhouse.command('OPTIMIZE TABLE event_changes FINAL')
        const update = `UPDATE events SET properties = '{"late":1}' WHERE ${which} AND ${fence}`
        await clickhouse.command(update, { id: ids[0] ?? '', ...parameters })
      })
      await t.rejects(edited, tooLate)
      await compare(t, 100)
    }
    t.strictSame(await clickhouse.rows(`SELECT 1 FROM events WHERE properties = '{"late":1}'`), [])
  })

  await t.test('fails with an error that has nothing of the statement, because it is logged', async (t) => {
    const edited = change({ kind: 'events', ids: ids.slice(0, 1) }, async ({ fence, parameters }) => {
      await settled()
      const update = `UPDATE events SET properties = '{"secret":1}' WHERE event_id = '${ids[0]}' AND ${fence}`
      await clickhouse.command(update, parameters)
    })
    const error = await edited.then(() => null).catch((error: Error) => error)
    t.match(error, tooLate)
    t.notMatch(error?.message, /secret/)
    await compare(t, 100)
  })

  await t.test('is followed again if its statements have no fence', async (t) => {
    const late = { event: 'e', distinct_id: 'u1', timestamp: NOW, properties: '{"plan":"pro"}' }
    const replay = skip('a', [late], settled)
    await store('a', [late])
    await compare(t, 101)
    await replay()
    await compare(t, 102)
  })
})

t.test('facts follow a deletion whose event is gone from the disk', async (t) => {
  const { clickhouse, ids, change, compare, copier } = await openCopied(t)
  await change({ kind: 'events', ids: ids.slice(0, 1) }, async ({ fence, parameters }) => {
    const remove = `DELETE FROM events WHERE event_id = {id:UUID} AND ${fence}`
    await clickhouse.command(remove, { id: ids[0] ?? '', ...parameters })
    await clickhouse.command('OPTIMIZE TABLE events FINAL')
  })
  const left = await clickhouse.rows('SELECT 1 FROM events', {}, { apply_deleted_mask: 0 })
  t.equal(left.length, 99)
  copier()
  await compare(t, 99)
})

t.test('edits of two projects share an id, and each is abandoned and followed', async (t) => {
  const { clickhouse, ids, copier } = await openCopied(t)
  const scope = JSON.stringify({ ids: ids.slice(0, 1) })
  // The leader died after it had abandoned the edit of the first project.
  await clickhouse.command(
    `INSERT INTO event_changes (project_id, id, kind, scope, state)
     SELECT arrayJoin([('a', 1), ('b', 0)]).1 AS project_id, {id:UUID}, 'events', {scope:String},
       if(project_id = 'a', 1, 0)`,
    { id: randomUUID(), scope },
  )
  copier({ overdueMs: 2_000 })
  await until('both to be settled', async () => {
    return (await clickhouse.rows('SELECT 1 FROM event_changes FINAL WHERE state < 3')).length === 0
  })
})

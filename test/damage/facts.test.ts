import { join } from 'node:path'
import t, { type Test } from 'tap'
import { lookForLost } from '../../src/damage/look-for-lost.js'
import { EventEdits } from '../../src/store/event-edits.js'
import { openStore } from '../../src/store/open.js'
import { completeFacts, countDifferences } from '../facts/copied-facts.js'
import { openShard } from '../facts/shard.js'
import { dataFolder, PUBLIC_KEY, SECRET_KEY, silent, startApp, startClickHouse, unnoted, until } from '../helper.js'
import { ACCIDENTS, damage, keepLog, type PartFolder, readParts, recordParts } from './damaged-store.js'

const settings = (folder: string) => ({ PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, PORT: '0', DATA_DIR: folder })
const EVENTS = 60
const DAY = 86_400_000

/** A service whose facts are complete. */
async function start(t: Test, folder: string) {
  const { log, lines } = keepLog()
  const { app, call, config, events } = await startApp(t, settings(folder), { log })
  const ask = async () => {
    const range = { from: Date.now() - DAY, to: Date.now() + DAY, interval: 'none' }
    const question = { kind: 'series', series: [{ event: 'e' }], breakdown: ['properties.plan'], ...range }
    const response = await call('POST', '/public/query', question)
    t.equal(response.statusCode, 200, response.body)
    return response.json().results.map(({ total }: { total: number }) => total)
  }
  const complete = async () => {
    const { clickhouse, close } = await openStore(config)
    await until('the facts', async () => {
      await completeFacts(clickhouse, ['default'])
      // Damage is noticed by a question that reads the damaged part; on a busy machine, a question may not read it.
      await ask()
      // A damaged part cannot be read until it is filled again. While facts are copied again, none differ.
      if ((await countDifferences(clickhouse).catch(() => 1)) !== 0) return false
      const [row] = await clickhouse.rows<{ count: string }>('SELECT count() AS count FROM event_facts')
      return row?.count === String(EVENTS)
    })
    const aside = await clickhouse.rows(
      "SELECT name FROM system.detached_parts WHERE database = currentDatabase() AND table = 'event_facts'",
    )
    t.strictSame(aside, [], 'damaged facts do not stay on the disk')
    await close()
  }
  /** Stops the service. @returns a part of the facts, which stays as it is */
  const stop = async () => {
    const { shards, close } = await openStore(config)
    await shards.first.command('SYSTEM STOP MERGES event_facts')
    const [part] = await readParts(shards, "table = 'event_facts'")
    await close()
    await app.close()
    if (!part) throw new Error('there are no facts')
    return part
  }
  return { call, ask, complete, stop, events, lines }
}

/** A stopped service whose facts are complete, and a part of them. */
async function stopped(t: Test): Promise<{ folder: string; part: PartFolder }> {
  const folder = await dataFolder(t)
  const { call, events, complete, stop } = await start(t, folder)
  const sent = Array.from({ length: EVENTS }, (_, i) => {
    return { event: 'e', distinct_id: `u${i}`, properties: { plan: 'pro', text: `${Math.random()}` } }
  })
  await call('POST', '/public/track/batch', { events: sent })
  await until('the events', async () => (await events()).length === EVENTS)
  await complete()
  return { folder, part: await stop() }
}

t.test('facts that ClickHouse has lost or cannot read are rebuilt, and no answer lacks them', async (t) => {
  const before = await stopped(t)
  const { folder } = before
  let { part } = before
  // A missing part, and a detached part.
  for (const [name, happen] of [ACCIDENTS[0], ACCIDENTS[2]].filter((one) => one !== undefined)) {
    await happen(part)
    const { ask, call, complete, stop, lines } = await start(t, folder)
    t.strictSame(await ask(), [EVENTS], `a part ${name}`)
    await complete()
    t.strictSame(await ask(), [EVENTS])
    t.equal((await call('GET', '/health/ready')).statusCode, 200)
    t.match(JSON.stringify(lines), /facts may differ from their events/, name)
    t.notMatch(JSON.stringify(lines), /is lost|are lost/, 'nobody is alarmed')
    part = await stop()
  }

  const { ask, complete } = await start(t, folder)
  t.strictSame(await ask(), [EVENTS])
  await damage(join(part.path, 'data.bin'), 0, 1_000_000)
  t.strictSame(await ask(), [EVENTS], 'events are read in the meantime')
  await complete()
  t.strictSame(await ask(), [EVENTS])
})

t.test('facts of edits that were lost are copied again', async (t) => {
  const path = join(await dataFolder(t), 'clickhouse')
  const engine = await startClickHouse(t, path)
  const { clickhouse, shards, ...shard } = await openShard(t, engine)
  // Otherwise the edit may become a part of the events.
  await clickhouse.command('SYSTEM STOP MERGES events')
  const event = { event: 'e', distinct_id: 'u', timestamp: Date.UTC(2026, 10, 20), properties: '{}' }
  const [eventId = ''] = await shard.store('a', [event, event])
  const copier = shard.copier()
  await shard.complete(['a'])
  const edits = new EventEdits(shards, unnoted)
  await edits.apply({ projectId: 'a', eventId, properties: '{"edited":true}' })
  await edits.close()
  await shard.complete(['a'])
  await copier.close()
  await recordParts(shards)
  const [patch] = await readParts(shards, "table = 'events' AND startsWith(partition_id, 'patch-')")
  await clickhouse.close()
  await engine.close()
  await damage(join(patch?.path ?? '', 'checksums.txt'))

  const restarted = await openShard(t, await startClickHouse(t, path))
  t.match((await lookForLost(restarted.clickhouse)).lost, [{ table: 'events', partition: patch?.partition }])
  restarted.copier({ log: silent })
  await restarted.complete(['a'])
  t.equal(await restarted.countFacts(), 2)
  t.equal(await restarted.countDifferences(), 0)
})

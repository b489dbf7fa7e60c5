import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { deleteEventsOfUsers } from '../../src/store/events.js'
import { findEventLeftovers, rewriteParts } from '../../src/store/rewrite.js'
import { Purge } from '../../src/users/erasure/purge.js'
import { silent } from '../helper.js'
import { openShard } from './shard.js'

const DELETED_TOO = { apply_deleted_mask: 0, apply_patch_parts: 0 } as const

t.test('facts are purged even if a purge was interrupted after the events', async (t) => {
  const shard = await openShard(t)
  const { clickhouse, shards } = shard
  const events = Array.from({ length: 100 }, (_, i) => {
    return { event: 'e', distinct_id: `u${i % 5}`, timestamp: Date.UTC(2026, 10, 20), properties: '{}' }
  })
  await shard.store('a', events)
  shard.copier()
  await shard.complete(['a'])
  await deleteEventsOfUsers(clickhouse, 'a', ['u1'])
  await shard.complete(['a'])
  for (const { id } of await findEventLeftovers(clickhouse))
    await rewriteParts(clickhouse, id, AbortSignal.timeout(60_000))
  t.strictSame(await findEventLeftovers(clickhouse), [])
  const onDisk = async () =>
    (await clickhouse.rows("SELECT 1 FROM event_facts WHERE distinct_id = 'u1'", {}, DELETED_TOO)).length
  t.equal(await onDisk(), 20)

  const barrier = { waitForAll: async () => 0n }
  const purge = (intervalMs: number) => {
    const one = new Purge({ shards, barrier, log: silent, intervalMs })
    t.teardown(() => one.close())
    return one
  }
  await purge(60 * 60_000).due()
  t.equal(await onDisk(), 20, 'not yet')
  await wait(1_100)
  await purge(1_000).due()
  t.equal(await onDisk(), 0)
  t.strictSame(await findEventLeftovers(clickhouse, 'event_facts'), [])
})

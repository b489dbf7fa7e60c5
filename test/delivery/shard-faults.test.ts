import t, { type Test } from 'tap'
import { ShardsError } from '../../src/clickhouse/errors.js'
import { openShards } from '../../src/clickhouse/open-shards.js'
import type { Shards } from '../../src/clickhouse/shards.js'
import { formatEventId, lastIdAt } from '../../src/model/event-id.js'
import { EventEdits } from '../../src/store/event-edits.js'
import { readEvent, readEventsOfUser } from '../../src/store/event-pages.js'
import { prepareAvailable, prepareShards } from '../../src/store/prepare-shards.js'
import { unnoted, until } from '../helper.js'
import { type Node, shardsUrl, startNode, startNodes } from '../nodes.js'

/** Events of 4 KiB on shard 1, more than any buffer holds. */
const LARGE = 40_000

const [first, second] = (await startNodes(t, 2)) as [Node, Node]
const shards = open(t, shardsUrl([first, second]))

function open(t: Test, url: string): Shards {
  const shards = openShards(url)
  t.teardown(() => shards.close())
  return shards
}

const hostOf = ({ url }: Node) => new URL(url).host
const idOf = (place: number) => formatEventId({ position: BigInt(place) << 16n, index: 0, journalId: 1 })

async function put(shard: number, place: number): Promise<void> {
  await shards.at(shard).clickhouse.command(
    `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties)
     SELECT 'p', {id:UUID}, 'e', 'u', 1, 1, '{}'`,
    { id: idOf(place) },
  )
}

t.before(async () => {
  await prepareShards(shards)
  await put(0, 1)
  await put(1, 2)
})

t.test('URLs in another order, of another store or of a part of one are refused', async (t) => {
  await t.rejects(prepareShards(open(t, shardsUrl([second, first]))), {
    name: 'ShardsError',
    message: new RegExp(`order of CLICKHOUSE_URL was changed: ${hostOf(second)} is shard 1`),
  })
  await t.rejects(prepareShards(open(t, second.url)), { message: /is shard 1 of its store, but is listed as shard 0/ })
  const third = await startNode(t)
  const other = open(t, third.url)
  await prepareShards(other)
  await other.first.command('INSERT INTO journals (id, since) VALUES (1, 1)')
  await t.rejects(prepareShards(open(t, shardsUrl([first, second, third]))), { message: /is not empty/ })
  await t.rejects(prepareShards(open(t, shardsUrl([third, second]))), { message: /several stores/ })
  // Also while another shard is down, when lanes of those that are up are stored.
  await other.first.command('INSERT INTO shard_identity (store_id, number) SELECT generateUUIDv4(), 1')
  const down = third.url.replace(/:\d+\//, ':1/')
  await t.rejects(prepareAvailable(open(t, `${shardsUrl([first, third])},${down}`)), { message: /several stores/ })
  await prepareShards(shards)
})

t.test('the error names what the servers need to read from each other', async (t) => {
  const without = await startNodes(t, 2, { mayReadRemote: false })
  const noGrant = prepareShards(open(t, shardsUrl(without)))
  await t.rejects(noGrant, { name: 'ShardsError', message: /GRANT REMOTE ON \*\.\* TO tallyhouse/ })
  const closed = await startNode(t, { isNative: false })
  const noPort = prepareShards(open(t, shardsUrl([first, closed])))
  await t.rejects(
    noPort,
    new ShardsError(
      `Shard 1 (${hostOf(closed)}) has no native port (tcp_port), which the shards need to read from each other. Give it one, or set CLICKHOUSE_CLUSTER to a cluster of the servers’ own configuration.`,
    ),
  )
  const password = `http://tallyhouse:other@${hostOf(second)}/analytics`
  await t.rejects(prepareShards(open(t, `${first.url},${password}`)))
})

t.test('a result breaks off if a shard dies in the middle of it', async (t) => {
  await shards.at(1).clickhouse.command(
    `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties)
     SELECT 'large', reinterpret(bitShiftLeft(toUInt128(number), 16), 'UUID'), 'e', 'u', 1, 1, concat('{"a":"', repeat('x', 4096), '"}')
     FROM numbers({count:UInt32})`,
    { count: LARGE },
  )
  const user = { projectId: 'large', distinctIds: ['u'], upTo: lastIdAt(2n ** 64n - 1n) }
  const read = async (isCut: boolean) => {
    let bytes = 0
    for await (const chunk of await readEventsOfUser(shards, user, {})) {
      if (bytes === 0 && isCut) await second.crash()
      bytes += chunk.length
    }
    return bytes
  }
  const whole = await read(false)
  t.ok(whole > LARGE * 4096)
  await t.rejects(read(true))
  await until('all shards to respond', () =>
    read(false).then(
      (bytes) => bytes === whole,
      () => false,
    ),
  )
})

t.test('a shard that is down is named, and affects only its own data', async (t) => {
  await second.stop()
  const named = {
    name: 'ShardUnreachableError',
    message: `Shard 1 (${hostOf(second)}) of the store is unavailable. Try again in a moment.`,
  }
  // An engine that loses its peer may end itself, and is back immediately.
  const count = () => shards.rows('SELECT count() FROM events_all')
  for (let i = 0; i < 4; i++) {
    await until('the failure to be that of the shard that is down', () =>
      count().then(
        () => t.fail('half of the rows'),
        (error: Error) => error.name === named.name && error.message === named.message,
      ),
    )
    await first.untilUp()
  }
  const edits = new EventEdits(shards, unnoted)
  const event = { projectId: 'p', eventId: idOf(1) }
  t.match(String(await readEvent(shards, { ...event, home: 1 })), event.eventId)
  t.equal(await edits.apply({ ...event, properties: '{"a":1}' }, 1), true)
  await t.rejects(readEvent(shards, { ...event, eventId: idOf(2) }), named)
  await t.rejects(edits.apply({ ...event, eventId: idOf(2), properties: null }), named)
  await t.rejects(prepareShards(shards), named)
  await second.start()
  await until('all shards to respond', () =>
    count().then(
      () => true,
      () => false,
    ),
  )
  t.match(String(await readEvent(shards, { ...event, eventId: idOf(2) })), idOf(2))
})

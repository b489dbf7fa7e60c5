import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { FactsReader } from '../../src/reads/facts-reader.js'
import { EventEdits } from '../../src/store/event-edits.js'
import { FactLead } from '../../src/store/fact-lead.js'
import { compareWithPoint, readFactsPoint } from '../../src/store/fact-points.js'
import { TcpProxy } from '../delivery/tcp-proxy.js'
import { silent, unnoted, until } from '../helper.js'
import { LEADER_STATEMENTS } from './copied-facts.js'
import { openShard } from './shard.js'

async function openProxied(t: Test) {
  const shard = await openShard(t)
  const proxy = await TcpProxy.open(t, shard.url)
  const clickhouse = new ClickHouse({ url: proxy.url })
  t.teardown(() => clickhouse.close())
  const ids = await shard.store('a', some(100))
  const first = shard.copier()
  await shard.complete(['a'])
  await first.close()
  const edits = new EventEdits(shard.shards, unnoted)
  let edited = 0
  /** Leaves events to be copied, and changes to be followed. */
  const leaveWork = async () => {
    await shard.store('a', some(30))
    for (const properties of ['{"edited":true}', null]) {
      await edits.apply({ projectId: 'a', eventId: ids[edited++] ?? '', properties })
    }
  }
  return { ...shard, proxy, proxied: clickhouse, ids, leaveWork }
}

function some(count: number) {
  return Array.from({ length: count }, (_, i) => ({
    event: 'e',
    distinct_id: `u${i % 5}`,
    timestamp: Date.UTC(2026, 10, 1 + (i % 28)),
    properties: '{"plan":"pro"}',
  }))
}

t.test('a copier that dies at any step leaves no trace', async (t) => {
  const { proxy, proxied, leaveWork, ...shard } = await openProxied(t)
  for (const text of LEADER_STATEMENTS) {
    await leaveWork()
    const { held, release } = proxy.hold(text)
    const late = shard.copier({ clickhouse: proxied, log: silent })
    await held
    const next = shard.copier()
    await shard.complete(['a'])
    t.equal(await shard.countDifferences(), 0, `before ${text}`)
    await release()
    await late.close()
    t.equal(await shard.countDifferences(), 0, `after ${text} was carried out late`)
    await next.close()
  }
})

t.test('facts that a leader copies while another one takes over are not read', async (t) => {
  const { proxy, proxied, ...shard } = await openProxied(t)
  const { clickhouse } = shard
  const readEpoch = async () =>
    (await clickhouse.rows<{ epoch: number }>('SELECT epoch FROM facts_state FINAL'))[0]?.epoch
  const first = await readEpoch()
  const late = shard.copier({ clickhouse: proxied, log: silent })
  await until('the lead', async () => (await readEpoch()) !== first)
  const { point: before } = await until('a point', async () => {
    const found = await readFactsPoint(clickhouse, 'a')
    return found.point && !found.point.isStepping && found
  })
  const proxyOfNext = await TcpProxy.open(t, shard.url)
  const next = new ClickHouse({ url: proxyOfNext.url })
  t.teardown(() => next.close())
  const claim = proxyOfNext.hold('INSERT INTO facts_state')
  const process = randomUUID()
  const taking = FactLead.take(next, { process, isShared: false, log: silent, signal: new AbortController().signal })
  // The state has been read, and the leader begins a step now.
  await claim.held
  const finish = proxy.hold('INSERT INTO facts_progress')
  await shard.store('a', some(30))
  await finish.held
  const removal = proxyOfNext.hold('DELETE FROM event_facts WHERE step')
  await claim.release()
  await removal.held
  await clickhouse.command('OPTIMIZE TABLE facts_state FINAL')
  t.equal((await readFactsPoint(clickhouse, 'a')).point?.isStepping, true, 'a reading is bounded by the steps')
  if (before) t.equal(await compareWithPoint(clickhouse, 'a', before), 'other', 'an earlier reading does not hold')
  await removal.release()
  const lead = await taking
  await finish.release()
  await late.close()
  t.equal((await readFactsPoint(clickhouse, 'a')).point?.isStepping, false, 'the rows are gone')
  await lead?.release()
  const last = shard.copier()
  await shard.complete(['a'])
  t.equal(await shard.countDifferences(), 0)
  await last.close()
})

t.test('a copier continues after the reply to any statement was lost', async (t) => {
  const { proxy, proxied, leaveWork, ...shard } = await openProxied(t)
  for (const text of LEADER_STATEMENTS) {
    await leaveWork()
    const lost = proxy.loseReply(text)
    const copier = shard.copier({ clickhouse: proxied, log: silent })
    await lost
    await shard.complete(['a'])
    t.equal(await shard.countDifferences(), 0, text)
    await copier.close()
  }
})

t.test('a change whose process died keeps the facts of its project closed until it is over', async (t) => {
  const { proxy, proxied, ids, ...shard } = await openProxied(t)
  const edits = new EventEdits(Shards.of(proxied), unnoted)
  const reader = new FactsReader(shard.shards, [])
  const lost = proxy.loseReply('UPDATE events', 'silence')
  void edits.apply({ projectId: 'a', eventId: ids[0] ?? '', properties: '{"edited":1}' }).catch(() => undefined)
  await lost
  const waiting = shard.copier({ isShared: true, abandonedMs: 60 * 60_000 })
  t.equal(await reader.point('a'), null, 'closed')
  await waiting.close()
  shard.copier({ isShared: true, abandonedMs: 0 })
  await shard.complete(['a'])
  t.equal(await shard.countDifferences(), 0)
  t.not(await reader.point('a'), null, 'open again')
})

t.test('an edit by a hanging process has no effect once its facts are open again', async (t) => {
  const { proxy, proxied, ids, ...shard } = await openProxied(t)
  shard.copier({ isShared: true, abandonedMs: 60 * 60_000, overdueMs: 200 })
  for (const [i, [text, properties]] of Object.entries({ 'UPDATE events': '{"late":1}', 'DELETE FROM events': null })
    .map((one) => one as [string, string | null])
    .entries()) {
    const edits = new EventEdits(Shards.of(proxied), unnoted)
    const reader = new FactsReader(shard.shards, [])
    const { held, release } = proxy.hold(text)
    const edit = edits.apply({ projectId: 'a', eventId: ids[i] ?? '', properties }).then(
      () => 'done',
      () => 'failed',
    )
    await held
    await until('open facts', async () => (await reader.point('a')) !== null)
    await release()
    t.equal(await edit, 'failed', text)
    await shard.complete(['a'])
    t.equal(await shard.countDifferences(), 0)
    const rows = await shard.clickhouse.rows(
      'SELECT 1 FROM events WHERE event_id = {id:UUID} AND properties = {p:String}',
      {
        id: ids[i] ?? '',
        p: '{"plan":"pro"}',
      },
    )
    t.equal(rows.length, 1, 'it is as it was')
  }
})

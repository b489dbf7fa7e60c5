import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { StoreUnreachableError } from '../../src/clickhouse/errors.js'
import { isInserting } from '../../src/store/insert.js'
import { clickHouseError, httpAnswer, TcpProxy } from '../delivery/tcp-proxy.js'
import { startClickHouse, until } from '../helper.js'

/**
 * Two engines that are reached like two replicas. They do not replicate each other, because the embedded engine cannot,
 * so each has its name in a table, which shows the one that was asked.
 */
const engines = await Promise.all([startClickHouse(t), startClickHouse(t)])
const names = ['first', 'second']
for (const [i, { url }] of engines.entries()) {
  const clickhouse = new ClickHouse({ url })
  await clickhouse.commandWithoutDatabase('CREATE DATABASE IF NOT EXISTS analytics')
  await clickhouse.command('CREATE TABLE names (name String) ENGINE = MergeTree ORDER BY name')
  await clickhouse.command('INSERT INTO names VALUES ({name:String})', { name: names[i] ?? '' })
  await clickhouse.close()
}

/** A client of both, each through a proxy. */
async function openBoth(t: Test) {
  const proxies = await Promise.all(engines.map(({ url }) => TcpProxy.open(t, url)))
  const switches: string[][] = []
  const hosts = proxies.map(({ url }) => new URL(url).host)
  const clickhouse = new ClickHouse({
    url: proxies.map(({ url }) => url).join('|'),
    onSwitch: (...places) => switches.push(places.map((place) => names[hosts.indexOf(place)] ?? place)),
    beatMs: 50,
  })
  t.teardown(() => clickhouse.close())
  const asked = async () => (await clickhouse.rows<{ name: string }>('SELECT name FROM names'))[0]?.name
  /** The server that responds, once the failures are over. */
  const answers = (name: string) => until(name, async () => (await asked().catch(() => '')) === name)
  return { clickhouse, proxies: proxies as [TcpProxy, TcpProxy], switches, asked, answers }
}

t.test(
  'Replicas uses the first server that responds, the next one if it is gone, and the previous one only if that is gone',
  async (t) => {
    const { proxies, switches, asked, answers } = await openBoth(t)
    t.equal(await asked(), 'first')
    proxies[0].cut()
    await t.rejects(asked(), StoreUnreachableError)
    await answers('second')
    proxies[0].restore()
    for (let i = 0; i < 20; i++) t.equal(await asked(), 'second')
    proxies[1].cut()
    await answers('first')
    t.strictSame(switches, [
      ['first', 'second'],
      ['second', 'first'],
    ])
  },
)

t.test('an INSERT that runs on a replica is found, whichever replica is in use', async (t) => {
  const { clickhouse, proxies, answers } = await openBoth(t)
  t.equal(await isInserting(clickhouse, 'token'), false)
  const second = new ClickHouse({ url: engines[1]?.url ?? '' })
  t.teardown(() => second.close())
  const settings = { insert_deduplication_token: 'token of a block', max_block_size: '1' }
  const running = second.rows('SELECT sleepEachRow(0.1) FROM system.numbers LIMIT 600', {}, settings)
  const ended = running.catch(() => undefined)
  await until('it to run', async () => (await isInserting(clickhouse, 'token')) === true)
  await second.command("KILL QUERY WHERE startsWith(Settings['insert_deduplication_token'], 'token') SYNC")
  await ended
  t.equal(await isInserting(clickhouse, 'token'), false)
  proxies[1].cut()
  t.equal(await isInserting(clickhouse, 'token'), null, 'nobody knows')
  proxies[1].restore()
  await answers('first')
})

t.test('a killed server is abandoned before a request finds out', async (t) => {
  const { proxies, asked, answers, switches } = await openBoth(t)
  t.equal(await asked(), 'first')
  const killed = engines[0]?.pid() ?? 0
  process.kill(killed, 'SIGKILL')
  // It is restarted immediately, as by an init system, and would respond again.
  proxies[0].cut()
  await until('the switch', () => switches.length > 0)
  await answers('second')
  proxies[0].restore()
  await until('the first to be up again', () => engines[0]?.state() === 'up' && engines[0].pid() !== killed)
})

t.test(
  'requests in flight on the previous server are aborted, so that two are never used at the same time',
  async (t) => {
    const { clickhouse, proxies, answers } = await openBoth(t)
    const sleep = clickhouse.rows(
      'SELECT sleepEachRow(0.1), number FROM system.numbers LIMIT 600 SETTINGS max_block_size = 1',
    )
    const held = proxies[0].hold('late\n')
    const insert = clickhouse.insert(
      'INSERT INTO names FORMAT TSV',
      Readable.from(['late\n']),
      {},
      new AbortController().signal,
    )
    const both = Promise.all([t.rejects(sleep, StoreUnreachableError), t.rejects(insert, StoreUnreachableError)])
    await held.held
    const keeperIsGone = clickHouseError(999, 'KEEPER_EXCEPTION', 'no Keeper')
    void proxies[0].answer('SELECT countIf(is_readonly', keeperIsGone, Number.POSITIVE_INFINITY)
    await both
    await answers('second')
    t.strictSame(await clickhouse.rows("SELECT * FROM names WHERE name = 'late'"), [])
  },
)

t.test('a replica that has lost its Keeper is abandoned, a slow one is not', async (t) => {
  const { clickhouse, proxies, asked, answers, switches } = await openBoth(t)
  await t.rejects(clickhouse.rows('SELECT sleep(1)', {}, {}, { limitMs: 50 }), { name: 'StoreTimeoutError' })
  t.equal(await asked(), 'first')
  t.strictSame(switches, [])
  const isReadOnly = clickHouseError(242, 'TABLE_IS_READ_ONLY', 'read-only')
  void proxies[0].answer('SELECT countIf(is_readonly', isReadOnly, Number.POSITIVE_INFINITY)
  await answers('second')
})

t.test('a read that a replica cannot answer yet is repeated once it has caught up', async (t) => {
  const { clickhouse, proxies, switches } = await openBoth(t)
  const caughtUp = proxies[0].watch('SELECT table FROM system.replicas')
  const error = clickHouseError(289, 'REPLICA_IS_NOT_IN_QUORUM', 'Replica does not have part all_1_1_0')
  const refused = proxies[0].answer('SELECT name FROM names', error)
  t.strictSame(await clickhouse.rows('SELECT name FROM names'), [{ name: 'first' }])
  await refused
  t.equal(caughtUp.seen, 1)
  t.strictSame(switches, [])
})

t.test('a statement waits while another one has not reached its quorum yet', async (t) => {
  const { clickhouse, proxies } = await openBoth(t)
  const error = clickHouseError(286, 'UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE', 'Quorum for previous write')
  const refused = proxies[0].answer('CREATE TABLE IF NOT EXISTS turns', error, 2)
  await clickhouse.command('CREATE TABLE IF NOT EXISTS turns (a String) ENGINE = MergeTree ORDER BY a')
  await refused
})

t.test('an edit that no other replica has is not reported as made', async (t) => {
  const { clickhouse, proxies } = await openBoth(t)
  const asked = proxies[1].watch('SYSTEM SYNC REPLICA names LIGHTWEIGHT')
  await t.rejects(
    clickhouse.command("DELETE FROM names WHERE name = 'nobody'", {}, { lightweight_delete_mode: 'alter_update' }),
    {
      message: 'ClickHouse made the change, but only 1 replicas have it.',
    },
  )
  t.equal(asked.seen, 1)
})

t.test('a page of a proxy in front of another replica does not confirm an edit', async (t) => {
  const { clickhouse, proxies } = await openBoth(t)
  const page = httpAnswer(200, '<html>Welcome to nginx!</html>')
  const answered = proxies[1].answer('SYSTEM SYNC REPLICA names LIGHTWEIGHT', page)
  const edit = "DELETE FROM names WHERE name = 'nobody'"
  await t.rejects(clickhouse.command(edit, {}, { lightweight_delete_mode: 'alter_update' }), {
    message: 'ClickHouse made the change, but only 1 replicas have it.',
  })
  await answered
})

t.test('every server is prepared, and a server that was down, before it is used', async (t) => {
  const { clickhouse, proxies, answers } = await openBoth(t)
  proxies[1].cut()
  const made: string[] = []
  await clickhouse.prepare('test', async (server, model) => {
    const [row] = await server.rows<{ name: string }>('SELECT name FROM names')
    made.push(`${row?.name} ${model ? 'as another' : 'by itself'}`)
  })
  t.strictSame(made, ['first by itself'])
  proxies[0].cut()
  proxies[1].restore()
  await answers('second')
  t.strictSame(made, ['first by itself', 'second by itself'])
})

t.test('a server that cannot be prepared is replaced by one that can', async (t) => {
  const { clickhouse, answers } = await openBoth(t)
  const prepare = () =>
    clickhouse.prepare('test', async (server) => {
      const [row] = await server.rows<{ name: string }>('SELECT name FROM names')
      if (row?.name === 'first') await server.command('CREATE TABLE names (other String) ENGINE = Memory')
    })
  await t.rejects(prepare(), { name: 'StoreError' })
  await answers('second')
  await t.resolves(prepare())
  t.equal((await clickhouse.rows<{ name: string }>('SELECT name FROM names'))[0]?.name, 'second')
})

t.test('calls fail while every replica is gone, and work again when one is back', async (t) => {
  const { clickhouse, proxies, asked, answers } = await openBoth(t)
  for (const proxy of proxies) proxy.cut()
  await t.rejects(asked(), StoreUnreachableError)
  await t.rejects(clickhouse.ping(), StoreUnreachableError)
  proxies[1].restore()
  await answers('second')
})

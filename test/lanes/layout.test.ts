import t, { type Test } from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { isFatal } from '../../src/clickhouse/errors.js'
import { migrate } from '../../src/clickhouse/migrate.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { checkLayout, findLayout, WrongLayoutError } from '../../src/lanes/layout.js'
import { layoutNumber } from '../../src/model/layout.js'
import { recordLayout } from '../../src/store/layouts.js'
import { freePort, startClickHouse } from '../helper.js'

const noJournal = async () => null
const never = async () => {
  throw new Error('the store knows')
}

async function shardsAt(t: Test, url: string): Promise<{ clickhouse: ClickHouse; one: Shards; two: Shards }> {
  const clickhouse = new ClickHouse({ url })
  t.teardown(() => clickhouse.close())
  const shard = { name: 'host', clickhouse }
  const two = new Shards([
    { number: 0, ...shard },
    { number: 1, ...shard },
  ])
  return { clickhouse, one: Shards.of(clickhouse), two }
}

t.test('a new store takes its layout from the settings, and later starts need the same settings', async (t) => {
  const { clickhouse, one, two } = await shardsAt(t, (await startClickHouse(t)).url)
  const layout = { version: 1, lanes: 3, shards: 2 }
  t.strictSame(await findLayout(two, 3, noJournal), layout, 'before there is a table')
  await migrate(clickhouse)
  t.strictSame(await findLayout(two, 3, noJournal), layout)
  await Promise.all([checkLayout(two, layout), checkLayout(two, layout)])
  await checkLayout(two, layout)
  t.strictSame(await findLayout(two, 3, never), layout)
  for (const [shards, lanes] of [
    [one, 3],
    [two, 2],
    [two, 4],
  ] as const) {
    const given = { version: 1, lanes, shards: shards.all.length }
    const starts: (() => Promise<unknown>)[] = [
      () => findLayout(shards, lanes, never),
      () => checkLayout(shards, given),
    ]
    for (const start of starts) {
      const error = await start().then(String, (error: Error) => error)
      t.type(error, WrongLayoutError)
      t.match(error, { message: /^The store has 3 lanes on 2 shards, but .* run `tallyhouse lanes set \d` with/ })
      t.ok(isFatal(error), 'it stops the start')
    }
  }

  const next = { version: 2, lanes: 4, shards: 2 }
  for (const state of ['changing', 'moving'] as const) {
    await recordLayout(clickhouse, { ...next, state }, Date.now())
    const starts: (() => Promise<unknown>)[] = [
      () => findLayout(two, 3, never),
      () => findLayout(two, 4, never),
      () => checkLayout(two, layout),
    ]
    for (const start of starts) {
      await t.rejects(start(), {
        name: 'WrongLayoutError',
        message: /being changed to 4 lanes on 2 shards.*`tallyhouse lanes set 4`/,
      })
    }
  }
  await recordLayout(clickhouse, { ...next, state: 'active' }, Date.now())
  t.strictSame(await findLayout(two, 4, never), next)
  await checkLayout(two, next)
  await t.rejects(checkLayout(two, { ...next, version: 1 }), /were opened for layout 1, but the store has layout 2/)
})

t.test('the journal of the first lane knows the layout while the store is down', async (t) => {
  const { one } = await shardsAt(t, `http://127.0.0.1:${await freePort()}/analytics`)
  const guard = (version: number, closedFor: number | null = null) => {
    return async () => ({ version, closedFor })
  }
  t.strictSame(await findLayout(one, 3, noJournal), { version: 1, lanes: 3, shards: 1 })
  t.strictSame(await findLayout(one, 1, guard(1)), { version: 1, lanes: 1, shards: 1 }, 'a store of before')
  await t.rejects(findLayout(one, 3, guard(1)), /The store has 1 lane on 1 shard, but the settings have 3 lanes/)
  const three = { version: 5, lanes: 3, shards: 1 }
  t.strictSame(await findLayout(one, 3, guard(layoutNumber(three))), three)
  await t.rejects(findLayout(one, 1, guard(layoutNumber(three))), /The store has 3 lanes on 1 shard, but/)
  await t.rejects(findLayout(one, 1, guard(1, layoutNumber(three))), /is being changed to 3 lanes on 1 shard/)
})

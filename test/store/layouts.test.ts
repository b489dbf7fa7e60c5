import t from 'tap'
import { readLayouts, recordLayout } from '../../src/store/layouts.js'
import { emptyClickHouse } from '../shared-engine.js'

const { clickhouse } = await emptyClickHouse()

t.test('a new store has no layout', async (t) => {
  t.strictSame(await readLayouts(clickhouse), { latest: null, active: null })
})

t.test('the latest version counts, and the furthest of its states', async (t) => {
  await clickhouse.command('TRUNCATE TABLE layouts')
  const one = { version: 1, lanes: 1, shards: 1 }
  const three = { version: 2, lanes: 3, shards: 2 }
  await recordLayout(clickhouse, { ...one, state: 'active' }, 1000)
  await recordLayout(clickhouse, { ...three, state: 'changing' }, 1000)
  t.strictSame(await readLayouts(clickhouse), { latest: { ...three, state: 'changing' }, active: one })
  await recordLayout(clickhouse, { ...three, state: 'moving' }, 1000)
  await recordLayout(clickhouse, { ...three, state: 'changing' }, 2000)
  t.strictSame(await readLayouts(clickhouse), { latest: { ...three, state: 'moving' }, active: one })
  await recordLayout(clickhouse, { ...three, state: 'active' }, 900)
  t.strictSame(await readLayouts(clickhouse), { latest: { ...three, state: 'active' }, active: three })
})

t.test(
  'readLayouts returns the same one of two layouts recorded for a version, the earlier one if they differ',
  async (t) => {
    const times = { more: [3000, 1000, 2000], fewer: [1000, 3000, 2000], together: [1000, 1000, 1000] }
    for (const [name, [ofThree = 0, ofTwo = 0, again = 0]] of Object.entries(times)) {
      await clickhouse.command('TRUNCATE TABLE layouts')
      const three = { version: 1, lanes: 3, shards: 1 }
      const two = { ...three, lanes: 2 }
      await recordLayout(clickhouse, { ...three, state: 'active' }, ofThree)
      await recordLayout(clickhouse, { ...two, state: 'active' }, ofTwo)
      await recordLayout(clickhouse, { ...three, state: 'active' }, again)
      t.strictSame((await readLayouts(clickhouse)).active, ofThree < ofTwo ? three : two, name)
    }
  },
)

import t from 'tap'
import { type Layout, layoutNumber, parseLayoutNumber } from '../../src/model/layout.js'

t.test('layoutNumber differs for every layout, and is the version for one lane on one shard', async (t) => {
  t.equal(layoutNumber({ version: 1, lanes: 1, shards: 1 }), 1)
  t.equal(layoutNumber({ version: 7, lanes: 1, shards: 1 }), 7)
  const seen = new Map<number, Layout>()
  for (const version of [1, 2, 2 ** 24 - 1]) {
    for (const lanes of [1, 2, 63, 64]) {
      for (const shards of [1, 2, 64]) {
        const layout = { version, lanes, shards }
        const number = layoutNumber(layout)
        t.notOk(seen.has(number))
        seen.set(number, layout)
        t.strictSame(parseLayoutNumber(number), layout)
        t.ok(Number.isSafeInteger(number))
      }
    }
  }
})

import t from 'tap'
import { chooseLane } from '../../src/model/choose-lane.js'
import { toStateKey } from '../../src/model/state-key.js'

t.test('chooseLane never changes, because stored data depends on it', async (t) => {
  const key = toStateKey('profiles', 'shop', 'ada')
  t.equal(key.slice(0, 8), 'f54a6e95')
  t.equal(chooseLane(key, 1), 0)
  t.equal(chooseLane(key, 3), 0xf54a6e95 % 3)
  t.equal(chooseLane(key, 64), 0x15)
  t.equal(chooseLane('ffffffff', 64), 63, 'as an unsigned number')
})

t.test('chooseLane spreads keys evenly', async (t) => {
  const counts = [0, 0, 0]
  for (let i = 0; i < 3000; i++) {
    const lane = chooseLane(toStateKey('sessions', 'shop', `s${i}`), 3)
    counts[lane] = (counts[lane] ?? 0) + 1
  }
  for (const count of counts) t.ok(count > 900 && count < 1100, String(counts))
})

t.test('all states of a name are in one lane', async (t) => {
  for (const name of ['ada', 'bob', '"']) {
    const keys = (['profiles', 'aliases', 'sessions'] as const).map((kind) => toStateKey(kind, 'shop', name))
    t.equal(new Set(keys.map((key) => chooseLane(key, 1000))).size, 1)
    t.equal(new Set(keys).size, 3)
  }
})

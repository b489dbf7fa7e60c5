import t from 'tap'
import { chooseLane } from '../../src/model/choose-lane.js'
import { toStateKey } from '../../src/model/state-key.js'

t.test('chooseLane never changes, because stored data depends on it', async (t) => {
  const key = toStateKey('profiles', 'shop', 'ada')
  t.equal(key.slice(0, 8), '5be492e2')
  t.equal(chooseLane(key, 1), 0)
  t.equal(chooseLane(key, 3), 0x5be492e2 % 3)
  t.equal(chooseLane(key, 64), 0x22)
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

import t from 'tap'
import { Bursts } from '../../src/facts/bursts.js'

t.test('a burst lasts while events arrive at a high rate, but not forever', async (t) => {
  const bursts = new Bursts({ perSecond: 100, limitMs: 5_000 }, 0)
  t.notOk(bursts.count(90, 500), 'too early to tell')
  t.ok(bursts.count(90, 1_000))
  t.ok(bursts.count(0, 1_500), 'until the next second is over')
  t.notOk(bursts.count(90, 2_000))
  t.ok(bursts.count(101, 3_000))
  t.ok(bursts.count(101, 4_000))
  t.ok(bursts.count(101, 5_000), 'at the same rate')
  t.ok(bursts.count(300, 6_990))
  t.notOk(bursts.count(101, 7_990), 'it is not a burst any more')
  t.notOk(bursts.count(101, 8_990))
  t.notOk(bursts.count(0, 9_990))
  t.ok(bursts.count(101, 10_990), 'another one')
})

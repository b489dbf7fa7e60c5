import t from 'tap'
import { TokenBuckets } from '../../src/lib/token-buckets.js'

const TEN_A_SECOND = { tokens: 10, inMs: 1_000 }

t.test('a bucket begins full, and fills at its rate up to the burst', async (t) => {
  const buckets = new TokenBuckets(TEN_A_SECOND, 40)
  t.equal(buckets.wait('a', 0), 0)
  t.ok(buckets.spend('a', 39, 0))
  t.equal(buckets.wait('a', 0), 0)
  t.ok(buckets.spend('a', 1, 0))
  t.equal(buckets.wait('a', 0), 100)
  t.equal(buckets.wait('a', 60), 40)
  t.equal(buckets.wait('a', 100), 0)
  t.ok(buckets.spend('a', 40, 3_600_000), 'full again')
  t.equal(buckets.wait('a', 3_600_000), 100, 'and no fuller than at first')
  t.equal(buckets.wait('b', 3_600_000), 0, 'another name has its own')
})

t.test('costs that are known only afterwards become a debt', async (t) => {
  const buckets = new TokenBuckets(TEN_A_SECOND, 40)
  t.ok(buckets.spend('a', 100, 0))
  t.equal(buckets.wait('a', 0), 6_100)
  t.equal(buckets.wait('a', 6_099), 1)
  t.equal(buckets.wait('a', 6_100), 0)
})

t.test('one spender at a time may run into debt', async (t) => {
  const buckets = new TokenBuckets(TEN_A_SECOND, 40)
  t.ok(buckets.spend('a', 30, 0, 1))
  t.ok(buckets.spend('a', 10, 0, 2))
  t.ok(buckets.spend('a', 10, 0, 2), 'the first to do so')
  t.notOk(buckets.spend('a', 10, 0, 1))
  t.ok(buckets.spend('a', 10, 0, 2), 'which continues')
  t.equal(buckets.wait('a', 0), 3_100, "the other one's spending counts anyway")
  t.ok(buckets.spend('a', 50, 3_100, 1), 'once it is paid back')
  t.notOk(buckets.spend('a', 50, 3_100, 2))
})

t.test('a wait is exact for fractional rates', async (t) => {
  const buckets = new TokenBuckets({ tokens: 7, inMs: 3_600_000 }, 7)
  buckets.spend('a', 7, 0)
  const wait = buckets.wait('a', 0)
  t.equal(wait, 514_286)
  t.equal(buckets.wait('a', wait), 0)
})

t.test('returned tokens do not exceed the burst', async (t) => {
  const buckets = new TokenBuckets(TEN_A_SECOND, 40)
  buckets.spend('a', 30, 0)
  buckets.spend('a', -90, 0)
  buckets.spend('a', 40, 0)
  t.equal(buckets.wait('a', 0), 100)
})

t.test('a clock that was set back changes nothing', async (t) => {
  const buckets = new TokenBuckets(TEN_A_SECOND, 40)
  buckets.spend('a', 40, 10_000)
  t.equal(buckets.wait('a', 0), 100)
  t.equal(buckets.wait('a', 60), 40, 'nor does a client that is refused wait for the old time')
  t.equal(buckets.wait('a', 100), 0)
})

t.test('buckets that are full again make room for others', async (t) => {
  const buckets = new TokenBuckets({ tokens: 1, inMs: 1_000 }, 2)
  for (let i = 0; i < 10_000; i++) buckets.spend(`early-${i}`, 2, 0)
  buckets.spend('late', 2, 0)
  t.equal(buckets.wait('late', 0), 0, 'ten thousand are not full, so another one is not limited')
  t.equal(buckets.wait('early-9999', 0), 1_000, 'and takes no memory')
  buckets.spend('late', 2, 2_000)
  t.equal(buckets.wait('late', 2_000), 1_000)
})

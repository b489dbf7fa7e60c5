import { createHash } from 'node:crypto'
import t from 'tap'
import { BloomFilter } from '../../src/lib/bloom-filter.js'

const KIB = 1024
const digestOf = (name: string) => createHash('sha256').update(name).digest()
const all = (count: number, prefix: string) => Array.from({ length: count }, (_, i) => digestOf(`${prefix}${i}`))

t.test('it has all that was added, and little else', async (t) => {
  const filter = new BloomFilter(100_000, 1024 * KIB)
  const added = all(100_000, 'in-')
  for (const digest of added) filter.add(digest)
  t.ok(added.every((digest) => filter.mayHave(digest)))
  const wrong = all(50_000, 'out-').filter((digest) => filter.mayHave(digest)).length
  t.ok(wrong < 0.015 * 50_000, `${wrong} of 50 000`)
  t.notOk(filter.isCrowded)
})

t.test('digests may lie one behind the other', async (t) => {
  const filter = new BloomFilter(10, KIB)
  const two = Buffer.concat(all(2, 'x'))
  filter.add(two, 32)
  t.ok(filter.mayHave(digestOf('x1')))
  t.notOk(filter.mayHave(digestOf('x0')))
})

t.test('its memory is limited, and it says when a larger one would say more', async (t) => {
  const small = new BloomFilter(1, 256 * KIB)
  t.equal(small.bytes, 64 * KIB)
  for (const digest of all(120_000, 'a')) small.add(digest)
  t.ok(small.isCrowded)
  const largest = new BloomFilter(1e9, 64 * KIB)
  t.equal(largest.bytes, 64 * KIB)
  for (const digest of all(120_000, 'a')) largest.add(digest)
  t.notOk(largest.isCrowded, 'there is none larger')
  t.ok(all(120_000, 'a').every((digest) => largest.mayHave(digest)))
})

import { createHash } from 'node:crypto'
import t from 'tap'
import { BloomFilter } from '../../src/lib/bloom-filter.js'

const KIB = 1024
const DIGEST_BYTES = 32
/** Digests that are the same for the same name. One hash over all of them is much faster than one for each. */
function digests(count: number, name: string): Buffer[] {
  const bytes = createHash('shake256', { outputLength: count * DIGEST_BYTES })
    .update(name)
    .digest()
  return Array.from({ length: count }, (_, i) => bytes.subarray(i * DIGEST_BYTES, (i + 1) * DIGEST_BYTES))
}

t.test('it contains everything that was added, and little else', async (t) => {
  const filter = new BloomFilter(100_000, 1024 * KIB)
  const added = digests(100_000, 'in')
  for (const digest of added) filter.add(digest)
  t.ok(added.every((digest) => filter.mayHave(digest)))
  const wrong = digests(50_000, 'out').filter((digest) => filter.mayHave(digest)).length
  t.ok(wrong < 0.015 * 50_000, `${wrong} of 50 000`)
  t.notOk(filter.isCrowded)
})

t.test('digests may follow one another in one buffer', async (t) => {
  const filter = new BloomFilter(10, KIB)
  const [first, second] = digests(2, 'x') as [Buffer, Buffer]
  filter.add(Buffer.concat([first, second]), DIGEST_BYTES)
  t.ok(filter.mayHave(second))
  t.notOk(filter.mayHave(first))
})

t.test('its memory is limited, and it says when a larger filter would be more exact', async (t) => {
  const small = new BloomFilter(1, 256 * KIB)
  t.equal(small.bytes, 64 * KIB)
  const added = digests(120_000, 'a')
  for (const digest of added) small.add(digest)
  t.ok(small.isCrowded)
  const largest = new BloomFilter(1e9, 64 * KIB)
  t.equal(largest.bytes, 64 * KIB)
  for (const digest of added) largest.add(digest)
  t.notOk(largest.isCrowded, 'it cannot get larger')
  t.ok(added.every((digest) => largest.mayHave(digest)))
})

import { hash } from 'node:crypto'
import t from 'tap'
import { IdTable } from '../../../src/journal/lmdb/id-table.js'
import { PageFilter } from '../../../src/journal/lmdb/page-filter.js'
import { INSERT_ID_BYTES } from '../../../src/model/insert-id.js'

const idOf = (n: number) => hash('sha256', `${n}`, 'buffer').subarray(0, INSERT_ID_BYTES)
const listOf = (ids: Buffer) => (ids.toString('hex').match(/.{32}/g) ?? []).sort()
const prefixOf = (id: Buffer, bits: number) => id.readUInt32BE(4) >>> (32 - bits)

t.test('IdTable returns the added ids, all of them and by prefix', async (t) => {
  const table = new IdTable()
  const ids = Array.from({ length: 5000 }, (_, n) => idOf(n))
  // Ids in the last slots, so that they continue in the first ones.
  for (let n = 0; n < 40; n++)
    ids.push(Buffer.concat([idOf(n).subarray(0, 4), Buffer.alloc(4, 0xff), idOf(n).subarray(8)]))
  for (const [n, id] of ids.entries()) {
    t.ok(table.add(id, 0))
    if (n % 500 === 0) t.notOk(table.add(Buffer.concat([idOf(-1), id]), INSERT_ID_BYTES))
  }
  t.equal(table.size, ids.length)
  t.strictSame(listOf(table.all()), listOf(Buffer.concat(ids)))
  t.notOk(table.has(idOf(5000), 0))
  for (const bits of [1, 5, 13, 16]) {
    for (const number of [0, 1, 2 ** bits - 1]) {
      const own = ids.filter((id) => prefixOf(id, bits) === number)
      t.strictSame(listOf(table.withPrefix(number, bits)), listOf(Buffer.concat(own)), `${number} of ${bits} bits`)
    }
  }
})

t.test('PageFilter never denies an id of a page, and denies most others', async (t) => {
  for (const bits of [4, 17, 22]) {
    const pages = 2 ** bits
    const filter = new PageFilter(pages)
    const pageOf = (n: number) => n % 8
    t.ok(filter.mayHave(3, idOf(0), 0), 'before the page was noted')
    for (let page = 7; page >= 0; page--) {
      const ids = Array.from({ length: 160 }, (_, i) => idOf(page + 8 * i))
      // Twice, as a page that is rewritten.
      filter.note(page, Buffer.concat(ids.slice(0, 80)))
      filter.note(page, Buffer.concat(ids))
    }
    let others = 0
    for (let n = 0; n < 8 * 160; n++) {
      if (!filter.mayHave(pageOf(n), idOf(n), 0)) t.fail(`${n} is denied with 2^${bits} pages`)
      if (filter.mayHave(pageOf(n), idOf(n + 8 * 160), 0)) others++
    }
    t.ok(
      others < (bits === 4 ? 40 : bits === 17 ? 160 : 1281),
      `${others} of 1280 others may be there with 2^${bits} pages`,
    )
  }
})

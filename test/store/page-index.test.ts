import t from 'tap'
import { PageIndex } from '../../src/store/page-index.js'

t.test('PageIndex finds the nearest remembered page before a page', async (t) => {
  const starts = new PageIndex()
  t.strictSame(starts.find('walk', 5, 10), { offset: 40 })
  starts.remember('walk', 3, 'three')
  starts.remember('walk', 4, 'four')
  t.strictSame(starts.find('walk', 2, 10), { offset: 10 })
  t.strictSame(starts.find('walk', 3, 10), { startAt: 'three', offset: 0 })
  t.strictSame(starts.find('walk', 7, 10), { startAt: 'four', offset: 30 })
  t.strictSame(starts.find('another', 3, 10), { offset: 20 })
})

t.test('PageIndex forgets the walk that was used least recently', async (t) => {
  const starts = new PageIndex(2_000_000)
  starts.remember('first', 2, 'x')
  for (let i = 0; starts.bytes < 1_999_000; i++) starts.remember(`walk ${i}`, 2, 'x')
  starts.remember('first', 3, 'y')
  starts.remember('one more', 2, 'x')
  t.strictSame(starts.find('walk 0', 2, 10), { offset: 10 })
  t.strictSame(starts.find('first', 3, 10), { startAt: 'y', offset: 0 })
  for (let page = 4; page < 2100; page++) starts.remember('first', page, `${page}`)
  t.strictSame(starts.find('first', 3, 10), { offset: 20 })
  t.strictSame(starts.find('first', 2099, 10), { startAt: '2099', offset: 0 })
})

t.test('PageIndex uses bounded memory for any walks', async (t) => {
  const starts = new PageIndex()
  const id = (n: number) => `01900000-0000-7000-8000-${String(n).padStart(12, '0')}`
  const before = process.memoryUsage().heapUsed
  for (let walk = 0; walk < 200; walk++) {
    for (let page = 2; page < 2100; page++) starts.remember(`${walk} ${'x'.repeat(100)}`, page, id(walk * 2000 + page))
  }
  for (let walk = 0; walk < 50_000; walk++) starts.remember(`${'ä'.repeat(2000)} ${walk}`, 2, id(walk))
  t.ok(starts.bytes <= 16 * 1024 * 1024)
  t.ok(starts.bytes > 15 * 1024 * 1024)
  t.strictSame(starts.find(`${'ä'.repeat(2000)} 49999`, 2, 10), { startAt: id(49_999), offset: 0 })
  t.ok(process.memoryUsage().heapUsed - before < 100 * 1024 * 1024)
})

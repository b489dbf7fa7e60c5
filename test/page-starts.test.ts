import t from 'tap'
import { PageStarts } from '../src/page-starts.js'

t.test('a page is reached from the nearest one before it', async (t) => {
  const starts = new PageStarts()
  t.strictSame(starts.find('walk', 5, 10), { offset: 40 })
  starts.remember('walk', 3, 'three')
  starts.remember('walk', 4, 'four')
  t.strictSame(starts.find('walk', 2, 10), { offset: 10 })
  t.strictSame(starts.find('walk', 3, 10), { startAt: 'three', offset: 0 })
  t.strictSame(starts.find('walk', 7, 10), { startAt: 'four', offset: 30 })
  t.strictSame(starts.find('another', 3, 10), { offset: 20 })
})

t.test('what was used longest ago is forgotten', async (t) => {
  const starts = new PageStarts()
  starts.remember('first', 2, 'x')
  for (let i = 0; i < 999; i++) starts.remember(`walk ${i}`, 2, 'x')
  starts.remember('first', 3, 'y')
  starts.remember('one more', 2, 'x')
  t.strictSame(starts.find('walk 0', 2, 10), { offset: 10 })
  t.strictSame(starts.find('first', 3, 10), { startAt: 'y', offset: 0 })
  for (let page = 4; page < 2100; page++) starts.remember('first', page, `${page}`)
  t.strictSame(starts.find('first', 3, 10), { offset: 20 })
  t.strictSame(starts.find('first', 2099, 10), { startAt: '2099', offset: 0 })
})

import t from 'tap'
import { type KeyedRows, keyRows } from '../../../src/web/lib/row-keys.js'

const keysAfter = (before: KeyedRows, rows: string[]) => keyRows(before, rows).keys
const three = keyRows({ rows: [], keys: [] }, ['a', 'b', 'a'])

t.test('keyRows gives each row a separate key, even equal rows', async (t) => {
  t.strictSame(three.keys, [0, 1, 2])
})

t.test('keyRows keeps the key of a row that was changed, and of those around one that was removed', async (t) => {
  t.strictSame(keysAfter(three, ['a', 'x', 'a']), [0, 1, 2])
  t.strictSame(keysAfter(three, ['a', 'a']), [0, 2])
  t.strictSame(keysAfter(three, ['b', 'a']), [1, 2])
  t.strictSame(keysAfter(three, []), [])
})

t.test('keyRows gives a row that was added a new key', async (t) => {
  t.strictSame(keysAfter(three, ['a', 'b', 'a', '']), [0, 1, 2, 3])
  t.strictSame(keysAfter(three, ['a', 'x', 'b', 'a']), [0, 3, 1, 2])
})

t.test('keyRows leaves keys in place when rows swap, so that no row loses the focus', async (t) => {
  t.strictSame(keysAfter(three, ['b', 'a', 'a']), [0, 1, 2])
})

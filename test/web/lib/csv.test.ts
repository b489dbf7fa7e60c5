import t from 'tap'
import { formatCsv } from '../../../src/web/lib/csv.js'

t.test('formatCsv escapes formulas and quotes', (t) => {
  t.equal(
    formatCsv([
      ['a', 'b'],
      [1, null],
      [-2, '=1'],
    ]),
    "a,b\r\n1,\r\n-2,'=1\r\n",
  )
  for (const text of ['=a', '+a', '-a', '@a', '\ta', '\r=a', ' =a', '＝a']) t.match(formatCsv([[text]]), /^"?'/)
  t.equal(formatCsv([['a "b", c\nd']]), '"a ""b"", c\nd"\r\n')
  t.end()
})

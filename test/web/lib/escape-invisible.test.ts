import fc from 'fast-check'
import t from 'tap'
import { visible } from '../../../src/web/lib/escape-invisible.js'

t.test('usual names stay as they are', async (t) => {
  for (const name of ['signed up', '$identify', 'каталог', 'قائمة', '👩‍👩‍👧 family', 'a  b', '<b>', 'a\\u0000']) {
    t.equal(visible(name), name)
  }
})

t.test('what cannot be seen is spelled', async (t) => {
  t.equal(visible('a\u0000b\u202ec\n'), 'a\\u0000b\\u202ec\\u000a')
  t.equal(visible('\ud800x'), '\\ud800x')
  t.equal(visible(' a '), '␣a␣')
  t.equal(visible(''), '(empty)')
})

t.test('any name is one line without directions', async () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (name) => {
      const seen = visible(name)
      t.notMatch(seen, /[\p{Cc}\u2028-\u202e\u2066-\u2069]/u)
      t.not(seen, '')
      t.doesNotThrow(() => encodeURIComponent(seen))
    }),
  )
})

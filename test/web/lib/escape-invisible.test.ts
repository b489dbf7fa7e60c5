import fc from 'fast-check'
import t from 'tap'
import { escapeInvisible } from '../../../src/web/lib/escape-invisible.js'
import { codePoint } from '../../fuzz/texts.js'

t.test('escapeInvisible leaves ordinary names unchanged', async (t) => {
  for (const name of ['signed up', '$identify', 'каталог', 'قائمة', '👩‍👩‍👧 family', 'a  b', '<b>', 'a\\u0000']) {
    t.equal(escapeInvisible(name), name)
  }
})

t.test('escapeInvisible escapes invisible characters', async (t) => {
  t.equal(escapeInvisible('a\u0000b\u202ec\n'), 'a\\u0000b\\u202ec\\u000a')
  t.equal(escapeInvisible('\ud800x'), '\\ud800x')
  t.equal(escapeInvisible(' a '), '␣a␣')
  t.equal(escapeInvisible('\u00a0'), '\\u00a0')
  t.equal(escapeInvisible(' \u3000a\u00a0b\u200d\u2800'), '␣\\u3000a\u00a0b\\u200d\\u2800')
  t.equal(escapeInvisible(''), '(empty)')
})

t.test('escapeInvisible makes any name a single line without bidirectional controls', async () => {
  fc.assert(
    fc.property(fc.string({ unit: codePoint }), (name) => {
      const seen = escapeInvisible(name)
      t.notMatch(seen, /[\p{Cc}\u2028-\u202e\u2066-\u2069]/u)
      t.not(seen, '')
      t.doesNotThrow(() => encodeURIComponent(seen))
    }),
  )
})

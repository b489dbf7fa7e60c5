import t from 'tap'
import { getAt, setAt } from '../../../src/web/lib/json-pointer.js'

t.test('values at pointers are read and replaced, and the original stays', (t) => {
  const value = { 'a/b~': [1, { c: 2 }], d: null }
  t.equal(getAt(value, '/a~1b~0/1/c'), 2)
  t.equal(getAt(value, '/a~1b~0/2/c'), undefined)
  t.equal(getAt(value, '/d/toString'), undefined)
  t.strictSame(setAt(value, '/a~1b~0/1/c', ['x']), { 'a/b~': [1, { c: ['x'] }], d: null })
  t.equal(getAt(value, '/a~1b~0/1/c'), 2)
  t.end()
})

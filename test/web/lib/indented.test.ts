import fc from 'fast-check'
import t from 'tap'
import { indented } from '../../../src/web/lib/indented.js'

t.test('tokens stay as they are', async (t) => {
  t.equal(
    indented('{"a" :1.0,"a":1e400,"b":[ ],"c":{\n},"d":[1,"x, {\\"y\\":[1]}"]}'),
    '{\n  "a": 1.0,\n  "a": 1e400,\n  "b": [],\n  "c": {},\n  "d": [\n    1,\n    "x, {\\"y\\":[1]}"\n  ]\n}',
  )
})

t.test('any JSON is laid out as JSON.stringify does it', async (t) => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.nat(4), (value, gap) => {
      t.equal(indented(JSON.stringify(value, null, gap)), JSON.stringify(value, null, 2))
    }),
  )
})

t.test('no string is too long, of which a batch may have 20 MiB', async (t) => {
  for (const part of ['x', '\\n', '\\"']) {
    const long = `"${part.repeat((19 * 1024 * 1024) / part.length)}"`
    t.ok(indented(`{"a":${long},"b":1}`) === `{\n  "a": ${long},\n  "b": 1\n}`, part)
  }
})

import fc from 'fast-check'
import t from 'tap'
import { indentJson, readElements, readMembers } from '../../../src/web/lib/json-text.js'

t.test('readMembers and readElements keep numbers, escapes and spaces', async (t) => {
  const text =
    ' { "a" : 1.0,"b":12345678901234567890 , "c":"\\u0041\\"}," ,"d":{"x":[1e400, {}]},"e":[],"\\u0066":null}'
  t.strictSame(Object.fromEntries(readMembers(text)), {
    a: '1.0',
    b: '12345678901234567890',
    c: '"\\u0041\\"},"',
    d: '{"x":[1e400, {}]}',
    e: '[]',
    f: 'null',
  })
  t.strictSame(readElements('[1.0 , "a,]", [ 2 ],{"b":"]"}]'), ['1.0', '"a,]"', '[ 2 ]', '{"b":"]"}'])
  t.strictSame(readElements(' [ ] '), [])
  t.strictSame([...readMembers('{}')], [])
  t.strictSame([...readMembers('{"a":1,"a":2}')], [['a', '2']])
})

t.test('readMembers and readElements split any JSON', async (t) => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.array(fc.jsonValue()),
      fc.nat(3),
      (object, array, gap) => {
        const members = readMembers(JSON.stringify(object, null, gap))
        t.strictSame(
          [...members].map(([name, text]) => [name, JSON.parse(text)]),
          Object.entries(JSON.parse(JSON.stringify(object))),
        )
        t.strictSame(
          readElements(JSON.stringify(array, null, gap)).map((text) => JSON.parse(text)),
          JSON.parse(JSON.stringify(array)),
        )
      },
    ),
  )
})

t.test('readMembers handles strings of 20 MiB', async (t) => {
  for (const part of ['x', '\\"']) {
    const long = `"${part.repeat((19 * 1024 * 1024) / part.length)}"`
    t.equal(readMembers(`{"a":${long},"b":1}`).get('a')?.length, long.length, part)
    t.strictSame(readElements(`[{"a":${long}}, 2]`)[1], '2', part)
  }
})

t.test('readMembers rejects invalid JSON', async (t) => {
  for (const text of ['{"a":', '{"a', '{a:1}', '{"a":[1']) t.throws(() => readMembers(text), SyntaxError, text)
})

t.test('indentJson keeps tokens unchanged', async (t) => {
  t.equal(
    indentJson('{"a" :1.0,"a":1e400,"b":[ ],"c":{\n},"d":[1,"x, {\\"y\\":[1]}"]}'),
    '{\n  "a": 1.0,\n  "a": 1e400,\n  "b": [],\n  "c": {},\n  "d": [\n    1,\n    "x, {\\"y\\":[1]}"\n  ]\n}',
  )
})

t.test('indentJson formats any JSON like JSON.stringify', async (t) => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.nat(4), (value, gap) => {
      t.equal(indentJson(JSON.stringify(value, null, gap)), JSON.stringify(value, null, 2))
    }),
  )
})

t.test('indentJson handles strings of 20 MiB', async (t) => {
  for (const part of ['x', '\\"']) {
    const long = `"${part.repeat((19 * 1024 * 1024) / part.length)}"`
    t.ok(indentJson(`{"a":${long},"b":1}`) === `{\n  "a": ${long},\n  "b": 1\n}`, part)
  }
})

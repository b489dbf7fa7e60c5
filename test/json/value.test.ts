import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { weigh } from '../../src/json/complexity.js'
import { type JsonValue, makeValueInTurns, readJson, readJsonInTurns } from '../../src/json/value.js'
import { codePoint } from '../fuzz/texts.js'
import { measureDepth, members } from './spans.js'
import { spaces, spell, value } from './spell.js'

const read = (text: string) => readJson(Buffer.from(text))

/** Everything that a reader can get from a value, and from each value in it. */
function taken(json: JsonValue): unknown {
  if (json.isArray) return json.elements().map(taken)
  if (json.isObject) return Object.fromEntries(Array.from(json.members(), ([name, member]) => [name, taken(member)]))
  return json.value
}

const names = fc.oneof(
  fc.constantFrom('', '__proto__', 'a', 'é', '😀', '"', '\\', 'a":1,"b', '\n'),
  fc.string({ unit: codePoint }).filter((name) => name.isWellFormed()),
)
const object = fc.dictionary(names, fc.oneof(value, fc.dictionary(names, value)))

t.test('readJson finds the values that JSON.parse finds, at any depth and in any spelling', async () => {
  fc.assert(
    fc.property(fc.oneof(value, object), spaces, (given, spaces) => {
      const text = spell(given, spaces)
      const json = read(text)
      return (
        json !== null &&
        json.text === text.trim() &&
        isDeepStrictEqual(json.value, JSON.parse(text)) &&
        isDeepStrictEqual(taken(json), JSON.parse(text)) &&
        json.textWeight === weigh(Buffer.from(text), Number.POSITIVE_INFINITY) &&
        json.textDepth === measureDepth(text) &&
        Buffer.from(text).toString('utf8', json.start, json.end) === json.text
      )
    }),
    { numRuns: 100 },
  )
})

t.test('members returns values by name with their exact text, and the last of duplicates', async (t) => {
  fc.assert(
    fc.property(fc.array(fc.tuple(names, value)), names, spaces, (pairs, other, spaces) => {
      const text = `{${pairs.map(([name, inner]) => `${spell(name, spaces)}: ${spell(inner, spaces)} `).join(',')}}`
      const all = members(text)
      const json = read(text)
      const rest = json?.textWithout((name) => name === other) ?? ''
      return (
        isDeepStrictEqual(
          members(rest).map(({ name, start, end }) => [name, rest.slice(start, end)]),
          all.filter(({ name }) => name !== other).map(({ name, start, end }) => [name, text.slice(start, end)]),
        ) &&
        [other, ...all.map(({ name }) => name)].every((name) => {
          const last = all.findLast((member) => member.name === name)
          return json?.member(name)?.text === (last && text.slice(last.start, last.end))
        })
      )
    }),
    { numRuns: 100 },
  )
  const json = read('{"a":1.0,"big":9007199254740993,"list":[1e400, "\\u00e9"],"n":null,"empty":[]}')
  t.equal(json?.member('a')?.text, '1.0')
  t.equal(json?.member('big')?.text, '9007199254740993')
  t.equal(json?.member('list')?.first?.text, '1e400')
  t.same(
    json
      ?.member('list')
      ?.elements()
      .map(({ text }) => text),
    ['1e400', '"\\u00e9"'],
  )
  t.equal(json?.member('n')?.value, null)
  t.equal(json?.member('empty')?.first, undefined)
  t.equal(json?.member('a')?.member('a'), undefined)
  t.same(json?.elements(), [])
})

t.test('readJson refuses what JSON.parse refuses', async (t) => {
  const isJson = (text: string) => {
    try {
      JSON.parse(text)
      return true
    } catch {
      return false
    }
  }
  const pieces = [...'{}[]:,"\\ \n-+.eE0129tfn', '"a"', '"a":', 'true', 'false', 'null', '\\u00e9', '\u0001', 'é']
  const torn = fc.tuple(value, fc.nat(), fc.nat(), fc.constantFrom('', ...pieces)).map(([given, at, length, piece]) => {
    const text = JSON.stringify(given)
    const start = at % (text.length + 1)
    return text.slice(0, start) + piece + text.slice(start + (length % 3))
  })
  const any = fc.oneof(
    torn,
    fc.array(fc.constantFrom(...pieces)).map((all) => all.join('')),
  )
  const wellFormed = any.filter((text) => text.isWellFormed())
  fc.assert(
    fc.property(wellFormed, (text) => (read(text) !== null) === isJson(text)),
    { numRuns: 200 },
  )
  for (const text of ['', ' ', '1 2', '[1,]', '{"a":1,}', '{,}', '[', '{"a"', '"', '01', '1.', '[}', '{]', '{1:1}']) {
    t.equal(read(text), null, text)
  }
})

t.test('readJson refuses texts over maxWeight, and accepts many values and levels', async (t) => {
  const zeros = (count: number) => Buffer.from(`[${Array(count).fill(0)}]`)
  t.ok(readJson(zeros(1000), 1000))
  t.equal(readJson(zeros(1001), 1000), null)
  t.equal(readJson(zeros(500_000))?.elements().length, 500_000)
  let reads = 0
  const counted = (raw: Buffer) =>
    new Proxy(raw, {
      get: (target, name) => {
        reads++
        return Reflect.get(target, name, target)
      },
    })
  for (const piece of ['[', '{"a":', '[{"a":']) {
    reads = 0
    t.equal(readJson(counted(Buffer.from(piece.repeat(10_000))), 100), null)
    t.ok(reads < 5_000, `${piece} is not read to its end`)
  }
  const deep = readJson(Buffer.from('['.repeat(200_000) + ']'.repeat(200_000)))
  t.equal(deep?.textDepth, 200_000)
})

t.test('readJsonInTurns reads the same in pieces, whatever is read in between', async (t) => {
  const given = Array.from({ length: 10_000 }, (_, n) => ({ n, name: `é "${n}"`, list: [n, [null], {}] }))
  const text = JSON.stringify(given)
  let turns = 0
  const takeTurn = () => {
    turns++
    t.same(taken(read('{"a":[1,2]}') as JsonValue), { a: [1, 2] })
    return turns % 2 === 0 ? null : Promise.resolve()
  }
  const json = await readJsonInTurns(Buffer.from(text), Number.POSITIVE_INFINITY, takeTurn)
  t.same(json && taken(json), given)
  t.same(await makeValueInTurns(json as JsonValue, takeTurn), given)
  t.same([json?.textWeight, json?.textDepth], [weigh(Buffer.from(text), Number.POSITIVE_INFINITY), measureDepth(text)])
  t.ok(turns > 2, `${turns} turns`)
  for (const wrong of [`${text}]`, text.slice(0, -1), text.replace('"n":9999,', '"n":09999,')]) {
    t.equal(await readJsonInTurns(Buffer.from(wrong), Number.POSITIVE_INFINITY, () => null), null)
  }
  t.equal(await readJsonInTurns(Buffer.from(text), 100_000, () => null), null, 'too heavy')
  t.same((await readJsonInTurns(Buffer.from('[1]'), 10, () => null))?.value, [1], 'a small text')
})

t.test('makeValueInTurns returns what JSON.parse returns, however the text is made', async (t) => {
  const long = JSON.stringify('x'.repeat(150_000))
  for (const text of [
    `{"b":${long},"a":[1,${long},{"c":${long}}],"b":[${long}],"__proto__":[${long}],"1":2}`,
    `[${long},[[[${long}]]],{}]`,
    long,
    'null',
  ]) {
    const value = await makeValueInTurns(readJson(Buffer.from(text)) as JsonValue, () => null)
    t.ok(JSON.stringify(value) === JSON.stringify(JSON.parse(text)), text.slice(0, 20))
  }
  const deep = readJson(Buffer.from('['.repeat(150_000) + ']'.repeat(150_000)))
  t.ok(Array.isArray(await makeValueInTurns(deep as JsonValue, () => null)))
})

import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { canonical, elements, type Member, members, memberText, type Span } from '../../src/json/spans.js'

/** Spells a value with the given white space around every token; a string is in escapes where the space is not empty. */
function spell(value: unknown, spaces: string[]): string {
  let used = 0
  const space = () => spaces[used++ % spaces.length] ?? ''
  const string = (text: string) => {
    if (space() === '') return JSON.stringify(text)
    const escapes = Array.from({ length: text.length }, (_, i) => text.charCodeAt(i).toString(16).padStart(4, '0'))
    return `"${escapes.map((code) => `\\u${code}`).join('')}"`
  }
  const write = (part: unknown): string => {
    let text: string
    if (typeof part === 'string') text = string(part)
    else if (Array.isArray(part)) text = `[${space()}${part.map(write).join(',')}]`
    else if (typeof part === 'object' && part !== null) {
      const all = Object.entries(part).map(([name, inner]) => `${space()}${string(name)}${space()}:${write(inner)}`)
      text = `{${space()}${all.join(',')}}`
    } else text = JSON.stringify(part)
    return space() + text + space()
  }
  return write(value)
}

const spaces = fc.array(fc.constantFrom('', ' ', '\n', '\t ', '\r\n'), { minLength: 1 })
const value = fc.jsonValue({ maxDepth: 4 })
/** Names and strings that a scanner may stumble over. */
const awkward = fc.oneof(
  fc.constantFrom(
    '',
    '__proto__',
    'constructor',
    'a',
    '"',
    '\\',
    '\\"',
    '\\\\"',
    '{',
    ']',
    ',',
    ':',
    ' ',
    '\u2028',
    '😀',
  ),
  fc.string({ unit: fc.constantFrom('\\', '"', '{', '}', '[', ']', ',', ':', 'a') }),
)
/** A small world, in which two values drawn apart are often equal. */
const { small } = fc.letrec((tie) => ({
  small: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom(null, true, 0, 1, 100, -1.5, 1e21, '', '1', 'a'),
    fc.array(tie('small'), { maxLength: 2 }),
    fc.dictionary(fc.constantFrom('a', 'b', '__proto__'), tie('small'), { maxKeys: 2, noNullPrototype: true }),
  ),
}))

const cut = (text: string, { start, end }: Span) => text.slice(start, end)
const named = (text: string) => members(text).map((member: Member) => [member.name, cut(text, member)])

t.test('members finds the values that JSON.parse finds', async () => {
  fc.assert(
    fc.property(fc.dictionary(fc.oneof(awkward, fc.string()), fc.oneof(value, awkward)), spaces, (object, spaces) => {
      const text = spell(object, spaces)
      const found = members(text)
      for (const member of found) if (cut(text, member) !== cut(text, member).trim()) return false
      const read = Object.fromEntries(found.map((member) => [member.name, JSON.parse(cut(text, member))]))
      return isDeepStrictEqual(read, JSON.parse(text))
    }),
  )
})

t.test('members keeps the order, the duplicates and the spelling', async (t) => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.oneof(awkward, fc.constant('a')), value)), spaces, (pairs, spaces) => {
      const given = pairs.map(([name, inner]) => [name, spell(inner, spaces).trim()])
      const text = `{${given.map(([name, inner]) => `${JSON.stringify(name)} : ${inner} `).join(',')}}`
      return isDeepStrictEqual(named(text), given)
    }),
  )
  t.same(named('{"b":1.0,"2":1e400,"a":9007199254740993,"\\u0061":"\\u0041"}'), [
    ['b', '1.0'],
    ['2', '1e400'],
    ['a', '9007199254740993'],
    ['a', '"\\u0041"'],
  ])
})

t.test('elements finds the values that JSON.parse finds', async () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(value, awkward)), spaces, (array, spaces) => {
      const text = spell(array, spaces)
      const parts = elements(text).map((element) => cut(text, element))
      for (const part of parts) if (part !== part.trim()) return false
      return isDeepStrictEqual(
        parts.map((part) => JSON.parse(part) as unknown),
        JSON.parse(text),
      )
    }),
  )
})

t.test('memberText gives the last value of a name as it was spelled', async (t) => {
  fc.assert(
    fc.property(fc.array(fc.tuple(awkward, value)), awkward, value, spaces, (before, name, last, spaces) => {
      const text = spell(last, spaces)
      const earlier = before.map(([name, inner]) => `${JSON.stringify(name)}:${JSON.stringify(inner)},`).join('')
      return memberText(`{${earlier}${JSON.stringify(name)}:${text}}`, name) === text.trim()
    }),
  )
  t.equal(memberText('{"a":{"b":1}}', 'b'), undefined, 'an inner member is none')
  t.equal(memberText('{}', '__proto__'), undefined)
  t.equal(memberText('{"a":null}', 'a'), 'null')
})

t.test('a part may be scanned where it stands', async (t) => {
  const text = '[7, {"a": [1 ,2.0]} ]'
  t.equal(memberText(text, 'a', 3), '[1 ,2.0]')
  t.same(members(text, 3), [{ name: 'a', start: 10, end: 18 }])
  t.same(elements(text, 9), [
    { start: 11, end: 12 },
    { start: 14, end: 17 },
  ])
})

t.test('another kind of value is refused', async (t) => {
  for (const text of ['[]', '1', '"{}"', '']) t.throws(() => members(text), TypeError, text)
  for (const text of ['{}', '1', '"[]"', '']) t.throws(() => elements(text), TypeError, text)
  t.throws(() => memberText('[]', 'a'), TypeError)
  t.throws(() => elements('["a'), TypeError, 'a string without an end is no endless loop')
})

t.test('deep nesting does not overflow the stack', async (t) => {
  const deep = '['.repeat(100_000) + ']'.repeat(100_000)
  t.same(elements(`[${deep}]`), [{ start: 1, end: 200_001 }])
  t.same(members(`{"a":${deep}}`), [{ name: 'a', start: 5, end: 200_005 }])
  t.ok(memberText(`{"b":0,"a":${deep}}`, 'a') === deep)
  t.ok(canonical(deep) === deep)
})

t.test('canonical texts are equal just where the values are', async (t) => {
  fc.assert(
    fc.property(small, small, spaces, spaces, (a, b, spacesOfA, spacesOfB) => {
      return (canonical(spell(a, spacesOfA)) === canonical(spell(b, spacesOfB))) === isDeepStrictEqual(a, b)
    }),
    { numRuns: 2000 },
  )
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (number) => {
      const text = number.toExponential(20)
      return (
        Number(canonical(JSON.stringify(number))) === number &&
        canonical(text.replace('e', '000e')) === canonical(text.replace('e+', 'E'))
      )
    }),
  )
  fc.assert(
    fc.property(value, spaces, (value, spaces) => {
      const text = canonical(spell(value, spaces))
      return canonical(text) === text && isDeepStrictEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)))
    }),
  )
  t.equal(canonical(' { "b" : [ 1.50 , "\\u0041" ] , "a" : { } } '), '{"a":{},"b":[15e-1,"A"]}')
  t.equal(canonical('{"a":1,"b":2,"a":3}'), canonical('{"b":2,"\\u0061":3}'), 'the last duplicate wins')
})

t.test('numbers are compared by their exact decimal value', async (t) => {
  const same = [
    ['1', '1.0', '1e0', '10e-1', '0.1E+1', '100e-002'],
    ['100', '1e2', '1.00E2'],
    ['0', '-0', '0.0', '0e5', '-0.00E-7'],
    ['-1500', '-1.5e3'],
    ['1e400', '10e399', '1E+400'],
    ['9007199254740993', '9007199254740993.0'],
  ]
  for (const spellings of same) t.equal(new Set(spellings.map(canonical)).size, 1, spellings.join(' = '))
  const firsts = same.map(([first = '']) => canonical(first))
  t.equal(new Set(firsts).size, same.length)
  const different = [
    '9007199254740992',
    '9007199254740993',
    '18446744073709551615',
    '18446744073709551616',
    '1e400',
    '1e401',
    '-1',
    '1',
    '10',
    '"1"',
  ]
  t.equal(new Set(different.map(canonical)).size, different.length)
})

t.test('exponents of any length are exact', async (t) => {
  const digits = fc.oneof(
    fc.bigInt(),
    fc.integer({ min: 14, max: 40 }).map((n) => 10n ** BigInt(n)),
  )
  const sign = fc.constantFrom(1n, -1n)
  fc.assert(
    fc.property(
      digits,
      sign,
      fc.integer({ min: -3, max: 3 }),
      fc.integer({ min: 0, max: 9 }),
      (given, sign, by, zeros) => {
        const power = sign * given + BigInt(by)
        const expected = power === 0n ? '7' : `7e${power}`
        const fraction = `0.${'0'.repeat(zeros)}7e${power + BigInt(zeros + 1)}`
        const whole = `7${'0'.repeat(zeros)}E${power - BigInt(zeros)}`
        return [`7e${power}`, fraction, whole].every((text) => canonical(text) === expected)
      },
    ),
    { numRuns: 2000 },
  )
  const nines = '9'.repeat(1_000_000)
  t.ok(canonical(`10e${nines}`) === `1e1${'0'.repeat(1_000_000)}`)
  t.ok(canonical(`0.1e-${nines}`) === `1e-1${'0'.repeat(1_000_000)}`)
  t.ok(canonical(`10e-1${'0'.repeat(1_000_000)}`) === `1e-${nines}`)
  t.ok(canonical(`1e-000${nines}`) === `1e-${nines}`)
})

t.test('beyond its depth canonical still tells values apart, but no longer sees through the spelling', async (t) => {
  const nest = (inner: string, depth: number) => '['.repeat(depth) + inner + ']'.repeat(depth)
  t.equal(canonical(nest('[1.0]', 499)), canonical(nest('[1]', 499)))
  t.not(canonical(nest('[1.0]', 500)), canonical(nest('[1]', 500)))
  t.not(canonical(nest('1', 600)), canonical(nest('2', 600)))
  t.equal(canonical(` [ ${nest('1', 600)} ] `), nest('1', 601))
})

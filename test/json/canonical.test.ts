import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { canonical as canonicalOf } from '../../src/json/canonical.js'
import { readText } from '../../src/json/value.js'
import { spaces, spell, value } from './spell.js'

const canonical = (text: string) => canonicalOf(readText(text))

/** Few values, so that two drawn separately are often equal. */
const { small } = fc.letrec((tie) => ({
  small: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom(null, true, 0, 1, 100, -1.5, 1e21, '', '1', 'a'),
    fc.array(tie('small'), { maxLength: 2 }),
    fc.dictionary(fc.constantFrom('a', 'b', '__proto__'), tie('small'), { maxKeys: 2, noNullPrototype: true }),
  ),
}))

t.test('canonical texts are equal if and only if the values are', async (t) => {
  fc.assert(
    fc.property(small, small, spaces, spaces, (a, b, spacesOfA, spacesOfB) => {
      return (canonical(spell(a, spacesOfA)) === canonical(spell(b, spacesOfB))) === isDeepStrictEqual(a, b)
    }),
    { numRuns: 500 },
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
    { numRuns: 500 },
  )
  const nines = '9'.repeat(1_000_000)
  t.ok(canonical(`10e${nines}`) === `1e1${'0'.repeat(1_000_000)}`)
  t.ok(canonical(`0.1e-${nines}`) === `1e-1${'0'.repeat(1_000_000)}`)
  t.ok(canonical(`10e-1${'0'.repeat(1_000_000)}`) === `1e-${nines}`)
  t.ok(canonical(`1e-000${nines}`) === `1e-${nines}`)
})

t.test('beyond the depth limit, different values keep different texts, but equal ones may not match', async (t) => {
  const deep = '['.repeat(100_000) + ']'.repeat(100_000)
  t.ok(canonical(deep) === deep, 'and the stack does not overflow')
  const nest = (inner: string, depth: number) => '['.repeat(depth) + inner + ']'.repeat(depth)
  t.equal(canonical(nest('[1.0]', 499)), canonical(nest('[1]', 499)))
  t.not(canonical(nest('[1.0]', 500)), canonical(nest('[1]', 500)))
  t.not(canonical(nest('1', 600)), canonical(nest('2', 600)))
  t.equal(canonical(` [ ${nest('1', 600)} ] `), nest('1', 601))
})

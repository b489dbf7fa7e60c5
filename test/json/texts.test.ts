import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { elementTexts, memberText, memberTexts, withoutMembers } from '../../src/json/texts.js'
import { spaces, spell, value } from './spell.js'

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

t.test('memberTexts finds the values that JSON.parse finds', async () => {
  fc.assert(
    fc.property(fc.dictionary(fc.oneof(awkward, fc.string()), fc.oneof(value, awkward)), spaces, (object, spaces) => {
      const text = spell(object, spaces)
      const found = [...memberTexts(text)]
      for (const [, part] of found) if (part !== part.trim()) return false
      const read = Object.fromEntries(found.map(([name, part]) => [name, JSON.parse(part)]))
      return isDeepStrictEqual(read, JSON.parse(text))
    }),
  )
})

t.test('memberTexts keeps order and spelling, and the last of duplicate names', async (t) => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.oneof(awkward, fc.constant('a')), value)), spaces, (pairs, spaces) => {
      const given = pairs.map(([name, inner]) => [name, spell(inner, spaces).trim()] as const)
      const text = `{${given.map(([name, inner]) => `${JSON.stringify(name)} : ${inner} `).join(',')}}`
      return isDeepStrictEqual([...memberTexts(text)], [...new Map(given)])
    }),
  )
  t.same(
    [...memberTexts('{"b":1.0,"2":1e400,"a":9007199254740993,"\\u0061":"\\u0041"}')],
    [
      ['b', '1.0'],
      ['2', '1e400'],
      ['a', '"\\u0041"'],
    ],
  )
})

t.test('elementTexts finds the values that JSON.parse finds', async () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(value, awkward)), spaces, (array, spaces) => {
      const text = spell(array, spaces)
      const parts = elementTexts(text)
      for (const part of parts) if (part !== part.trim()) return false
      return isDeepStrictEqual(
        parts.map((part) => JSON.parse(part) as unknown),
        JSON.parse(text),
      )
    }),
  )
})

t.test('memberText returns the last value of a name exactly as it was sent', async (t) => {
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

t.test('memberTexts and elementTexts refuse other values and invalid JSON', async (t) => {
  for (const text of ['[]', '1', '"{}"', '', '{"a"']) {
    t.throws(() => memberTexts(text), TypeError, text)
    t.throws(() => memberText(text, 'a'), TypeError, text)
    t.throws(() => withoutMembers(text, () => true), TypeError, text)
  }
  for (const text of ['{}', '1', '"[]"', '', '["a']) t.throws(() => elementTexts(text), TypeError, text)
})

t.test('deep nesting does not overflow the stack', async (t) => {
  const deep = '['.repeat(100_000) + ']'.repeat(100_000)
  t.ok(elementTexts(`[${deep}]`)[0] === deep)
  t.ok(memberText(`{"b":0,"a":${deep}}`, 'a') === deep)
})

t.test('members are cut out, and everything else stays byte for byte', async () => {
  const rest = fc.array(fc.tuple(fc.string(), fc.jsonValue(), fc.boolean()), { maxLength: 6 })
  fc.assert(
    fc.property(rest, fc.constantFrom('', ' ', '\n  '), (all, space) => {
      const member = ([name, value]: [string, unknown, boolean]) =>
        `${space}${JSON.stringify(name)}${space}:${space}${JSON.stringify(value)}`
      const cut = (name: string) => all.some(([other, , isCut]) => isCut && other === name)
      const left = withoutMembers(`{${all.map(member).join(',')}}`, cut)
      const wanted = all.filter(([name]) => !cut(name))
      t.strictSame(memberTexts(left), memberTexts(`{${wanted.map(member).join(',')}}`))
      for (const one of wanted) if (!left.includes(member(one).trim())) return false
      JSON.parse(left)
      return wanted.length < all.length || left === `{${all.map(member).join(',')}}`
    }),
  )
})

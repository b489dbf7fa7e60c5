import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import {
  elements,
  type Member,
  members,
  memberText,
  memberTexts,
  type Span,
  withoutMembers,
} from '../../src/json/spans.js'
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

t.test('a part may be scanned in place', async (t) => {
  const text = '[7, {"a": [1 ,2.0]} ]'
  t.equal(memberText(text, 'a', 3), '[1 ,2.0]')
  t.same(members(text, 3), [{ name: 'a', start: 10, end: 18 }])
  t.same(elements(text, 9), [
    { start: 11, end: 12 },
    { start: 14, end: 17 },
  ])
})

t.test('a value of another kind is refused', async (t) => {
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
      return true
    }),
  )
})

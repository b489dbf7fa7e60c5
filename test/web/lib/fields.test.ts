import fc from 'fast-check'
import t from 'tap'
import { formatField, formatValue, isTextField, parseField, parseValue, toField } from '../../../src/web/lib/fields.js'
import { dropIncomplete } from '../../../src/web/lib/filters.js'

const scalar = fc.oneof(fc.string(), fc.double({ noNaN: true }), fc.boolean(), fc.constant(null))

t.test('parseValue is the inverse of formatValue', (t) => {
  fc.assert(
    fc.property(fc.oneof(scalar, fc.constantFrom('5', 'true', '"a"', 'null', '', ' a')), (value) => {
      t.strictSame(parseValue(formatValue(value)), Object.is(value, -0) ? 0 : value)
    }),
  )
  t.equal(formatValue('5'), '"5"')
  t.equal(formatValue('pro'), 'pro')
  t.end()
})

t.test('parseField is the inverse of formatField, and a plain name is a property', (t) => {
  for (const field of ['event', 'properties.a', 'user.a.b', ['properties', 'a.b', '"']]) {
    t.strictSame(parseField(formatField(field)), field)
  }
  t.equal(parseField(' price '), 'properties.price')
  t.strictSame(parseField('utm.source'), ['properties', 'utm.source'])
  t.equal(parseField(''), '')
  t.end()
})

t.test('the field of any property survives a text field, and is complete', (t) => {
  const name = fc.oneof(fc.string(), fc.constantFrom('', ' ', 'a ', '\ta', 'a.b', '["a"]'))
  fc.assert(
    fc.property(
      fc.constantFrom('properties', 'user'),
      fc.array(name, { minLength: 1, maxLength: 3 }),
      (source, names) => {
        const field = toField(source, names)
        t.strictSame(parseField(formatField(field)), field)
        t.strictSame(dropIncomplete(['set', field]), ['set', field])
      },
    ),
  )
  t.end()
})

t.test('knows which fields are always texts', (t) => {
  for (const field of [
    'distinct_id',
    'page.path',
    'context.browser_version',
    'session.id',
    'session.entry.page.path',
  ]) {
    t.ok(isTextField(field), field)
  }
  for (const field of [
    '',
    'timestamp',
    'context.bot',
    'session.bounced',
    'session.first.context.bot',
    'properties.a',
    'user.page.path',
    'session.properties.a',
    ['session', 'first', 'properties', 'a.b'],
  ]) {
    t.notOk(isTextField(field), String(field))
  }
  t.end()
})

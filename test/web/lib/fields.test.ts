import fc from 'fast-check'
import t from 'tap'
import { formatField, formatValue, parseField, parseValue } from '../../../src/web/lib/fields.js'

const scalar = fc.oneof(
  fc.string(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.boolean(),
  fc.constant(null),
)

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

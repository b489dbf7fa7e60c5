import t from 'tap'
import type { PropertyName } from '../../../src/contract/responses.js'
import {
  flattenProperties,
  listUserProperties,
  listValuesAt,
  mergeProperties,
} from '../../../src/web/lib/listed-properties.js'

t.test('names within objects follow their parents', (t) => {
  const source: PropertyName = { property: 'source', share: 0.5, types: [{ type: 'string', share: 1 }], examples: [] }
  const utm: PropertyName = { ...source, property: 'utm', types: [{ type: 'object', share: 1 }], properties: [source] }
  t.strictSame(flattenProperties([utm, source]), [
    { names: ['utm'], share: 0.5, types: ['object'] },
    { names: ['utm', 'source'], share: 0.5, types: ['string'] },
    { names: ['source'], share: 0.5, types: ['string'] },
  ])
  t.end()
})

t.test('a property of several lists has the types of all', (t) => {
  const one = { names: ['a'], share: 0.2, types: ['string' as const] }
  t.strictSame(mergeProperties([[one], [{ ...one, share: 0.9, types: ['number'] }]]), [
    { names: ['a'], share: 0.9, types: ['string', 'number'] },
  ])
  t.end()
})

t.test('the properties of profiles, with those within objects', (t) => {
  const profiles = [
    { b: 1, address: { zip: '1', geo: null } },
    { b: null, address: 'x' },
  ]
  t.strictSame(listUserProperties(profiles), [
    { names: ['address'], share: 1, types: ['object', 'string'] },
    { names: ['address', 'zip'], share: 0.5, types: ['string'] },
    { names: ['b'], share: 0.5, types: ['number'] },
  ])
  t.strictSame(listUserProperties([]), [])
  t.end()
})

t.test('listValuesAt lists the values at a path as they are', async (t) => {
  const profiles = ['{"a":1.0,"b":{"c":"x"}}', '{"b":{"c":null}}', '{"a":"y","b":[]}', '{}']
  t.strictSame(listValuesAt(profiles, ['a']), ['1.0', '"y"'])
  t.strictSame(listValuesAt(profiles, ['b', 'c']), ['"x"', 'null'])
  t.strictSame(listValuesAt(profiles, ['b', 'c', 'd']), [])
})

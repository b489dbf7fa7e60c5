import fc from 'fast-check'
import t from 'tap'
import { findBodyKey, hasMoreElements } from '../../../src/http/admission/body-key.js'

/** What `findBodyKey` returns for a complete text, by JSON.parse. */
function keyOf(text: string): string | null | undefined {
  const body = JSON.parse(text)
  if (typeof body !== 'object' || body === null || Array.isArray(body) || !Object.hasOwn(body, 'apiKey'))
    return undefined
  return typeof body.apiKey === 'string' ? body.apiKey : null
}

const SPACES = ['', ' ', '\n\t', '\r\n  ']
/** Names that equal `apiKey`, and some that only resemble it. */
const NAMES = [
  'apiKey',
  '\\u0061piKey',
  'api\\u004bey',
  '\\u0061\\u0070\\u0069\\u004b\\u0065\\u0079',
  'apikey',
  'apiKey2',
  'api\\"Key',
]

t.test('findBodyKey finds the same key as JSON.parse', async () => {
  const name = fc.oneof(
    fc.constantFrom(...NAMES),
    fc.string().map((text) => JSON.stringify(text).slice(1, -1)),
  )
  const nested = fc
    .jsonValue()
    .map((value) => JSON.stringify({ apiKey: value, a: ['}', ']', '\\', '"', { apiKey: 1 }] }))
  const value = fc.oneof(
    fc.jsonValue().map((value) => JSON.stringify(value)),
    nested,
    fc.constantFrom('"\\u0073k"', '1e5'),
  )
  const space = fc.constantFrom(...SPACES)
  const member = fc.tuple(space, name, space, space, value, space).map(([a, name, b, c, value, d]) => {
    return `${a}"${name}"${b}:${c}${value}${d}`
  })
  const body = fc.tuple(space, fc.array(member), space).map(([a, members, b]) => `${a}{${members.join(',')}}${b}`)
  fc.assert(
    fc.property(fc.oneof(body, value), (text) => findBodyKey(Buffer.from(text)) === keyOf(text)),
    { numRuns: 500 },
  )
  // Neither a prefix of a body nor other bytes make it throw or find a key that is not there.
  fc.assert(
    fc.property(body, fc.nat(), (text, length) => {
      const bytes = Buffer.from(text)
      const found = findBodyKey(bytes.subarray(0, length % (bytes.length + 1)))
      return found === null || found === undefined || text.includes(JSON.stringify(found)) || text.includes('\\')
    }),
    { numRuns: 500 },
  )
  fc.assert(fc.property(fc.uint8Array(), (bytes) => findBodyKey(Buffer.from(bytes)) !== 'sk'))
})

t.test('findBodyKey finds the key in the beginning of a body', async (t) => {
  const find = (text: string) => findBodyKey(Buffer.from(text))
  t.equal(find('{"apiKey":"sk_1","events":[{"event":"apiKey'), 'sk_1')
  t.equal(find('{"apiKey":"sk_1","apiKey":"sk_2","x'), 'sk_2', 'the last duplicate wins')
  t.equal(find('{"a":{"apiKey":"sk_1"},"events":['), undefined, 'a nested one does not count')
  t.equal(find('{"apiKey":"sk_'), null, 'half a key is not known')
  t.equal(find('{"apiKey":"\\x"}'), null)
  t.equal(find('[{"apiKey":"sk_1"}]'), undefined)
  t.equal(find(''), undefined)
})

t.test('hasMoreElements counts like JSON.parse', async (t) => {
  const array = fc.array(fc.jsonValue(), { maxLength: 5 })
  fc.assert(
    fc.property(array, fc.jsonValue(), fc.nat(6), fc.constantFrom(0, 1), (all, other, max, indent) => {
      const text = JSON.stringify({ other, all, last: other }, null, indent)
      return hasMoreElements(Buffer.from(text), 'all', max) === all.length > max
    }),
    { numRuns: 500 },
  )
  fc.assert(fc.property(fc.uint8Array(), (bytes) => typeof hasMoreElements(Buffer.from(bytes), 'all', 3) === 'boolean'))
  const has = (text: string) => hasMoreElements(Buffer.from(text), 'all', 1)
  t.ok(has('{"all":[],"all":[1,2]}'), 'of several arrays, the last one counts')
  for (const text of ['', '{', '[1,2]', '{"all":{"a":1,"b":2}}', '{"all":"a,b"}', '{"all":[[', '{"all":[1'])
    t.notOk(has(text))
})

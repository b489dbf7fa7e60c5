import { TypeCompiler } from '@sinclair/typebox/compiler'
import fc from 'fast-check'
import t from 'tap'
import { EditBody } from '../../src/contract/schemas.js'
import { scanEdit } from '../../src/model/scan.js'

const DEPTH = 200
const check = TypeCompiler.Compile(EditBody)
const scanned = (body: string) => scanEdit(Buffer.from(body), DEPTH)

t.test('scanEdit accepts an edit with properties', async (t) => {
  const rows: [body: string, apiKey: string | undefined, hasOthers: boolean][] = [
    ['{"properties":{}}', undefined, false],
    [' { "apiKey" : "sk_1" , "properties" : { "a" : [ 1.0 , null ] } } ', 'sk_1', false],
    ['{"event":5,"properties":{"properties":null},"insert_id":{},"events":[]}', undefined, true],
  ]
  for (const [body, apiKey, hasOthers] of rows) t.match(scanned(body), { count: 1, apiKey, hasOthers }, body)
})

t.test('scanEdit leaves any other body to the parser', async (t) => {
  const list = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
  const unknown = [
    ...['', '{}', '[]', 'null', '{"event":"e","distinct_id":"u"}', '{"properties":{}', '{"properties":{}}x'],
    ...['null', '[]', '5', '"{}"', '{"a"}', '{"a":01}', '{"a":1,}'].map((value) => `{"properties":${value}}`),
    ...['{"properties":{},"properties":{}}', '{"propertie\\u0073":{}}', '{"apiKey":5,"properties":{}}'],
    `{"properties":{"deep":${list(DEPTH)}}}`,
    `{"other":{${'"a":1,'.repeat(25_000)}"a":1},"properties":{}}`,
  ]
  for (const body of unknown) t.equal(scanned(body), null, body.slice(0, 60))
  t.not(scanned(`{"properties":{"deep":${list(DEPTH - 1)}}}`), null)
  t.not(scanned(`{"properties":{${'"a":1,'.repeat(100_000)}"a":1}}`), null, 'any number of fields')
})

t.test('scanEdit accepts only valid edits', async () => {
  const names = fc.constantFrom('properties', 'apiKey', 'event', 'distinct_id', 'timestamp', 'insert_id', 'x', '')
  const bodies = fc.dictionary(names, fc.oneof(fc.jsonValue(), fc.dictionary(fc.string(), fc.jsonValue())))
  const changes = fc.tuple(fc.nat(), fc.constantFrom('', '"', '{', '}', '[', ']', ',', ':', '0', 'n', '\\', ' '))
  fc.assert(
    fc.property(bodies, fc.option(changes), (value, change) => {
      const text = JSON.stringify(value)
      const at = change ? change[0] % text.length : 0
      const body = change ? text.slice(0, at) + change[1] + text.slice(at + 1) : text
      return scanned(body) === null || check.Check(JSON.parse(body))
    }),
    { numRuns: 300 },
  )
})

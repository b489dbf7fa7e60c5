import { isUtf8 } from 'node:buffer'
import { isDeepStrictEqual } from 'node:util'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import fc from 'fast-check'
import t from 'tap'
import { CONTEXT_TEXTS, DEVICES } from '../../src/contract/context.js'
import { looksLikeSeconds, MAX_BATCH } from '../../src/contract/limits.js'
import { BatchBody, EventContext, TrackBody } from '../../src/contract/schemas.js'
import { elementTexts, memberText } from '../../src/json/texts.js'
import { scanBatch, scanEvent } from '../../src/model/scan.js'
import type { ScannedBody } from '../../src/model/scanned-body.js'
import { codePoint } from '../fuzz/texts.js'
import { realEvents } from '../helper.js'
import { members } from '../json/spans.js'

interface Found {
  count: number
  apiKey: unknown
  hasOthers: boolean
}

type Kind = 'event' | 'batch'
const KINDS: Kind[] = ['event', 'batch']
const EVENT_FIELDS = ['event', 'distinct_id', 'timestamp', 'properties', 'insert_id', 'session_id']
const checks = { event: TypeCompiler.Compile(TrackBody), batch: TypeCompiler.Compile(BatchBody) }

function scanned(kind: Kind, body: string | Buffer): Found | null {
  const raw = Buffer.from(body)
  const found: ScannedBody | null = kind === 'event' ? scanEvent(raw) : scanBatch(raw, MAX_BATCH)
  return found && { count: found.count, apiKey: found.apiKey, hasOthers: found.hasOthers }
}

/** The result of parsing and validating a body; null if a scan may not recognise it. */
function parsed(kind: Kind, text: string): Found | null {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return null
  }
  if (!checks[kind].Check(value)) return null
  const top = text.trim()
  const outer = fieldsOf(top, kind === 'event' ? [...EVENT_FIELDS, 'apiKey'] : ['events', 'apiKey'])
  const inner = kind === 'event' ? [] : eventsOf(top).map((event) => fieldsOf(event, EVENT_FIELDS))
  if (![outer, ...inner].every(({ areClear }) => areClear)) return null
  return {
    count: kind === 'event' ? 1 : inner.length,
    apiKey: value.apiKey,
    hasOthers: [outer, ...inner].some(({ hasOthers }) => hasOthers),
  }
}

function eventsOf(text: string): string[] {
  return elementTexts(memberText(text, 'events') ?? '[]')
}

/** Whether each known field is present at most once and spelled without escapes, and whether there are others. */
function fieldsOf(text: string, known: string[]): { areClear: boolean; hasOthers: boolean } {
  const seen = new Set<string>()
  let areClear = true
  let hasOthers = false
  let last = 0
  for (const { name, start, end } of members(text)) {
    if (!known.includes(name)) hasOthers = true
    else if (seen.has(name) || !text.slice(last, start).includes(`"${name}"`)) areClear = false
    seen.add(name)
    last = end
  }
  return { areClear, hasOthers }
}

function isSafe(kind: Kind, body: string | Buffer): boolean {
  const found = scanned(kind, body)
  return found === null || isDeepStrictEqual(found, parsed(kind, body.toString()))
}

type Row = [kind: Kind, body: string, found: Found | null]

/** The bodies that are scanned although their row says that they are parsed, or vice versa. */
const misread = (rows: Row[]) =>
  rows
    .filter(([kind, body, found]) => !isDeepStrictEqual([scanned(kind, body), parsed(kind, body)], [found, found]))
    .map(([kind, body]) => `${kind}: ${body}`)

const one = (more = '') => `{"event":"e","distinct_id":"u"${more && `,${more}`}}`
const batchOf = (...events: string[]) => `{"events":[${events.join(',')}]}`
const withValue = (value: string) => one(`"properties":{"v":${value}}`)
const nested = (depth: number, open = '{"a":', inner = '1', close = '}') =>
  open.repeat(depth) + inner + close.repeat(depth)

/** A body of each kind that has some of everything. */
const SAMPLES: Record<Kind, string> = {
  event:
    '{"apiKey":"sk_1","event":"a\\u00e9\\n","distinct_id":"é😀","timestamp":17 , "x":[1,{"y":[]},-2.5e+3],' +
    '"properties":{"a":[true,false,null,"\\"",{}],"b":0}}',
  batch:
    ' {"events":[{"event":"a\\/","distinct_id":"é","timestamp":null},\n{"distinct_id":"b","event":"\\\\",' +
    '"properties":{"a":[0.1E2,"]"]}}],"apiKey":"sk_1","x":{"y":null}}',
}

t.test('a context is scanned only if it is valid and spelled plainly', async (t) => {
  const withContext = (text: string) => one(`"context":${text}`)
  const valid = [
    '{"browser":"Chrome"}',
    '{ "browser" : "\\u00e9\\n" , "device":"tv","country":"AT" , "bot" : true }',
    `{"city":"${'x'.repeat(255)}","os":"😀"}`,
  ]
  for (const text of valid) t.ok(scanEvent(Buffer.from(withContext(text)))?.hasContexts, text)
  const unknown = [
    ...[
      'null',
      '{}',
      '[]',
      '"x"',
      '{"browser":null}',
      '{"browser":""}',
      '{"browser":1}',
      `{"city":"${'x'.repeat(256)}"}`,
    ],
    ...['{"bot":false}', '{"bot":1}', '{"bot":trueish}', '{"device":"phone"}', '{"device":"tvs"}', '{"country":"at"}'],
    ...['{"country":"AUT"}', '{"country":"A"}', '{"ip":"1"}', '{"os":"a","os":"b"}', '{"o\\u0073":"a"}', '{"os":"a",}'],
    ...['{,"os":"a"}', '{"os" "a"}', '{"os":"a" "city":"b"}', '{"os":"a"', '{"os":"\\ud800"}', '{"os":{"a":1}}'],
  ]
  for (const text of unknown) t.equal(scanEvent(Buffer.from(withContext(text))), null, text)
  const check = TypeCompiler.Compile(EventContext)
  const name = fc.constantFrom(...CONTEXT_TEXTS, 'bot', 'ip', 'os')
  const value = fc.oneof(fc.constantFrom<unknown>(...DEVICES, 'AT', 'x', '', true, false, null, 1), fc.string())
  let accepted = 0
  fc.assert(
    fc.property(fc.array(fc.tuple(name, value), { maxLength: 4 }), fc.constantFrom('', ' ', '\n'), (fields, space) => {
      const members = fields.map(
        ([name, value]) => `${space}"${name}"${space}:${space}${JSON.stringify(value)}${space}`,
      )
      const body = withContext(`{${members}}`)
      const isKnown = scanEvent(Buffer.from(body)) !== null
      accepted += Number(isKnown)
      return !isKnown || check.Check(JSON.parse(body))
    }),
    { numRuns: 600 },
  )
  t.ok(accepted > 100, 'some are')
})

t.test('scanEvent and scanBatch accept ordinary bodies', async (t) => {
  const key = (text: string) => `"apiKey":"${text}"`
  const rows: [body: string, apiKey?: string | undefined, hasOthers?: boolean][] = [
    [one()],
    [one(key('sk_1')), 'sk_1'],
    [`{${key('')},${one().slice(1)}`, ''],
    [` \t\r\n${one(key('a/b+c=d.e ~'))}\n `, 'a/b+c=d.e ~'],
    ['{ "event" : "e" ,\n"distinct_id"\t:\r"u" , "timestamp" : 5 , "properties" : { "a" : [ 1 , [ ] , { } ] } }'],
    [one('"properties":null,"timestamp":null')],
    [one('"properties":{}')],
    [one('"insert_id":null,"session_id":null')],
    [one('"session_id":"s","properties":{"session_id":5},"insert_id":"i"')],
    [one(`"session_id":"${'é'.repeat(127)}x"`)],
    [one('"session":1,"sessionid":2,"Session_id":3,"session_ids":4'), undefined, true],
    ...['0', '5', '631151999', '4102444801', '1700000000000', '9999999999999'].map((time): [string] => [
      one(`"timestamp":${time}`),
    ]),
    [one('"properties":{"event":1,"apiKey":"k","a":1,"a":2,"\\u0061":3,"":4}')],
    [one('"more":[{"event":1,"apiKey":"k"}]'), undefined, true],
    [one('"é":1,"Event":2,"events":[],"":3,"__proto__":4,"apikey":"k"'), undefined, true],
    [one('"x":1,"x":2'), undefined, true],
    [`{"event":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\ud7ff\\ue000","distinct_id":"\u007f\u2028é😀"}`],
    [`{"event":"${'x'.repeat(255)}","distinct_id":"${'é'.repeat(127)}x"}`],
    [withValue(nested(200))],
    [withValue(nested(200, '[', '', ']'))],
    [withValue(nested(100, '{"a":[', '{}', ']}'))],
    [one(`"x":${nested(200)}`), undefined, true],
    [withValue('"\\ud800"')],
    [SAMPLES.event, 'sk_1', true],
  ]
  const alone = rows.map(([body, apiKey, hasOthers = false]): Row => ['event', body, { count: 1, apiKey, hasOthers }])
  t.same(misread(alone), [])
  // The key field of a single event is an unknown field in a batch.
  const inBatch = rows.map(([body, apiKey, hasOthers = false]): Row => {
    const found = { count: 2, apiKey: undefined, hasOthers: hasOthers || apiKey !== undefined }
    return ['batch', ` { "events" : [ ${one()} , ${body} ] } `, found]
  })
  t.same(misread(inBatch), [])
  const batches: Row[] = [
    ['batch', SAMPLES.batch, { count: 2, apiKey: 'sk_1', hasOthers: true }],
    ['batch', `{"apiKey":"k",${batchOf(one()).slice(1)}`, { count: 1, apiKey: 'k', hasOthers: false }],
    ['batch', `{"event":1,${batchOf(one()).slice(1)}`, { count: 1, apiKey: undefined, hasOthers: true }],
  ]
  t.same(misread(batches), [])
})

t.test('scanBatch accepts real events', async (t) => {
  const events = await realEvents()
  const found = { count: 1, apiKey: undefined, hasOthers: false }
  t.ok(events.every((event) => isDeepStrictEqual(scanned('event', event), found)))
  for (let i = 0; i < events.length; i += MAX_BATCH) {
    const some = events.slice(i, i + MAX_BATCH)
    const body = `{"apiKey":"sk_1","events":[${some.join(',')}]}`
    t.same(scanned('batch', body), { count: some.length, apiKey: 'sk_1', hasOthers: false })
  }
})

t.test('invalid, duplicate and escaped fields are unknown', async (t) => {
  const twice = [
    '"event":"e"',
    '"distinct_id":"u"',
    '"timestamp":1,"timestamp":1',
    '"properties":{},"properties":{}',
    '"session_id":"s","session_id":"s"',
  ]
  const rows = [
    ...['', ' ', '{}', '[]', 'null', '1', '"e"', '{', '}', '{"', '{,}', '\ufeff{}', `\ufeff${one()}`],
    ...['{"event":"e"}', '{"distinct_id":"u"}', '{"event":"e","timestamp":1}'],
    ...[`[${one()}]`, `${one()}x`, `${one()},`, `${one()}}`, `${one()}${one()}`, `${one()}\0`, `${one()}\u00a0`],
    ...[`{${one().slice(1, -1)},}`, `{,${one().slice(1)}`, one('5'), one('"x"'), one('"x":'), one('x:1'), one('"x" 1')],
    ...twice.map((fields) => one(fields)),
    ...['"\\u0065vent":"e"', '"time\\u0073tamp":1', '"propertie\\u0073":{}', '"session\\u005fid":"s"'].map(one),
    ...['{"\\u0065vent":"e","distinct_id":"u"}', '{"event":"e","distinct\\u005Fid":"u"}'],
    ...['5', 'null', '""', '{}', '["e"]', 'true'].map((event) => `{"event":${event},"distinct_id":"u"}`),
    ...['5', 'null', '""', '{}', '["e"]', 'true'].map((id) => `{"event":"e","distinct_id":${id}}`),
    ...['"\\ud83d"', '"\\uDE00"', '"a\\uDbFFb"', '"\\ud83dx\\ude00"', '"\\ude00\\ud83d"', '"\\\\\\udc00"'].map(
      (name) => `{"event":${name},"distinct_id":"u"}`,
    ),
    ...['x', 'é', '😀'].map((character) => `{"event":"${character.repeat(256)}","distinct_id":"u"}`),
    ...[
      '-1',
      '-0.5',
      '1e13',
      '10000000000000',
      '99999999999999',
      '631152000',
      '1700000000',
      '4102444800',
      '01',
      '00',
      '1.',
      '1e',
      '"5"',
      'true',
      '{}',
      '5x',
    ].map((time) => one(`"timestamp":${time}`)),
    ...['5', '"{}"', '[]', 'true', 'nul', '{', '{"a"}', '{"a":1,}'].map((value) => one(`"properties":${value}`)),
    ...['5', '-1', 'true', '""', '{}', '["s"]', 'nul', '"\\ud83d"', `"${'x'.repeat(256)}"`].flatMap((id) => [
      one(`"session_id":${id}`),
      one(`"insert_id":${id}`),
    ]),
  ]
  const unknown = rows.flatMap((body): Row[] => [
    ['event', body, null],
    ['batch', batchOf(body), null],
    ['batch', batchOf(one(), body, one()), null],
  ])
  t.same(misread(unknown), [])
  // In a batch, the key of an event is an unknown field.
  const keys = ['"apiKey":"k","apiKey":"k"', '"ap\\u0069Key":"k"'].map(one)
  t.same(misread(keys.map((body): Row => ['event', body, null])), [])

  const batches = [
    ...['{}', '{"events":[]}', '{"events":null}', '{"events":{}}', '{"events":1}', one(), `[${batchOf(one())}]`],
    ...[`{"events":[${one()}],"events":[${one()}]}`, `{"\\u0065vents":[${one()}]}`, `{"events":[${one()},]}`],
    ...[`{"events":[,${one()}]}`, `{"events":[${one()}${one()}]}`, `{"events":[${one()}}`, `{"events":[${one()}]`],
    ...[`{"events":${one()}}`, `{"events":[${one()}],}`, `${batchOf(one())}x`, `{"events":[[${one()}]]}`],
    `{"apiKey":"k","events":[${one()}],"apiKey":"k"}`,
    batchOf(...Array<string>(MAX_BATCH + 1).fill(one())),
  ]
  t.same(misread(batches.map((body): Row => ['batch', body, null])), [])
  t.equal(scanned('batch', batchOf(...Array<string>(MAX_BATCH).fill(one())))?.count, MAX_BATCH)
})

t.test('valid but unusual bodies are left to the parser or scanned correctly', async (t) => {
  const rows = [
    ...['-0', '0.0', '1.5', '1e3', '1E3', '1e-3', '9999999999999.0', '9999999999999.5', '0e99'].map((time) =>
      one(`"timestamp":${time}`),
    ),
    ...['null', '5', '{}', '[]', '"é"', '"\\u0073k"', '"a\\/b"', '"\u007f"'].map((key) => one(`"apiKey":${key}`)),
    ...['"\\ud83d\\ude00"', '"\\uD83D\\uDE00"', `"${'\\u0041'.repeat(255)}"`, `"${'😀'.repeat(255)}"`].map(
      (name) => `{"event":${name},"distinct_id":"u"}`,
    ),
    ...[255, 256, 257, 258, 5000].map((depth) => withValue(nested(depth))),
    ...[256, 257].map((depth) => one(`"x":${nested(depth, '[', '', ']')}`)),
    one('"a\\"b":1'),
  ]
  const inBatch = rows.flatMap((body) => [batchOf(body), `{"events":[${one()}],${body.slice(1)}`])
  t.same([rows.filter((body) => !isSafe('event', body)), inBatch.filter((body) => !isSafe('batch', body))], [[], []])
})

t.test('a scan accepts exactly the values of the JSON grammar', async (t) => {
  const right = [
    ...['0', '-0', '1', '-1', '10', '0.0', '1.50', '1e5', '1E5', '1e+5', '1E-05', '0e0', '-0.1e1', '1e400'],
    ...['12345678901234567890', 'true', 'false', 'null', '""', '"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00Ff"', '"\u007f/\'"'],
    ...['"é\u2028😀"', '[]', '{}', '[[],[{}]]', '{"a":{"b":[]}}', '[ 1 , 2 ]', '{ "a" : 1 , "b" : 2 }', '"}]{["'],
  ]
  const wrong = [
    ...['01', '-01', '00', '1.', '.5', '-', '-.5', '+1', '1e', '1e+', '1E-', '1.e1', '.', 'e1', '1e1.5', '1..2', '--1'],
    ...['0x1', '1_0', 'NaN', 'Infinity', '-Infinity', '1n', '1 2', 't', 'tru', 'truE', 'True', 'truee', 'fals', 'nul'],
    ...['falsey', 'nulll', 'undefined', "'a'", 'a', '"', '"a', '"\\"', '"a"b', '"a""b"', '\ufeff1', '\u00a01', '/**/1'],
    ...[
      '"\\x"',
      '"\\u12"',
      '"\\u"',
      '"\\u123"',
      '"\\u12g4"',
      '"\\u 123"',
      '"\\U0041"',
      '"\\\'"',
      '"\\0"',
      '"\\"',
      '\\',
    ],
    ...Array.from({ length: 0x20 }, (_, code) => `"a${String.fromCharCode(code)}"`),
    ...Array.from({ length: 0x80 }, (_, code) => String.fromCharCode(code))
      .filter((character) => !'"\\/bfnrt'.includes(character))
      .map((character) => `"\\${character}"`),
    ...[
      '[',
      ']',
      '[1',
      '1]',
      '[,]',
      '[1,]',
      '[,1]',
      '[1,,2]',
      '[1 2]',
      '[1:2]',
      '[1}',
      '[[]',
      '[]]',
      '["a":1]',
      '[{]}',
    ],
    ...['{', '}', '{"a"', '{"a":', '{"a":1', '{"a":1]', '{,}', '{"a":1,}', '{,"a":1}', '{"a":1,,"b":2}', '{"a" 1}'],
    ...[
      '{"a"}',
      '{"a":}',
      '{:1}',
      '{a:1}',
      '{1:1}',
      "{'a':1}",
      '{"a":1 "b":2}',
      '{"a"::1}',
      '{{}}',
      '{[]}',
      '{"a\n":1}',
    ],
    ...['', ' ', ',', ':', '\0', '\v', '\f', '{"\\x":1}', '{"a\\":1}', '{null:1}', '[1],', '{}}', '{"a":[}]'],
  ]
  const places = [
    (value: string) => one(`"properties":{"v":${value}}`),
    (value: string) => one(`"properties":{"v":[0,${value} ,{}]}`),
    (value: string) => one(`"properties":{"v":{"a": ${value},"b":1}}`),
    (value: string) => one(`"x":${value}`),
  ]
  for (const [i, place] of places.entries()) {
    const found = { count: 1, apiKey: undefined, hasOthers: i === 3 }
    const rows = (value: string, found: Found | null): Row[] => [
      ['event', place(value), found],
      ['batch', batchOf(place(value)), found],
    ]
    t.same(misread(right.flatMap((value) => rows(value, found))), [])
    t.same(misread(wrong.flatMap((value) => rows(value, null))), [])
  }
  const around = (value: string) => `{"x":${value},"events":[${one()}]}`
  const found = { count: 1, apiKey: undefined, hasOthers: true }
  t.same(misread(right.map((value): Row => ['batch', around(value), found])), [])
  t.same(misread(wrong.map((value): Row => ['batch', around(value), null])), [])
})

t.test('a truncated body is unknown, wherever it ends', async (t) => {
  for (const kind of KINDS) {
    const raw = Buffer.from(SAMPLES[kind])
    t.not(scanned(kind, raw), null)
    const scan = (part: Buffer) => (kind === 'event' ? scanEvent(part) : scanBatch(part, MAX_BATCH))
    // The bytes after the end in memory do not matter.
    for (let end = 0; end < raw.length; end++) t.equal(scan(raw.subarray(0, end)), null, `${kind} cut at ${end}`)
    for (let start = 2; start < raw.length; start++) t.equal(scan(raw.subarray(start)), null, `${kind} from ${start}`)
  }
})

t.test('no change of a single byte makes a scan accept an invalid body', async (t) => {
  const bytes = [...Buffer.from('"\\{}[],:019-+.eEuntfabdD8/ \n\t\r*'), 0x00, 0x01, 0x1f, 0x7f]
  for (const kind of KINDS) {
    const raw = Buffer.from(SAMPLES[kind])
    const bad: string[] = []
    let known = 0
    let unknown = 0
    const look = (...parts: (Buffer | number[])[]) => {
      const body = Buffer.concat(parts.map((part) => Uint8Array.from(part)))
      if (!isUtf8(body)) return
      if (scanned(kind, body)) known++
      else unknown++
      if (!isSafe(kind, body)) bad.push(body.toString())
    }
    for (let i = 0; i < raw.length; i++) {
      const before = raw.subarray(0, i)
      look(before, raw.subarray(i + 1))
      for (const byte of bytes) {
        look(before, [byte], raw.subarray(i + 1))
        look(before, [byte], raw.subarray(i))
      }
    }
    t.same(bad, [])
    t.ok(known > 100 && unknown > 100, `${kind}: ${known} were known, ${unknown} were not`)
  }
})

const space = fc.string({ unit: fc.constantFrom(' ', '\n', '\t', '\r'), maxLength: 3 })
const spaces = fc.array(space, { minLength: 1, maxLength: 7 })
/** The same text with other white space around its tokens. */
function spread(text: string, spaces: string[]): string {
  let used = 0
  const next = () => spaces[used++ % spaces.length] ?? ''
  return text.replace(/"(?:[^"\\]|\\.)*"|[{}[\],:]/g, (token) => next() + token + next())
}

const anyText = fc.oneof(
  fc.string(),
  fc.string({ unit: codePoint }),
  fc.string({ unit: fc.nat(0xffff).map((code) => String.fromCharCode(code)) }),
)
const value = fc.jsonValue({ maxDepth: 4, stringUnit: codePoint })
const properties = fc.dictionary(anyText, fc.oneof(value, anyText), { maxKeys: 5 })
const name = fc
  .oneof(fc.string({ minLength: 1 }), fc.string({ unit: codePoint, minLength: 1, maxLength: 60 }))
  .filter((text) => Buffer.byteLength(JSON.stringify(text)) <= 257)
const KNOWN = [...EVENT_FIELDS, 'events', 'apiKey']
const otherName = fc
  .oneof(fc.string(), fc.constantFrom('time', 'eventful', 'Event', '__proto__', 'constructor', 'user-id', 'é'))
  .filter((text) => !KNOWN.includes(text) && !JSON.stringify(text).includes('\\'))
const others = fc.dictionary(otherName, value, { maxKeys: 2 })
const key = fc.option(fc.stringMatching(/^[\w/+=.-]{0,40}$/), { nil: undefined })
const fields = fc.record(
  {
    event: name,
    distinct_id: name,
    timestamp: fc.option(fc.nat({ max: 9_999_999_999_999 }).filter((time) => !looksLikeSeconds(time))),
    properties: fc.option(properties),
    insert_id: fc.option(name),
    session_id: fc.option(name),
  },
  { requiredKeys: ['event', 'distinct_id'] },
)

/** Members of the objects, in any order. */
const objectOf = (...parts: fc.Arbitrary<object>[]) =>
  fc
    .tuple(...parts)
    .map((objects) => objects.flatMap((object) => Object.entries(object)))
    .chain((all) => fc.shuffledSubarray(all, { minLength: all.length }))
    .map((all) => `{${all.map(([name, value]) => `${JSON.stringify(name)}:${text(value)}`).join(',')}}`)
/** A list of events is returned as their texts. */
class Texts extends Array<string> {}
const text = (value: unknown) => (value instanceof Texts ? `[${value.join(',')}]` : JSON.stringify(value))
const keyField = key.map((apiKey) => (apiKey === undefined ? {} : { apiKey }))
const list = fc.array(objectOf(fields, others), { minLength: 1, maxLength: 5 }).map((all) => ({
  events: Texts.from(all),
}))
const bodies = { event: objectOf(fields, others, keyField), batch: objectOf(list, others, keyField) }

for (const kind of KINDS) {
  t.test(`every ordinary body is known: ${kind}`, async () => {
    fc.assert(
      fc.property(bodies[kind], spaces, (body, spaces) => {
        const text = spread(body, spaces)
        const found = scanned(kind, text)
        return found !== null && isDeepStrictEqual(found, parsed(kind, text))
      }),
      { numRuns: 300 },
    )
  })

  t.test(`a scan accepts no invalid body, however it was altered: ${kind}`, async (t) => {
    const token = fc.constantFrom(
      ...['"', '\\', '{', '}', '[', ']', ',', ':', '-', '.', 'e', '0', ' ', '\n', '\0', '\u001f', 'é', '😀', '\ud83d'],
      ...[
        '"event":"e",',
        ',"event":"e"',
        '"distinct_id":"u",',
        '"timestamp":1.5,',
        '"timestamp":-1,',
        '"timestamp":01,',
      ],
      ...['"properties":{},', '"properties":[],', '"apiKey":"k",', '"apiKey":null,', '"events":[],', '"event"', '"e"'],
      ...['null', 'true', '1e9', '""', '{}', '[]', '\\u0065', '\\ud83d', '\\ude00', '\\"', '\\x', '"a":1,', '1,', ',1'],
    )
    const edit = fc.record({
      at: fc.nat(),
      removed: fc.constantFrom(0, 0, 1, 1, 2, 10),
      put: fc.oneof({ arbitrary: fc.constant(''), weight: 1 }, { arbitrary: token, weight: 3 }),
    })
    let known = 0
    fc.assert(
      fc.property(bodies[kind], spaces, fc.array(edit, { minLength: 1, maxLength: 4 }), (body, spaces, edits) => {
        let text = spread(body, spaces)
        for (const { at, removed, put } of edits) {
          const start = at % (text.length + 1)
          text = text.slice(0, start) + put + text.slice(start + removed)
        }
        const raw = Buffer.from(text)
        if (scanned(kind, raw)) known++
        return isSafe(kind, raw)
      }),
      // Shrinking edits takes minutes.
      { numRuns: 1500, endOnFailure: true },
    )
    t.ok(known > 100, `${known} were known nevertheless`)
  })
}

t.test('overwriteKey overwrites only the key', async (t) => {
  const event = (key: string) => `{"é":"sk_1","apiKey" : "${key}","event":"sk_1","distinct_id":"u","x":"\\"apiKey\\":"}`
  const batch = (key: string) => `{"events":[{"event":"sk_1","distinct_id":"😀","apiKey":"sk_1"}],"apiKey":\n"${key}"}`
  const overwritten = (body: string, scan: (raw: Buffer) => ScannedBody | null) => {
    const raw = Buffer.from(body)
    scan(raw)?.overwriteKey(raw)
    return raw.toString()
  }
  for (const key of ['sk_1', '', 'a/b c']) {
    t.equal(overwritten(event(key), scanEvent), event('*'.repeat(key.length)))
    t.equal(
      overwritten(batch(key), (raw) => scanBatch(raw, 1)),
      batch('*'.repeat(key.length)),
    )
  }
  t.equal(overwritten(SAMPLES.event, scanEvent), SAMPLES.event.replace('sk_1', '****'))
  for (const body of [one(), one('"x":"apiKey"'), one('"properties":{"apiKey":"sk_1"}')]) {
    t.equal(overwritten(body, scanEvent), body, 'there is none')
    t.equal(
      overwritten(batchOf(body), (raw) => scanBatch(raw, 1)),
      batchOf(body),
      'there is none',
    )
  }
})

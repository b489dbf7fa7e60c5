import fc from 'fast-check'
import t from 'tap'
import { MAX_BATCH } from '../../src/contract/limits.js'
import { elementTexts, memberText } from '../../src/json/texts.js'
import { toRequestContext } from '../../src/model/request-context.js'
import { scanBatch, scanEvent } from '../../src/model/scan.js'
import { mayHaveContexts } from '../../src/model/scanned-body.js'
import {
  ERASED_EVENT,
  findErasedIndexes,
  keepVerbatim,
  type ParsedBody,
  type ParsedEvent,
  rewriteEntry,
} from '../../src/model/verbatim.js'

const KEY = 'sk_3xAmPle-key_0123456789'

interface Kept {
  event: string
  distinct_id: string
  timestamp?: number | null
  insert_id?: string | null
  session_id?: string | null
  properties?: unknown
  apiKey?: unknown
}

/** An event as the store sees it: properties as their exact text, which a rewritten body holds in a string. */
function seen(text: string) {
  const { event, distinct_id, timestamp, insert_id, session_id, properties } = JSON.parse(text) as Kept
  const exact = typeof properties === 'string' ? properties : (memberText(text, 'properties') ?? 'null')
  return {
    event,
    distinct_id,
    timestamp: timestamp ?? null,
    ...(insert_id && { insert_id }),
    ...(session_id && { session_id }),
    properties: exact === 'null' ? '{}' : exact,
  }
}

function seenInBatch(body: Buffer) {
  const list = memberText(body.toString(), 'events') ?? '[]'
  return elementTexts(list).map((text) => seen(text))
}

const hexOf = (character: string) => character.charCodeAt(0).toString(16).padStart(4, '0')
const parse = (body: string): ParsedBody => ({ isBatch: false, count: 1, events: [JSON.parse(body)] })
const parseBatch = (body: string): ParsedBody => {
  const { events } = JSON.parse(body) as { events: ParsedEvent[] }
  return { isBatch: true, count: events.length, events }
}
const HEADER_KEY = 'sk_in_header'

/** The kept text of a body that is parsed only if the scan does not recognise it. */
function kept(body: string, key = HEADER_KEY): string {
  const raw = Buffer.from(body)
  return keepVerbatim(raw, scanEvent(raw) ?? parse(body), key, 'own').toString()
}

function keptOfBatch(body: string, key = HEADER_KEY): string {
  const raw = Buffer.from(body)
  return keepVerbatim(raw, scanBatch(raw, MAX_BATCH) ?? parseBatch(body), key, 'own').toString()
}

/** The kept text of a body that is parsed whether or not the scan would recognise it. */
const keptParsed = (body: string, key = HEADER_KEY) =>
  keepVerbatim(Buffer.from(body), parse(body), key, 'own').toString()
const keptParsedBatch = (body: string, key = HEADER_KEY) =>
  keepVerbatim(Buffer.from(body), parseBatch(body), key, 'own').toString()

t.test('keepVerbatim overwrites a key in the body in place', async (t) => {
  const body = (key: string) =>
    `{ "apiKey":"${key}","event":"e","distinct_id":"é😀","properties":{"a" : 1.0},"timestamp":15 }`
  t.equal(kept(body(KEY), KEY), body('*'.repeat(KEY.length)))

  const batch = (key: string) => `{"events":[{"event":"e","distinct_id":"u"}],"apiKey":"${key}"}`
  t.equal(keptOfBatch(batch(KEY), KEY), batch('*'.repeat(KEY.length)))

  const raw = Buffer.from(body(KEY))
  t.equal(keepVerbatim(raw, scanEvent(raw) ?? parse(body(KEY)), KEY, 'own'), raw, 'the very same bytes, not a copy')
  const rawBatch = Buffer.from(batch(KEY))
  t.equal(keepVerbatim(rawBatch, scanBatch(rawBatch, 1) ?? parseBatch(batch(KEY)), KEY, 'own'), rawBatch)
})

t.test('events get the context of their request, and nothing else in them changes', async (t) => {
  const given = toRequestContext({ browser: 'Chrome', bot: true })
  const head = '{"context":{"browser":"Chrome","bot":true},'
  const one = (raw: string) => Buffer.from(raw)
  const event = '"event":"e" , "distinct_id":"u","properties":{ "a":1.0 }}'
  t.equal(
    keepVerbatim(one(` {${event} `), scanEvent(one(` {${event} `)) ?? parse(`{${event}`), KEY, given).toString(),
    `${head}${event} `,
  )
  const own = `{"context":{"os":"X"},${event}`
  const stored = keepVerbatim(one(own), scanEvent(one(own)) ?? parse(own), KEY, given).toString()
  t.equal(stored, `${head}"event":"e","distinct_id":"u","timestamp":null,"properties":"{ \\"a\\":1.0 }"}`)
  t.equal(keepVerbatim(one(own), parse(own), KEY, null).toString(), stored.replace(head, '{'), 'a page has no say')
  t.equal(keepVerbatim(one(own), parse(own), KEY, 'own').toString(), stored.replace(head, '{"context":{"os":"X"},'))

  for (const [events, more] of [
    [[event], ''],
    [[event, '"distinct_id":"u","event":"f"}', event], ',"x":1'],
  ] as const) {
    const body = `{"apiKey":"${KEY}","events" : [ ${events.map((text) => `{${text}`).join(' , ')} ]${more}}`
    const raw = one(body)
    const entry = keepVerbatim(raw, scanBatch(raw, MAX_BATCH) ?? parseBatch(body), KEY, given)
    if (more === '') t.equal(entry.toString(), ` {"events":[${events.map((text) => head + text)}]}`)
    t.ok(mayHaveContexts(entry), 'the entry says so')
    t.strictSame(
      elementTexts(memberText(entry.toString(), 'events') ?? '').map((text) => memberText(text, 'context')),
      events.map(() => given?.json),
    )
    t.notOk(entry.includes(KEY))
    t.strictSame(rewriteEntry(entry), rewriteEntry(rewriteEntry(entry)), 'rewriting keeps them')
    t.match(rewriteEntry(entry).toString(), / \{"events":\[\{"context":\{"browser":"Chrome","bot":true\},/)
  }

  const plain = one(`{"events":[{${event}]}`)
  t.notOk(mayHaveContexts(keepVerbatim(plain, scanBatch(plain, 1) ?? parseBatch(String(plain)), KEY, 'own')))
  const imported = one(`{"events":[{${event},${own}]}`)
  const kept = keepVerbatim(imported, scanBatch(imported, 2) ?? parseBatch(String(imported)), KEY, 'own')
  t.equal(kept.toString(), ` ${imported}`, 'of a secret key, the very same bytes after the mark')
})

t.test('keepVerbatim leaves a body without a key unchanged', async (t) => {
  const body = ' {"event":"e" , "distinct_id":"u","more":[1.0]} '
  t.equal(kept(body), body)
  const batch = ' {"events":[ {"event":"e" , "distinct_id":"u","x":1} ],"more":"apiKey"} '
  t.equal(keptOfBatch(batch), batch)
})

t.test('a body that had to be parsed is rewritten', async (t) => {
  const event = (properties: string) => `{"event":"e","distinct_id":"u","timestamp":5,"properties":${properties}}`
  const body = ` { "apiKey":"${KEY}",${event('{ "a" : 1.0 }').slice(1)} `
  t.equal(keptParsed(body, KEY), event('"{ \\"a\\" : 1.0 }"'))
  t.equal(keptParsedBatch(`{"events":[${body}],"apiKey":"${KEY}"}`, KEY), `{"events":[${keptParsed(body, KEY)}]}`)
  t.equal(
    kept('{"event":"e","distinct_id":"u","apiKey":null}'),
    '{"event":"e","distinct_id":"u","timestamp":null,"properties":"{}"}',
  )
  const raw = Buffer.from(body)
  keepVerbatim(raw, parse(body), KEY, 'own')
  t.equal(raw.toString(), body, 'its bytes stay as they are')
})

t.test('a body whose key cannot be located for certain is rewritten', async (t) => {
  const rest = '"event":"e","distinct_id":"u"'
  const rows: [body: string, key: string, name: string][] = [
    [`{"apiKey":"\\u0073${KEY.slice(1)}",${rest}}`, KEY, 'spelled with an escape'],
    [`{"apiKey":"${KEY.replace('_', '\\u005f')}",${rest}}`, KEY, 'an escaped underscore'],
    [`{"apiKey":"${KEY.replace('_', '\\u005F')}",${rest}}`, KEY, 'in upper case'],
    [`{"apiKey":"${KEY.replace('-', '\\u002D')}",${rest}}`, KEY, 'an escaped hyphen'],
    [`{"apiKey":"${KEY.replace('0', '\\u0030')}",${rest}}`, KEY, 'an escaped digit'],
    [`{"apiKey":"${KEY}","other":"${KEY}",${rest}}`, KEY, 'there twice'],
    [`{"apiKey":"${KEY}","apiKey":"${KEY}",${rest}}`, KEY, 'a duplicate field'],
    [`{"apiKey":"${KEY}","nested":{"apiKey":"${KEY}"},${rest}}`, KEY, 'there twice, once deeper'],
    [`{"apiKey":"${KEY}","${KEY}":1,${rest}}`, KEY, 'there as a name, too'],
    [`{"apiKey":"${KEY}","other":"\\u0073${KEY.slice(1)}",${rest}}`, KEY, 'there twice, once spelled with an escape'],
    [`{"apiKey":"a/b","other":"a\\/b",${rest}}`, 'a/b', 'there twice, once with a slash that is escaped'],
    [`{"other":"${KEY}",${rest}}`, KEY, 'in the header, and in another field'],
    [`{"apiKey":"a/b+c=d.e",${rest}}`, 'a/b+c=d.e', 'a key of other characters'],
    [`{"apiKey":"a\\/b\\/c",${rest}}`, 'a/b/c', 'with slashes that are escaped'],
    [`{"apiKey":"a\\/b\\/c","note":"a/b/c",${rest}}`, 'a/b/c', 'and one without it'],
    [`{"apiKey":"schlüssel","event":"e","distinct_id":"u"}`, 'schlüssel', 'a key beyond ASCII'],
    [`{"apiKey":"quo\\"te\\n",${rest}}`, 'quo"te\n', 'a key with a quote'],
    [`{"ap\\u0069Key":"${KEY}",${rest}}`, KEY, 'a name spelled with an escape'],
  ]
  for (const [body, key, name] of rows) {
    const text = kept(body, key)
    t.notOk(text.includes(key), name)
    t.notOk(JSON.stringify(JSON.parse(text)).includes(JSON.stringify(key).slice(1, -1)), `${name}, nor by an escape`)
    t.same(seen(text), { event: 'e', distinct_id: 'u', timestamp: null, properties: '{}' }, name)

    const inBatch = body.replace(`,"event":"e","distinct_id":"u"`, `,"events":[{${rest}}]`)
    const batch = keptOfBatch(inBatch, key)
    t.notOk(JSON.stringify(JSON.parse(batch)).includes(JSON.stringify(key).slice(1, -1)), `${name}, in a batch`)
    t.same(seenInBatch(Buffer.from(batch)), [seen(text)], `${name}, in a batch`)
  }
})

t.test('keepVerbatim does not store a key that an event also contains', async (t) => {
  const event = (properties = '{}') =>
    `{"apiKey":"${KEY}","event":"e","distinct_id":"u","properties":${properties},"x":"${KEY}"}`
  const body = `{"apiKey":"${KEY}","events":[${event()},${event('{"a":1.0}')}]}`
  const batch = keptOfBatch(body, KEY)
  t.notOk(batch.includes(KEY))
  t.same(
    seenInBatch(Buffer.from(batch)).map(({ properties }) => properties),
    ['{}', '{"a":1.0}'],
  )
})

t.test('properties are data, even if they contain the key', async (t) => {
  const properties = `{"note":"${KEY}","n":1.0}`
  const body = `{"apiKey":"${KEY}","event":"e","distinct_id":"u","properties":${properties}}`
  for (const text of [kept(body, KEY), kept(body.replace('{', '{"x":1,'), KEY), keptParsed(body, KEY)]) {
    t.equal(seen(text).properties, properties)
    t.notOk(text.replace(KEY, '').includes(KEY))
  }
})

t.test('field names are data, even if they contain the key', async (t) => {
  const body = `{"apiKey":"${KEY}","event":"${KEY}","distinct_id":"u"}`
  for (const text of [kept(body, KEY), keptParsed(body, KEY)]) {
    t.equal(seen(text).event, KEY)
    t.notOk(text.replace(KEY, '').includes(KEY))
  }
})

t.test('an escaped field name is written without escapes', async (t) => {
  const body = '{"\\u0065vent":"e","distinct\\u005fid":"u","times\\u0074amp":5,"propert\\u0069es":{"\\u0061":1.0}}'
  const text = kept(body)
  t.equal(text, '{"event":"e","distinct_id":"u","timestamp":5,"properties":"{\\"\\\\u0061\\":1.0}"}')
  t.same(seenInBatch(Buffer.from(keptOfBatch(`{"ev\\u0065nts":[${body}]}`))), [seen(text)])
})

t.test('a body with a single escape in a field name is rewritten', async (t) => {
  for (const name of ['event', 'distinct_id', 'timestamp', 'properties']) {
    for (const [i, character] of [...name].entries()) {
      for (const hex of new Set([hexOf(character), hexOf(character).toUpperCase()])) {
        const spelled = `${name.slice(0, i)}\\u${hex}${name.slice(i + 1)}`
        const plain = '{"event":"e","distinct_id":"u","timestamp":5,"properties":{"a":1.0}}'
        const text = kept(plain.replace(name, spelled))
        t.equal(text, '{"event":"e","distinct_id":"u","timestamp":5,"properties":"{\\"a\\":1.0}"}', spelled)
      }
    }
  }
})

t.test('rewriteEntry keeps only fields of the contract, each once, with the last value', async (t) => {
  const body = `{"events":[
    {"event":"a","distinct_id":"u","event":"b","properties":{"x":1},"properties":{"x" : 2.0},"timestamp":1,"timestamp":null,"y":[{}]},
    {"distinct_id":"u\\ud83d\\ude00","event":"\\n\\"","properties":null},
    {"session_id":"s","insert_id":"i","distinct_id":"u","event":"e","properties":{"a":"\\ud800"},"timestamp":1e3}
  ] , "apiKey" : "***"}`
  const text = rewriteEntry(Buffer.from(body)).toString()
  t.equal(
    text,
    '{"events":[' +
      '{"event":"b","distinct_id":"u","timestamp":null,"properties":"{\\"x\\" : 2.0}"},' +
      '{"event":"\\n\\"","distinct_id":"u😀","timestamp":null,"properties":"{}"},' +
      '{"event":"e","distinct_id":"u","timestamp":1000,"insert_id":"i","session_id":"s","properties":"{\\"a\\":\\"\\\\ud800\\"}"}]}',
  )
  t.equal(rewriteEntry(Buffer.from('{"events":[]}')).toString(), '{"events":[]}')
})

/** JSON text with the spellings that a parser loses. */
const name = fc.constantFrom('"a"', '"b c"', '"\\u0061"', '"__proto__"', '"é😀"', '"apiKey"', '"event"', '"events"')
const scalar = fc.oneof(
  fc.constantFrom('1.0', '1e400', '-0', '12345678901234567890', '0.10', '1E+2', 'true', 'null', '""', '"\\\\"'),
  fc.constantFrom('"\\""', '"\\/\\b\\u001f"', '"\\ud800"', '"}]{["', '"*"', '"\\\\u0041"', '"\\u0041"', '"é\u2028😀"'),
)
const space = fc.constantFrom('', '', ' ', '\n\t', '\r ')
const { value, object } = fc.letrec<{ value: string; object: string }>((tie) => ({
  value: fc.oneof({ maxDepth: 3 }, scalar, tie('object'), arrayOf(tie('value'))),
  object: fc
    .array(fc.tuple(space, name, space, tie('value'), space), { maxLength: 4 })
    .map((all) => `{${all.map(([s1, name, s2, value, s3]) => `${s1}${name}${s2}:${s1}${value}${s3}`).join(',')}}`),
}))
function arrayOf(item: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc
    .array(
      fc.tuple(space, item, space).map((parts) => parts.join('')),
      { maxLength: 4 },
    )
    .map((all) => `[${all}]`)
}

const escaped = (text: string) => [...text].map((character) => `\\u${hexOf(character)}`).join('')
const spelled = (text: string) =>
  fc.constantFrom(`"${text}"`, `"${text}"`, `"${escaped(text)}"`, `"${escaped(text.slice(0, 1))}${text.slice(1)}"`)
const text = fc.oneof(
  fc.string({ minLength: 1, maxLength: 20 }).map((s) => JSON.stringify(s)),
  fc.string({ minLength: 1, maxLength: 5, unit: 'grapheme' }).map((s) => JSON.stringify(s)),
  fc.constantFrom('"\\u0041b"', '"a\\/b"', '"*"', '"\\u0000"', '"\\"\\\\"'),
)
const timestamp = fc.constantFrom('0', '1700000000000', '1.7e12', '1700000000000.5', 'null', '9999999999999', '-0')
const field = (label: string, value: fc.Arbitrary<string>) =>
  fc.tuple(spelled(label), space, value).map(([label, space, value]) => `${label}${space}:${space}${value}`)

/** The text of an event with its fields in any order, `extra` among them. */
const eventWith = (...extra: fc.Arbitrary<string>[]) =>
  fc
    .tuple(
      field('event', text),
      field('distinct_id', text),
      fc.option(field('timestamp', timestamp), { nil: '' }),
      fc.option(field('properties', fc.oneof(object, object, fc.constant('null'))), { nil: '' }),
      fc.option(field('insert_id', fc.oneof(text, fc.constant('null'))), { nil: '' }),
      fc.option(field('session_id', fc.oneof(text, fc.constant('null'))), { nil: '' }),
      fc.option(field('other', value), { nil: '' }),
      ...extra,
    )
    .chain((fields) => fc.shuffledSubarray(fields.filter(Boolean), { minLength: fields.filter(Boolean).length }))
    .map((fields) => `{${fields.join(',')}}`)
const keyField = (key: string) => field('apiKey', spelled(key))

t.test('every event is stored as it is parsed, without the key', async () => {
  fc.assert(
    fc.property(space, eventWith(keyField(KEY)), (space, body) => {
      return [kept(space + body + space, KEY), keptParsed(space + body + space, KEY)].every((result) => {
        const { apiKey } = JSON.parse(result) as Kept
        return !result.includes(KEY) && apiKey !== KEY && sameEvent(seen(result), seen(body))
      })
    }),
    { numRuns: 300 },
  )
})

t.test('every batch is stored as it is parsed, without the key', async () => {
  const batch = fc
    .tuple(
      fc.array(eventWith(), { minLength: 1, maxLength: 5 }),
      fc.option(keyField(KEY), { nil: '' }),
      field('other', value),
      spelled('events'),
      fc.boolean(),
    )
    .map(([events, key, other, name, first]) => {
      const rest = [key, other].filter(Boolean)
      const list = `${name}:[${events.join(' , ')}]`
      return { body: `{${(first ? [list, ...rest] : [...rest, list]).join(',')}}`, hasKey: key !== '', events }
    })
  fc.assert(
    fc.property(space, batch, (space, { body, hasKey, events }) => {
      const key = hasKey ? KEY : undefined
      return [keptOfBatch(space + body, key), keptParsedBatch(space + body, key)].every((result) => {
        const found = seenInBatch(Buffer.from(result))
        return (
          !result.includes(KEY) &&
          (JSON.parse(result) as Kept).apiKey !== KEY &&
          found.length === events.length &&
          found.every((event, i) => sameEvent(event, seen(events[i] ?? '')))
        )
      })
    }),
    { numRuns: 300 },
  )
})

t.test('rewriteEntry preserves the content of every entry', async () => {
  fc.assert(
    fc.property(fc.array(eventWith(), { minLength: 1, maxLength: 5 }), space, (events, space) => {
      const found = seenInBatch(rewriteEntry(Buffer.from(`{"events":[${events.join(`${space},`)}]}`)))
      return found.length === events.length && found.every((event, i) => sameEvent(event, seen(events[i] ?? '')))
    }),
    { numRuns: 300 },
  )
})

t.test('rewriteEntry does not change events that were rewritten on arrival', async (t) => {
  // Single events of the same moment share an entry; one of them had its names or key spelled with escapes.
  const events = [
    kept('{"event":"caf\\u0065","distinct_id":"u","properties":{"a":1.0}}'),
    kept('{"event":"plain","distinct_id":"u","properties":{"b" : 1.0}}'),
  ]
  const entry = Buffer.from(`{"events":[${events.join(',')}]}`)
  const properties = (body: Buffer) => seenInBatch(body).map(({ properties }) => properties)
  t.same(properties(entry), ['{"a":1.0}', '{"b" : 1.0}'])
  t.same(properties(rewriteEntry(entry)), ['{"a":1.0}', '{"b" : 1.0}'])
  t.same(rewriteEntry(rewriteEntry(entry)), rewriteEntry(entry), 'a second time changes nothing')
})

/** JSON.stringify writes `-0` as `0`, and `-0` is not a time. */
function sameEvent(a: ReturnType<typeof seen>, b: ReturnType<typeof seen>): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

t.test('findErasedIndexes finds the erased events of an entry', async (t) => {
  const own = '{"event":"e","distinct_id":"u","properties":{"like":{"event":"","distinct_id":""}}}'
  const at = (body: string) => findErasedIndexes(Buffer.from(body))
  t.strictSame(at(`{"events":[${[ERASED_EVENT, own, own, ERASED_EVENT].join(',')}]}`), [0, 3])
  t.strictSame(at(`{"events":[${own}]}`), [])
  for (const other of [
    '',
    ERASED_EVENT,
    `[${ERASED_EVENT}]`,
    `{"events":${ERASED_EVENT}}`,
    `{"events":[${ERASED_EVENT}`,
  ]) {
    t.strictSame(at(other), [], `${other} is no entry`)
  }
})

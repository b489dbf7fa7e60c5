import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import { EventFault, formatEvent } from '../../src/contract/event-text.js'
import type { JsonValue } from '../../src/json/value.js'
import {
  amplitudeGroupIdentifications,
  amplitudeIdentifications,
  amplitudeMessages,
  amplitudeUserMappings,
} from '../../src/vendors/amplitude.js'
import { decodeEach, type SdkMessage, type SdkRequest } from '../../src/vendors/message.js'
import { mixpanelEvents, mixpanelUpdates } from '../../src/vendors/mixpanel.js'
import { openpanelMessages } from '../../src/vendors/openpanel.js'
import { posthogMessages } from '../../src/vendors/posthog.js'
import { NoEvent, RowFault, readRow } from '../../src/vendors/row.js'
import { SdkBodyError, unwrapSdkBody } from '../../src/vendors/sdk-body.js'
import { segmentMessages } from '../../src/vendors/segment.js'
import { VENDORS } from '../../src/vendors/vendors.js'
import { codePoint } from '../fuzz/texts.js'
import { json } from './sdk-messages.js'

const KEY = 'wk_key'
const LIMIT = 1_000_000
const request: SdkRequest = { key: KEY, receivedAt: 1e12, header: () => undefined, fields: new Map() }
const runs = { numRuns: 40 }

/** Values whose members shadow methods, or that are at a limit. */
const HOSTILE = [
  '{"toString":""}',
  '{"valueOf":5,"toString":null}',
  '{"toJSON":"","constructor":"","length":-1}',
  '{"__proto__":{"toString":1}}',
  '{"__proto__":null,"hasOwnProperty":0}',
  '[{"toString":""}]',
  '[[],{"valueOf":{}}]',
  '{"then":1,"Symbol.toPrimitive":1,"@@toPrimitive":1}',
  '"__proto__"',
  '"constructor"',
  '"toString"',
  '"\\ud800"',
  '"\\u0000"',
  '1e999',
  '-0',
  '0.1e-400',
  '123456789012345678901234567890',
  '[]',
  '{}',
  'true',
  'null',
  '""',
  `${'['.repeat(200)}${']'.repeat(200)}`,
]
/** Names that the decoders look for. */
const NAMES =
  'type event userId anonymousId previousId groupId traits context properties timestamp originalTimestamp receivedAt sentAt messageId writeKey distinct_id uuid offset $set $set_once $unset $group_type $group_key $group_set set set_once is_deleted options api_key token $token $anon_distinct_id alias $insert_id $distinct_ids $identified_id $anon_id $device_id $user_id $distinct_id $properties $group_id $delete $add $append $union $remove $time time event_type event_time user_id device_id insert_id event_properties user_properties groups group_properties group_value global_user_id unmap library name payload profileId property value groupIds __timestamp id toString valueOf __proto__'
const words = fc
  .constantFrom(
    ...'track identify group alias page $identify $create_alias $merge $merge_dangerously $groupidentify increment assign_group u wk_key'.split(
      ' ',
    ),
    '',
    '2026-01-01T00:00:00Z',
  )
  .map((word) => JSON.stringify(word))
const jsonText = fc.jsonValue().map((value) => JSON.stringify(value))
const leaf = fc.oneof(words, words, fc.constantFrom(...HOSTILE), jsonText)
const names = fc.constantFrom(...NAMES.split(' '))
const objectText = (value: fc.Arbitrary<string>) =>
  fc
    .array(fc.tuple(names, value), { maxLength: 8 })
    .map((members) => `{${members.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`)
const messageText = objectText(fc.oneof({ weight: 3, arbitrary: leaf }, { weight: 1, arbitrary: objectText(leaf) }))

interface Door {
  decode(body: JsonValue, request: SdkRequest): SdkMessage[]
  good: object
  wrap(messages: string[]): string
}

const array = (messages: string[]) => `[${messages.join(',')}]`
const DECODERS: Record<string, Door> = {
  segment: {
    decode: segmentMessages,
    good: { type: 'track', event: 'good', userId: 'u' },
    wrap: (messages) => `{"batch":${array(messages)}}`,
  },
  posthog: {
    decode: posthogMessages,
    good: { event: 'good', distinct_id: 'u' },
    wrap: (messages) => `{"api_key":"${KEY}","batch":${array(messages)}}`,
  },
  mixpanel: { decode: mixpanelEvents, good: { event: 'good', properties: { distinct_id: 'u' } }, wrap: array },
  'mixpanel updates': { decode: mixpanelUpdates, good: { $distinct_id: 'u', $set: { a: 1 } }, wrap: array },
  amplitude: {
    decode: amplitudeMessages,
    good: { event_type: 'good', user_id: 'u' },
    wrap: (messages) => `{"events":${array(messages)}}`,
  },
  'amplitude identifications': { decode: amplitudeIdentifications, good: { user_id: 'u' }, wrap: array },
  'amplitude groups': {
    decode: amplitudeGroupIdentifications,
    good: { group_type: 'company', group_value: 'acme' },
    wrap: array,
  },
  'amplitude mappings': {
    decode: amplitudeUserMappings,
    good: { user_id: 'u', global_user_id: 'g' },
    wrap: array,
  },
  openpanel: {
    // One message per request.
    decode: (body, request) => {
      return body.elements().flatMap((each, index) => {
        return openpanelMessages(each, request).map((message) => ({ ...message, index }))
      })
    },
    good: { type: 'track', payload: { name: 'good' } },
    wrap: array,
  },
}

t.test('unwrapSdkBody returns the JSON unchanged from any wrapping', async () => {
  const wrap = fc.constantFrom<(text: string) => string>(
    (json) => json,
    (json) => Buffer.from(json).toString('base64'),
    (json) => `data=${encodeURIComponent(Buffer.from(json).toString('base64'))}&verbose=1`,
    (json) => `data=${Buffer.from(json).toString('base64')}`,
    (json) => `e=${encodeURIComponent(json)}`,
  )
  const object = fc.dictionary(fc.string({ unit: codePoint }), fc.jsonValue())
  await fc.assert(
    fc.asyncProperty(object, wrap, fc.boolean(), async (value, how, isZipped) => {
      const wrapped = how(JSON.stringify(value))
      const body = isZipped ? gzipSync(wrapped) : Buffer.from(wrapped)
      const { json } = await unwrapSdkBody(body, '', LIMIT, () => undefined)
      return json.toString() === JSON.stringify(value)
    }),
    runs,
  )
})

t.test('unwrapSdkBody reads any bytes or refuses them with a message', async () => {
  const bytes = fc.oneof(
    fc.uint8Array(),
    fc.string().map((each) => Buffer.from(each)),
  )
  const prefix = fc.constantFrom('', 'data=', 'e=%7B', '{"a":', '\x1f\x8b\x08')
  await fc.assert(
    fc.asyncProperty(prefix, bytes, fc.string(), async (start, rest, query) => {
      const body = Buffer.concat([Buffer.from(start, 'latin1'), rest])
      const refusal = await unwrapSdkBody(body, query, LIMIT, () => undefined).catch((error) => error)
      return !(refusal instanceof Error) || refusal instanceof SdkBodyError
    }),
    runs,
  )
})

t.test('an invalid message does not affect others and becomes a fault with a reason', async () => {
  for (const [name, { decode, good, wrap }] of Object.entries(DECODERS)) {
    const goodText = JSON.stringify(good)
    fc.assert(
      fc.property(fc.array(fc.oneof(messageText, jsonText), { maxLength: 6 }), (some) => {
        const messages = decode(json(wrap([goodText, ...some, goodText])), request)
        for (const each of messages) checkTexts(each)
        const found = new Set(messages.filter(({ type }) => type !== 'alias').map(({ index }) => index))
        const isGood = (index: number) => messages.some((each) => each.index === index && each.type !== 'fault')
        return isGood(0) && isGood(some.length + 1) && some.every((text, i) => found.has(i + 1) || isQuiet(name, text))
      }),
      runs,
    )
  }
})

/** Whether a message may have nothing to store. */
function isQuiet(name: string, text: string): boolean {
  return name === 'amplitude mappings' || /replay|alias|assign_group/.test(text)
}

/** Everything stored of a message is JSON. */
function checkTexts(message: SdkMessage): void {
  if (message.type === 'change') message.operations.map((operations) => JSON.parse(operations))
  if (message.type === 'fault') JSON.parse(message.text)
  if (message.type !== 'event') return
  JSON.parse(message.parts.properties ?? '')
  try {
    JSON.parse(formatEvent(message.parts))
  } catch (error) {
    if (!(error instanceof EventFault)) throw error
  }
}

t.test('any request is decoded or refused with a message', async () => {
  const decoders = Object.values(DECODERS).map(({ decode }) => decode)
  fc.assert(
    fc.property(fc.oneof(jsonText, messageText), fc.constantFrom(...decoders), (body, decode) => {
      try {
        return decode(json(body), request).every(({ type }) => typeof type === 'string')
      } catch (error) {
        return error instanceof RowFault
      }
    }),
    runs,
  )
})

t.test('any row of an export is decoded or refused with a message', async () => {
  fc.assert(
    fc.property(messageText, fc.constantFrom(...Object.values(VENDORS)), fc.boolean(), (row, vendor, isTable) => {
      try {
        for (const message of vendor.messages(readRow(Buffer.from(row), isTable))) checkTexts(message)
        return true
      } catch (error) {
        return error instanceof RowFault || error instanceof NoEvent
      }
    }),
    runs,
  )
})

t.test('values whose conversion throws become faults', async (t) => {
  const names = NAMES.split(' ')
  for (const [name, { decode, good, wrap }] of Object.entries(DECODERS)) {
    const goodText = JSON.stringify(good)
    for (const field of names) {
      const hostile = HOSTILE.flatMap((value) => [
        `{"${field}":${value},"properties":{"${field}":${value}},"payload":{"${field}":${value}}}`,
        `${goodText.slice(0, -1)},"${field}":${value}}`,
      ])
      const messages = decode(json(wrap([goodText, ...hostile, goodText])), request)
      const isGood = (index: number) => messages.some((each) => each.index === index && each.type !== 'fault')
      if (!isGood(0) || !isGood(hostile.length + 1)) t.fail(`${name}: ${field}`)
    }
  }
})

t.test('decodeEach turns an unexpected error into a fault of its message', async (t) => {
  const values = json('[{"a":1},{"a":2,"token":"wk_k\\u0065y"},{"a":3}]').elements()
  const messages = decodeEach(values, request, (row) => {
    if (row.value('a') === 2) throw new RangeError('Maximum call stack size exceeded')
    return [{ type: 'delete', distinctId: 'u' }]
  })
  t.match(messages, [
    { type: 'delete', index: 0 },
    { type: 'fault', index: 1, reason: 'The message cannot be read.', text: '{"a":2,"token":""}' },
    { type: 'delete', index: 2 },
  ])
})

t.test('the reason of a fault never quotes the key', async (t) => {
  const event = (more: object) => ({ event_type: '$identify', user_id: 'u', ...more })
  const events = [event({ time: KEY }), event({ user_properties: { [`$${KEY}`]: { a: 1 } } })]
  const messages = amplitudeMessages(json(JSON.stringify({ events })), request)
  t.match(messages, [{ reason: 'The time "" is not' }, { reason: 'The operator $ is not known' }])
  t.notMatch(JSON.stringify(messages), KEY)
})

t.test('the reason of a fault quotes no part of a truncated key, and no key of another project', async (t) => {
  const key = 'wk_0123456789abcdefghijABCDEFGHIJ-_0123456789AB'
  const escaped = [...key].map((each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
  for (const text of [key, escaped]) {
    const time = `"${'x'.repeat(90)}${text}"`
    const [fault] = decodeEach([json(`{"time":${time}}`)], { ...request, key }, () => {
      throw new RowFault(`The timestamp ${time.slice(0, 130)} is not a number.`)
    })
    const { reason = '', text: stored = '' } = fault?.type === 'fault' ? fault : {}
    t.match(reason, /^The timestamp "x+.* is not a number\.$/)
    const read = reason.replace(/\\u([\da-f]{4})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 16)))
    t.notMatch(read, 'wk_01234')
    t.notMatch(JSON.parse(stored).time, 'wk_')
  }
  const other = `wk_${'o'.repeat(43)}`
  const [fault] = decodeEach([json(`{"token":"${other}"}`)], request, () => {
    throw new RowFault(`The token "${other}" belongs to another project.`)
  })
  t.match(fault, { text: '{"token":""}', reason: 'The token "" belongs to another project.' })
})

t.test('a dead letter contains no spelling of the key', async () => {
  const spelled = (character: string) => {
    const digits = character.charCodeAt(0).toString(16).padStart(4, '0')
    const itself = JSON.stringify(character).slice(1, -1)
    return fc.constantFrom(`\\u${digits}`, `\\u${digits.toUpperCase()}`, itself, itself.replace('/', '\\/'))
  }
  for (const key of ['wk_key', 'sk_Zz-09', 'a/"b\\j']) {
    const spellings = fc.tuple(...[...key].map(spelled)).map((all) => all.join(''))
    fc.assert(
      fc.property(spellings, fc.boolean(), (text, isNested) => {
        const token = isNested ? JSON.stringify(`{"token":"${text}"}`) : `"${text}"`
        const values = [json(`{"properties":5,"token":${token}}`)]
        const [fault] = decodeEach(values, { ...request, key }, () => {
          throw new RowFault('no')
        })
        const left = fault?.type === 'fault' ? JSON.parse(fault.text).token : null
        return left === (isNested ? '{"token":""}' : '')
      }),
      runs,
    )
  }
})

import t from 'tap'
import { formatEvent } from '../../src/contract/event-text.js'
import type { SdkMessage, SdkRequest } from '../../src/vendors/message.js'
import { segmentMessages } from '../../src/vendors/segment.js'
import { readCapture } from './replay.js'
import { json } from './sdk-messages.js'

const KEY = 'wk_key'
const NOW = Date.UTC(2026, 0, 1)
const MINUTE = 60_000

function request(more: Partial<SdkRequest> = {}): SdkRequest {
  return { key: KEY, receivedAt: NOW, header: () => undefined, fields: new Map(), ...more }
}

function decode(message: object, type?: string): SdkMessage[] {
  return segmentMessages(json(JSON.stringify(message)), request(), type)
}

function only(message: object) {
  const [first] = decode({ batch: [message] })
  if (first?.type !== 'event') throw new Error(`no event: ${JSON.stringify(first)}`)
  return { ...first.parts, insertId: first.insertId }
}

const iso = (ms: number) => new Date(ms).toISOString()

t.test('segmentMessages decodes all captured messages', async (t) => {
  const types = new Set<string>()
  const sessions = new Set<string>()
  for (const name of ['segment-node', 'segment-browser', 'rudder-node', 'rudder-browser', 'minimum']) {
    for (const { sdk, method, path, unwrapped, headers } of readCapture(name)) {
      if (method !== 'POST' || !/segment|rudder/.test(sdk)) continue
      const key = /"writeKey":"([^"]*)"/.exec(unwrapped)?.[1] ?? 'WRITEKEY'
      const sent = JSON.parse(unwrapped)
      const all: Record<string, unknown>[] = sent.batch ?? [sent]
      const type = sent.batch ? undefined : String(sent.type)
      const messages = segmentMessages(json(unwrapped), request({ key, header: (field) => headers[field] }), type)
      const events = messages.filter((message) => message.type === 'event')
      t.strictSame(
        messages.filter((message) => message.type === 'fault'),
        [],
        `${name} ${path}`,
      )
      t.equal(events.length, all.length)
      for (const [i, event] of events.entries()) {
        const { messageId, properties, userId, anonymousId } = all[i] ?? {}
        const text = formatEvent(event.parts)
        const stored = JSON.parse(text)
        const { $segment, ...rest } = stored.properties
        t.equal(event.insertId, messageId)
        t.strictSame(rest, properties ?? {})
        t.equal(stored.distinct_id, userId || anonymousId)
        t.equal($segment.type, all[i]?.type)
        t.notOk('writeKey' in $segment || text.includes(key), 'no key')
        const sessionId = $segment.context?.sessionId
        t.equal(stored.session_id, sessionId === undefined ? undefined : String(sessionId))
        if (sessionId !== undefined) sessions.add(sdk)
        types.add($segment.type)
      }
    }
  }
  t.strictSame([...types].sort(), ['alias', 'group', 'identify', 'page', 'screen', 'track'])
  t.ok(sessions.size > 0 && [...sessions].every((sdk) => sdk.includes('rudder')), `${[...sessions]}`)
})

t.test('segmentMessages keeps an event byte for byte, without the key', (t) => {
  const properties = '{ "price":9.90,"price":1e400, "esc":"\\u00e9\\/" ,"big":123456789012345678901234567890 }'
  const text = `{"batch":[{"writeKey":"${KEY}","type":"track","event":"bought","userId":"ada","properties": ${properties}, "context":{ "x": 1.0, "sessionId":7 },"messageId":"m-1"}],"writeKey":"${KEY}"}`
  const [message, ...others] = segmentMessages(json(text), request())
  t.strictSame(others, [])
  t.strictSame(message, {
    type: 'event',
    insertId: 'm-1',
    index: 0,
    parts: {
      event: 'bought',
      distinct_id: 'ada',
      timestamp: String(NOW),
      properties: `${properties.slice(0, -1)},"$segment":{"type":"track","userId":"ada","context":{ "x": 1.0, "sessionId":7 },"messageId":"m-1"}}`,
      session_id: '7',
    },
    source: { userAgent: undefined, address: undefined, timezone: undefined, language: undefined },
  })
  t.end()
})

t.test('segmentMessages reads names and ids', (t) => {
  const track = { type: 'track', event: 'e' }
  t.equal(only({ ...track, userId: 'u', anonymousId: 'a' }).distinct_id, 'u')
  t.equal(only({ ...track, userId: '', anonymousId: 'a' }).distinct_id, 'a')
  t.equal(only({ ...track, userId: null, anonymousId: 'a' }).distinct_id, 'a')
  t.equal(only({ ...track, userId: 42 }).distinct_id, '42')
  t.equal(only({ ...track }).distinct_id, '$anonymous')
  for (const [type, event] of Object.entries({
    page: 'page',
    screen: 'screen',
    identify: '$identify',
    group: '$group',
    alias: '$alias',
  })) {
    t.equal(only({ type, userId: 'u', name: 'Home' }).event, event)
  }
  t.equal(only({ ...track, messageId: 'x'.repeat(300) }).insertId?.length, 64)
  t.equal(only({ ...track, messageId: '' }).insertId, undefined)
  t.match(only({ ...track, properties: null }).properties, /^\{"\$segment":/)
  t.end()
})

t.test('segmentMessages reads and corrects times', (t) => {
  const at = (message: object) => Number(only({ type: 'track', event: 'e', userId: 'u', ...message }).timestamp)
  const then = NOW - 10 * MINUTE
  const browser = { context: { library: { name: 'analytics.js' } } }
  t.equal(at({}), NOW, 'none')
  t.equal(at({ timestamp: null }), NOW, 'none')
  t.equal(at({ timestamp: NOW - 5 }), NOW - 5, 'milliseconds')
  for (const timestamp of ['soon', '', 1_700_000_000, 7, '20240101', {}, [], true, '1969-12-31T23:59:59Z', 1e300]) {
    for (const field of ['timestamp', 'originalTimestamp']) {
      const [fault] = decode({ batch: [{ type: 'track', event: 'e', userId: 'u', [field]: timestamp }] })
      t.match(fault, { type: 'fault', field: 'timestamp', reason: `The time ${JSON.stringify(timestamp)} ` })
    }
  }
  t.equal(at({ timestamp: '2026-01-01T01:00:00.5+02:00' }), NOW - 60 * MINUTE + 500, 'with a zone')
  t.equal(at({ originalTimestamp: iso(then) }), then)
  t.equal(at({ timestamp: iso(then), originalTimestamp: iso(0) }), then, 'the first of the two')
  t.equal(at({ ...browser, timestamp: iso(then), sentAt: iso(NOW - MINUTE) }), then, 'a minute is not corrected')
  t.equal(at({ ...browser, timestamp: iso(then), sentAt: iso(NOW - MINUTE - 1) }), then + MINUTE + 1, 'a slow clock')
  t.equal(at({ ...browser, timestamp: iso(NOW + MINUTE), sentAt: iso(NOW + 2 * MINUTE) }), NOW - MINUTE, 'a fast one')
  for (const name of [
    'analytics-node',
    '@segment/analytics-node',
    '@rudderstack/rudder-sdk-node',
    'analytics-python',
    'analytics-go',
  ]) {
    t.equal(at({ context: { library: { name } }, timestamp: iso(then), sentAt: iso(0) }), then, name)
  }
  const batch = { batch: [{ type: 'track', event: 'e', timestamp: iso(then) }], sentAt: iso(NOW - 5 * MINUTE) }
  t.match(decode(batch), [{ parts: { timestamp: String(then + 5 * MINUTE) } }], 'sentAt of the batch')
  t.end()
})

t.test('segmentMessages decodes profiles, groups and aliases', (t) => {
  const rest = (message: object) => decode({ batch: [{ messageId: 'm', ...message }] }).slice(1)
  const group = { type: 'change', insertId: 'm', index: 0, time: NOW }
  const change = { ...group, identifies: true }
  t.strictSame(rest({ type: 'identify', userId: 'u', traits: { a: 1 } }), [
    { ...change, distinctId: 'u', operations: ['{"$set":{"a":1}}'] },
  ])
  t.strictSame(rest({ type: 'identify', userId: 'u', context: { traits: { b: 2 } } }), [
    { ...change, distinctId: 'u', operations: ['{"$set":{"b":2}}'] },
  ])
  t.strictSame(rest({ type: 'identify', userId: 'u' }), [{ ...change, distinctId: 'u', operations: [] }])
  t.strictSame(rest({ type: 'identify', userId: 'u', anonymousId: 'a', traits: {} }), [
    { ...change, distinctId: 'u', operations: [] },
    { type: 'alias', distinctId: 'u', alias: 'a', link: 'inferred', index: 0 },
  ])
  t.strictSame(rest({ type: 'identify', traits: { a: 1 } }), [], 'nobody has no profile')
  t.strictSame(rest({ type: 'group', userId: 'u', groupId: 'g', traits: { seats: 5 } }), [
    { ...group, isGroup: true, distinctId: '$group:g', operations: ['{"$set":{"seats":5}}'] },
  ])
  t.strictSame(rest({ type: 'group', userId: 'u' }), [])
  t.strictSame(rest({ type: 'alias', userId: 'u', previousId: 'p' }), [
    { type: 'alias', distinctId: 'u', alias: 'p', link: 'said', index: 0 },
  ])
  t.strictSame(rest({ type: 'alias', userId: 'u', previousId: 'u' }), [])
  t.strictSame(rest({ type: 'track', event: 'e', userId: 'u', context: { traits: { b: 2 } } }), [])
  t.end()
})

t.test('an invalid message does not affect the others', (t) => {
  const good = { type: 'track', event: 'e', userId: 'u' }
  const faults = [
    { ...good, type: 'video' },
    { ...good, type: 'constructor' },
    { ...good, properties: [1] },
    { ...good, writeKey: 'wk_other' },
    'text',
    null,
    [good],
  ]
  const messages = decode({ batch: [good, ...faults, good] })
  t.equal(messages.filter(({ type }) => type === 'event').length, 2)
  t.strictSame(
    messages.flatMap((message) => (message.type === 'fault' ? [[message.index, message.reason]] : [])),
    [
      [1, 'The message has no type that Segment knows.'],
      [2, 'The message has no type that Segment knows.'],
      [3, 'The properties are not an object.'],
      [4, 'The key of the message belongs to another project.'],
      [5, 'The row is not a JSON object.'],
      [6, 'The row is not a JSON object.'],
      [7, 'The row is not a JSON object.'],
    ],
  )
  const [fault] = decode({ batch: [{ type: 'video', messageId: 'm', writeKey: KEY }] })
  t.match(fault, { type: 'fault', insertId: 'm', text: '{"type":"video","messageId":"m","writeKey":""}' }, 'no key')
  for (const text of ['[]', '{"batch":{}}', '{"batch":"x"}'])
    t.throws(() => segmentMessages(json(text), request()), text)
  t.end()
})

t.test("segmentMessages accepts the request's key, no key, or one that Jitsu masked", (t) => {
  for (const writeKey of [KEY, '', null, undefined, 'x:***', `x:${KEY}`, 5]) {
    const [message] = decode({ type: 'track', event: 'e', userId: 'u', writeKey }, 'track')
    t.match(
      message,
      { type: 'event', parts: { properties: '{"$segment":{"type":"track","userId":"u"}}' } },
      String(writeKey),
    )
  }
  const [message] = decode({ event: 'e', userId: 'u', batch: 7 }, 'track')
  t.match(message, { type: 'event', parts: { event: 'e', properties: /"batch":7/ } }, 'one message is no batch')
  t.end()
})

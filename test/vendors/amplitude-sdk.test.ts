import t from 'tap'
import { formatEvent } from '../../src/contract/event-text.js'
import {
  amplitudeGroupIdentifications,
  amplitudeIdentifications,
  amplitudeMessages,
  amplitudeUserMappings,
} from '../../src/vendors/amplitude.js'
import type { SdkMessage } from '../../src/vendors/message.js'
import { readCapture } from './replay.js'
import { aliasesOf, changesOf, eventsOf, json, NOW, reasonsOf, request } from './sdk-messages.js'

const MINUTE = 60_000
const user = { user_id: 'ada' }

function decode(events: object[], envelope: object = {}): SdkMessage[] {
  return amplitudeMessages(json(JSON.stringify({ api_key: 'k', events, ...envelope })), request())
}

function changed(user_properties: object, event_type = '$identify'): string[][] {
  return changesOf(decode([{ ...user, event_type, user_properties }]))
}

t.test('amplitudeMessages decodes all captured events', async (t) => {
  const operators = new Set<string>()
  const sessions = new Set<string | undefined>()
  let count = 0
  for (const name of ['amplitude-node', 'amplitude-browser', 'minimum']) {
    for (const { method, call, sdk, unwrapped } of readCapture(name)) {
      // Amplitude refuses this, too.
      if (call === 'track without ids') continue
      if (method !== 'POST' || !sdk.includes('amplitude') || !unwrapped.startsWith('{')) continue
      const sent: Record<string, unknown>[] = JSON.parse(unwrapped).events
      const messages = amplitudeMessages(json(unwrapped), request())
      const what = `${name} ${call}`
      t.strictSame(reasonsOf(messages), [], what)
      const events = eventsOf(messages)
      const changes = messages.filter((message) => message.type === 'change')
      for (const [i, one] of sent.entries()) {
        const { event_type: type, event_properties: properties = {}, ...rest } = one
        const event = events.find(({ index }) => index === i)
        const change = changes.find(({ index }) => index === i)
        const isEvent = type !== '$identify' && type !== '$groupidentify'
        t.equal(event !== undefined, isEvent, what)
        t.equal(change !== undefined, !isEvent || one.user_properties !== undefined, what)
        t.equal((event ?? change)?.insertId, one.insert_id)
        for (const operator of Object.keys(one.user_properties ?? {})) operators.add(operator)
        count++
        if (!event) continue
        const { $amplitude, ...own } = JSON.parse(formatEvent(event.parts)).properties
        t.strictSame(own, properties, what)
        t.strictSame($amplitude, rest, what)
        t.equal(event.parts.distinct_id, one.user_id ?? one.device_id, what)
        const { session_id = -1 } = one
        t.equal(event.parts.session_id, session_id === -1 ? undefined : String(session_id), what)
        sessions.add(String(session_id))
      }
    }
  }
  t.ok(count > 300, `${count} events`)
  t.ok([...operators].length >= 10, `${[...operators]}`)
  t.ok(sessions.size > 2 && sessions.has('-1'), `${[...sessions]}`)
})

t.test('amplitudeMessages keeps an event byte for byte', async (t) => {
  const properties = '{"price": 9.90,"big":123456789012345678901234567890,"l":[ 1.0 ]}'
  const rest = '"user_id":"ada","insert_id":"i","time":1700000000123'
  const text = `{"api_key":"k","events":[{"event_type":"e",${rest},"event_properties":${properties}}]}`
  t.match(eventsOf(amplitudeMessages(json(text), request())), [
    {
      parts: {
        event: 'e',
        distinct_id: 'ada',
        timestamp: '1700000000123',
        properties: `${properties.slice(0, -1)},"$amplitude":{${rest}}}`,
      },
      insertId: 'i',
      index: 0,
    },
  ])
  const [long] = eventsOf(decode([{ ...user, event_type: 'e', insert_id: 'x'.repeat(1000) }]))
  t.ok((long?.insertId?.length ?? 999) <= 255)
})

t.test('amplitudeMessages finds the user of an event', async (t) => {
  const events = [
    { event_type: 'e', user_id: 'ada', device_id: 'd' },
    { event_type: 'e', user_id: null, device_id: 'd' },
    { event_type: 'e', user_id: 7 },
    { event_type: 'e' },
    { event_type: 'e', user_id: 'ada', device_id: 'd' },
  ]
  const messages = decode(events)
  t.strictSame(
    eventsOf(messages).map(({ parts }) => parts.distinct_id),
    ['ada', 'd', '7', 'ada'],
  )
  t.match(messages[4], { type: 'fault', index: 3, field: 'user_id', isMissing: true })
  t.strictSame(aliasesOf(messages), [['ada', 'd']], 'once a request')
})

t.test('amplitudeMessages reads and corrects times', async (t) => {
  const timeOf = (event: object, envelope: object = {}) => {
    const [found] = eventsOf(decode([{ ...user, event_type: 'e', ...event }], envelope))
    return Number(found?.parts.timestamp ?? NOW)
  }
  const sentAt = (ms: number) => ({ client_upload_time: new Date(ms).toISOString() })
  t.equal(timeOf({ time: NOW - 5 }), NOW - 5)
  t.equal(timeOf({ time: NOW - 5 }, sentAt(NOW - MINUTE)), NOW - 5, 'a request may take a minute')
  t.equal(timeOf({ time: NOW - 5 - 2 * MINUTE }, sentAt(NOW - 2 * MINUTE)), NOW - 5, 'a clock that is slow')
  t.equal(timeOf({ time: NOW - 5 + 2 * MINUTE }, sentAt(NOW + 2 * MINUTE)), NOW - 5, 'a clock that is fast')
  for (const library of ['amplitude-node-ts/1.5.73', 'amplitude-node/1.10.2']) {
    t.equal(timeOf({ time: NOW - 5 - 2 * MINUTE, library }, sentAt(NOW - 2 * MINUTE)), NOW - 5 - 2 * MINUTE, library)
  }
  for (const time of [undefined, null]) t.equal(timeOf({ time }), NOW, JSON.stringify(time))
  t.equal(timeOf({ time: String(NOW - 5) }), NOW - 5, 'a string of digits')
  t.equal(timeOf({ time: 0 }), 0)
  t.equal(timeOf({ time: NOW - 5.5 }), NOW - 6, 'a part of a millisecond')
  t.equal(timeOf({ time: '2025-12-31T23:59:59.995Z' }), NOW - 5)
  for (const time of ['soon', '', -5, 1e300, 1_700_000_000, '1700000000', true, {}, [NOW]]) {
    const [fault] = decode([{ ...user, event_type: 'e', time }])
    t.match(fault, { type: 'fault', field: 'timestamp', reason: `The time ${JSON.stringify(time)} ` })
  }
  t.equal(timeOf({ time: 5 }, sentAt(NOW + 2 * MINUTE)), 5, 'no correction to before 1970')
})

t.test('amplitudeMessages reads the form of amplitude-js 8', async (t) => {
  const event = {
    device_id: 'd',
    user_id: null,
    timestamp: NOW - 5 - 2 * MINUTE,
    uuid: 'u-1',
    library: { name: 'amplitude-js' },
  }
  const events = JSON.stringify([{ event_type: 'e', ...event, event_properties: { a: 1 }, user_properties: {} }])
  const fields = new Map([['upload_time', String(NOW - 2 * MINUTE)]])
  const messages = amplitudeMessages(json(events), request({ fields }))
  t.match(messages, [{ insertId: 'u-1', parts: { distinct_id: 'd', timestamp: String(NOW - 5) } }])
  t.equal(messages.length, 1)
})

t.test('amplitudeMessages translates every operator', async (t) => {
  const rows: [object, ...string[]][] = [
    [{ a: 1, b: 'x' }, '{"$set":{"a":1,"b":"x"}}'],
    [{ $set: { a: 1 } }, '{"$set":{"a":1}}'],
    [{ $setOnce: { a: 1 } }, '{"$set_once":{"a":1}}'],
    [{ $add: { n: 2, m: '-1.5' } }, '{"$add":{"n":2,"m":-1.5}}'],
    [{ $unset: { a: '-', b: '-' } }, '{"$unset":["a","b"]}'],
    [{ $append: { l: 'x' } }, '{"$append":{"l":"x"}}'],
    [{ $append: { l: ['x', 'y'] } }, '{"$append":{"l":"x"}}', '{"$append":{"l":"y"}}'],
    [{ $prepend: { l: ['x', 'y'] } }, '{"$prepend":{"l":"y"}}', '{"$prepend":{"l":"x"}}'],
    [{ $preInsert: { l: 'z' } }, '{"$union":{"l":["z"]}}'],
    [{ $postInsert: { l: ['a', 'b'] } }, '{"$union":{"l":["a","b"]}}'],
    [{ $remove: { l: ['a', 'b'] } }, '{"$remove":{"l":"a"}}', '{"$remove":{"l":"b"}}'],
    [{ $remove: { l: 'a' } }, '{"$remove":{"l":"a"}}'],
    [{ $clearAll: '-' }, 'clear'],
    [{ $set: {} }],
  ]
  for (const [given, ...operations] of rows) {
    t.strictSame(changed(given), [['ada', ...operations]], JSON.stringify(given))
  }
  t.strictSame(changed({ plan: 'pro' }, 'signed up'), [['ada', '{"$set":{"plan":"pro"}}']], 'of any event')
  t.strictSame(changed({}, 'signed up'), [])
})

t.test('amplitudeMessages decodes groups', async (t) => {
  const groups = { company: ['acme', 7], team: 'blue' }
  const messages = decode([
    { ...user, event_type: '$groupidentify', insert_id: 'i', groups, group_properties: { $set: { a: 1 } } },
  ])
  t.strictSame(
    changesOf(messages),
    ['company:acme', 'company:7', 'team:blue'].map((name) => [`$group:${name}`, '{"$set":{"a":1}}']),
  )
  t.match(messages, [{ insertId: 'i' }, {}, {}])
  const set = decode([
    { ...user, event_type: '$identify', groups: { company: 'acme' }, user_properties: { $set: { company: 'acme' } } },
  ])
  t.strictSame(changesOf(set), [['ada', '{"$set":{"company":"acme"}}']])
})

t.test('a fault names its field and does not affect other messages', async (t) => {
  const messages = decode([
    { ...user, event_type: 'good' },
    { ...user, event_type: 'e', event_properties: [1] },
    { ...user, event_type: 'e', user_properties: 5 },
    { ...user, event_type: '$identify', user_properties: { $set: 5 } },
    { ...user, event_type: '$identify', user_properties: { $multiply: { a: 5 } } },
    { ...user, event_type: '$groupidentify', group_properties: { $set: { a: 1 } } },
    { ...user, event_type: '$groupidentify', groups: { a: {} }, group_properties: { $set: { a: 1 } } },
  ])
  t.equal(eventsOf(messages).length, 1)
  t.strictSame(
    reasonsOf(messages).map(([index, , field]) => [index, field]),
    [
      [1, 'event_properties'],
      [2, 'user_properties'],
      [3, 'user_properties'],
      [4, 'user_properties'],
      [5, 'groups'],
      [6, 'groups'],
    ],
  )
  t.throws(() => amplitudeMessages(json('{"api_key":"k"}'), request()), { message: /no list of events/ })
  t.throws(() => amplitudeMessages(json('{"events":{}}'), request()), { message: /no list of events/ })
})

t.test('amplitudeMessages reads a single event of the first HTTP API', async (t) => {
  const event = { user_id: 'ada', event_type: 'e', insert_id: 'i', time: NOW - 5 }
  const messages = amplitudeMessages(json(JSON.stringify(event)), request())
  t.match(messages, [{ type: 'event', insertId: 'i', parts: { event: 'e', timestamp: String(NOW - 5) } }])
})

t.test('amplitudeIdentifications changes profiles without an event', async (t) => {
  const messages = (value: unknown) => amplitudeIdentifications(json(JSON.stringify(value)), request())
  const one = { user_id: 'ada', device_id: 'd', user_properties: { $set: { plan: 'pro' } } }
  t.strictSame(messages(one), [
    {
      type: 'change',
      distinctId: 'ada',
      identifies: true,
      operations: ['{"$set":{"plan":"pro"}}'],
      clears: false,
      insertId: undefined,
      time: NOW,
      index: 0,
    },
    { type: 'alias', distinctId: 'ada', alias: 'd', link: 'inferred', index: 0 },
  ])
  const device = messages([{ device_id: 'd', user_properties: { a: 1 } }, { user_properties: {} }, 5])
  t.match(device, [{ distinctId: 'd', identifies: false }, { type: 'fault', field: 'user_id' }, { type: 'fault' }])
})

t.test('amplitudeGroupIdentifications changes groups without an event', async (t) => {
  const messages = (value: unknown) => amplitudeGroupIdentifications(json(JSON.stringify(value)), request())
  const company = { group_type: 'company', group_value: 'acme', group_properties: { seats: 5 } }
  t.match(messages(company), [
    { type: 'change', isGroup: true, distinctId: '$group:company:acme', operations: ['{"$set":{"seats":5}}'] },
  ])
  const found = messages([company, { ...company, group_value: ['a', 7] }, { group_type: 'x' }, { group_value: 'y' }])
  t.strictSame(
    changesOf(found).map(([name]) => name),
    ['$group:company:acme', '$group:company:a', '$group:company:7'],
  )
  t.match(reasonsOf(found), [
    [2, /names no group/, 'group_value'],
    [3, /names no group type/, 'group_type'],
  ])
})

t.test('amplitudeUserMappings makes aliases', async (t) => {
  const messages = (value: unknown) => amplitudeUserMappings(json(JSON.stringify(value)), request())
  t.strictSame(messages({ user_id: 'spock', global_user_id: 'g-1' }), [
    { type: 'alias', distinctId: 'g-1', alias: 'spock', link: 'merge', index: 0 },
  ])
  const found = messages([
    { user_id: 'a', global_user_id: 'a' },
    { user_id: 'a', unmap: true },
    { user_id: 'a' },
    { global_user_id: 'g' },
    { user_id: 7, global_user_id: 'g' },
  ])
  t.strictSame(aliasesOf(found), [['g', '7']])
  t.match(reasonsOf(found), [
    [1, /DELETE .public.users/, 'unmap'],
    [2, /no global_user_id/],
    [3, /no user_id/],
  ])
})

import t from 'tap'
import { formatEvent } from '../../src/contract/event-text.js'
import { amplitudeMessages } from '../../src/vendors/amplitude.js'
import type { Decoded, SdkMessage, SdkRequest } from '../../src/vendors/message.js'
import { mixpanelEvents } from '../../src/vendors/mixpanel.js'
import { posthogMessages } from '../../src/vendors/posthog.js'
import { NoEvent, readRow } from '../../src/vendors/row.js'
import { segmentMessages } from '../../src/vendors/segment.js'
import { VENDORS, type VendorName } from '../../src/vendors/vendors.js'
import { aliasesOf, changesOf, eventsOf, json, request } from './sdk-messages.js'

/** The others have no endpoint, so only their exports are read. */
type SdkVendor = Exclude<VendorName, 'ga4' | 'matomo' | 'umami' | 'plausible'>

const AT = Date.UTC(2024, 0, 1, 0, 0, 0, 123)
const ISO = '2024-01-01T00:00:00.123Z'

type Decoder = (value: ReturnType<typeof json>, request: SdkRequest) => SdkMessage[]
const LIVE: Record<SdkVendor, Decoder> = {
  segment: segmentMessages,
  posthog: posthogMessages,
  mixpanel: mixpanelEvents,
  amplitude: amplitudeMessages,
}
/** Wraps messages like a request. */
const ENVELOPES: Record<SdkVendor, (messages: object[]) => object> = {
  segment: (batch) => ({ batch }),
  posthog: (batch) => ({ api_key: 'wk_key', batch }),
  mixpanel: (events) => events,
  amplitude: (events) => ({ events }),
}

function exported(vendor: SdkVendor, row: object, isTable = false): Decoded[] {
  return VENDORS[vendor].messages(readRow(Buffer.from(JSON.stringify(row)), isTable))
}

function live(vendor: SdkVendor, ...messages: object[]): SdkMessage[] {
  return LIVE[vendor](json(JSON.stringify(ENVELOPES[vendor](messages))), request())
}

/** Removes the vendor's own columns and the index in the request. */
function essence(vendor: SdkVendor, messages: readonly SdkMessage[]): unknown[] {
  return messages.map(({ index: _, ...message }) => {
    if (message.type !== 'event') return message
    const { properties, ...parts } = JSON.parse(formatEvent({ ...message.parts, insert_id: message.insertId }))
    const { [`$${vendor}`]: rest, ...own } = properties
    return { ...parts, properties: own }
  })
}

/** The same messages, from an SDK and from an export. */
const SAME: Record<SdkVendor, [what: string, live: object, exported: object][]> = {
  segment: [
    ...[
      { type: 'track', event: 'bought', userId: 'ada', properties: { price: 9.9 }, context: { sessionId: 17 } },
      { type: 'track', event: 'seen', anonymousId: 'anon' },
      { type: 'track', event: 'seen' },
      { type: 'page', name: 'Home', userId: 'ada' },
      { type: 'screen', name: 'Home', userId: 'ada' },
      { type: 'identify', userId: 'ada', anonymousId: 'anon', traits: { plan: 'pro' } },
      { type: 'identify', anonymousId: 'anon', context: { traits: { plan: 'pro' } } },
      { type: 'group', userId: 'ada', groupId: 'acme', traits: { seats: 5 } },
      { type: 'group', userId: 'ada' },
      { type: 'alias', userId: 'ada', previousId: 'anon' },
    ].map((message): [string, object, object] => {
      const both = { ...message, messageId: 'm-1' }
      return [message.type, { ...both, timestamp: ISO }, { ...both, timestamp: ISO, receivedAt: ISO, sentAt: ISO }]
    }),
  ],
  posthog: [
    ...[
      { event: 'bought', distinct_id: 'ada', properties: { price: 9.9, $session_id: 's' } },
      { event: '$identify', distinct_id: 'ada', properties: { $anon_distinct_id: 'anon', $set: { plan: 'pro' } } },
      { event: '$create_alias', distinct_id: 'ada', properties: { alias: 'a@b.c' } },
      { event: '$merge_dangerously', distinct_id: 'ada', properties: { alias: 'a@b.c' } },
      { event: '$set', distinct_id: 'ada', properties: { $set: { a: 1 }, $set_once: { b: 2 }, $unset: ['c'] } },
      {
        event: '$groupidentify',
        distinct_id: 'ada',
        properties: { $group_type: 'company', $group_key: 'acme', $group_set: { seats: 5 } },
      },
      { event: 'e', distinct_id: 'ada', properties: { $set: { a: 1 }, $process_person_profile: false } },
    ].flatMap((message): [string, object, object][] => {
      const both = { ...message, uuid: 'u-1', timestamp: ISO }
      const quoted = { ...both, properties: JSON.stringify(message.properties) }
      return [
        [message.event, both, { ...both, person_id: 'p', created_at: ISO }],
        [`${message.event}, quoted`, both, quoted],
      ]
    }),
  ],
  mixpanel: [
    ...[
      { event: 'bought', properties: { distinct_id: 'ada', price: 9.9 } },
      { event: 'seen', properties: { distinct_id: '$device:d', $device_id: 'd' } },
      { event: 'seen', properties: { $device_id: 'd', $user_id: 'ada' } },
      { event: '$identify', properties: { distinct_id: 'ada', $anon_distinct_id: '$device:d' } },
      { event: '$identify', properties: { $identified_id: 'ada', $anon_id: 'd' } },
      { event: '$create_alias', properties: { distinct_id: 'ada', alias: 'a@b.c' } },
      { event: '$merge', properties: { $distinct_ids: ['ada', 'a@b.c'] } },
    ].map(({ event, properties }): [string, object, object] => {
      const both = { event, properties: { ...properties, $insert_id: 'i-1', time: AT } }
      return [event, both, both]
    }),
  ],
  amplitude: [
    ...[
      { event_type: 'bought', user_id: 'ada', device_id: 'd', session_id: 17, event_properties: { price: 9.9 } },
      { event_type: 'seen', device_id: 'd', user_properties: { plan: 'pro' } },
      { event_type: '$identify', user_id: 'ada', device_id: 'd', user_properties: { $set: { plan: 'pro' } } },
      { event_type: '$groupidentify', groups: { company: 'acme' }, group_properties: { $set: { seats: 5 } } },
    ].map((message): [string, object, object] => [
      message.event_type,
      { ...message, insert_id: 'i-1', time: AT },
      {
        ...message,
        $insert_id: 'i-1',
        uuid: 'u-1',
        event_time: '2024-01-01 00:00:00.123000',
        amplitude_id: 9e17,
      },
    ]),
  ],
}

t.test('a message decodes to the same result live and from an export', async (t) => {
  for (const vendor of Object.keys(SAME) as SdkVendor[]) {
    for (const [what, sent, row] of SAME[vendor]) {
      const found = essence(vendor, exported(vendor, row))
      t.ok(found.length > 0)
      t.strictSame(found, essence(vendor, live(vendor, sent)), `${vendor} ${what}`)
    }
  }
})

t.test('a message has the session that its vendor names, and its properties stay as they are', async (t) => {
  /** A message with this JSON text as its session, and the text of its properties. */
  type Message = (session: string) => readonly [message: string, properties: string]
  const messages: Record<Exclude<SdkVendor, 'mixpanel'> | 'posthog-node', Message> = {
    segment: (session) => {
      const own = `"type":"track","userId":"u","timestamp":"${ISO}","context":{"sessionId":${session}}`
      return [`{"event":"e",${own}}`, `{"$segment":{${own}}}`]
    },
    posthog: (session) => {
      const own = `"$session_id":${session}`
      const row = `"timestamp":"${ISO}"`
      return [`{"event":"e","distinct_id":"u",${row},"properties":{${own}}}`, `{${own},"$posthog":{${row}}}`]
    },
    'posthog-node': (session) => {
      const row = `"timestamp":"${ISO}","session_id":${session}`
      return [`{"event":"e","distinct_id":"u",${row},"properties":{}}`, `{"$posthog":{${row}}}`]
    },
    amplitude: (session) => {
      const own = `"user_id":"u","time":${AT},"session_id":${session}`
      return [`{"event_type":"e",${own}}`, `{"$amplitude":{${own}}}`]
    },
  }
  const sessions: [text: string, session: string | undefined][] = [
    ['"s"', 's'],
    ['"\\u0073 é"', 's é'],
    ['1700000000123', '1700000000123'],
    ['12345678901234567890', '12345678901234567890'],
    ['0', '0'],
    ['"0190a1b2-0000-7000-8000-000000000001"', '0190a1b2-0000-7000-8000-000000000001'],
    [`"${'x'.repeat(255)}"`, 'x'.repeat(255)],
    ...['null', '""', 'true', '[]', '{"a":1}', `"${'x'.repeat(256)}"`, '"\\ud800"'].map((text): [string, undefined] => [
      text,
      undefined,
    ]),
  ]
  for (const [name, write] of Object.entries(messages)) {
    const vendor = (name === 'posthog-node' ? 'posthog' : name) as SdkVendor
    const none = vendor === 'amplitude' ? ['-1', '"-1"', '-1.0'] : []
    for (const [text, session] of [...sessions, ...none.map((text): [string, undefined] => [text, undefined])]) {
      const [message, properties] = write(text)
      const envelope = JSON.stringify(ENVELOPES[vendor]([{ at: 'here' }])).replace('{"at":"here"}', message)
      const row = VENDORS[vendor].messages(readRow(Buffer.from(message)))
      for (const found of [LIVE[vendor](json(envelope), request()), row]) {
        const [event, ...others] = eventsOf(found)
        t.strictSame([found.filter(({ type }) => type === 'fault'), others], [[], []], message)
        t.equal(event?.parts.session_id, session, message)
        t.equal(event?.parts.properties, properties, message)
      }
    }
  }
  const [foreign] = eventsOf(exported('segment', { type: 'track', event: 'e', timestamp: ISO, context: 'x' }))
  t.equal(foreign?.parts.event, 'e', 'an event whose context cannot be read is still stored')
  const table = { type: 'track', event: 'e', timestamp: ISO, context: '{"sessionId":5}' }
  t.equal(eventsOf(exported('segment', table, true))[0]?.parts.session_id, '5', 'in a cell of a table')
})

t.test('a visitor who logs in and buys is one user, live and exported', async (t) => {
  for (const vendor of Object.keys(SAME) as SdkVendor[]) {
    const link = SAME[vendor].flatMap(([, , row]) => aliasesOf(exported(vendor, row)))
    t.ok(link.length > 0, `${vendor} links`)
    for (const [user, alias] of link) t.not(user, alias)
    for (const message of SAME[vendor].flatMap(([, , row]) => exported(vendor, row))) {
      if (message.type === 'change') t.equal(message.time, AT, vendor)
      if (message.type === 'event') t.ok(message.insertId, vendor)
    }
  }
})

t.test("a vendor's own times are not corrected again", async (t) => {
  const row = { type: 'track', event: 'e', userId: 'ada', timestamp: ISO, sentAt: '2023-01-01T00:00:00Z' }
  t.match(exported('segment', row), [{ parts: { timestamp: String(AT) } }])
  const { timestamp: _, ...timeless } = row
  const received = { ...timeless, originalTimestamp: '2020-01-01T00:00:00Z', receivedAt: ISO }
  t.match(exported('segment', received), [{ parts: { timestamp: String(AT) } }], "by Segment's clock")
})

t.test("exports: the time of each vendor's row is read", async (t) => {
  const rows: Record<SdkVendor, (time: unknown) => object> = {
    segment: (timestamp) => ({ type: 'track', event: 'e', userId: 'ada', timestamp }),
    posthog: (timestamp) => ({ event: 'e', distinct_id: 'ada', timestamp, properties: {} }),
    mixpanel: (time) => ({ event: 'e', properties: { distinct_id: 'ada', time } }),
    amplitude: (event_time) => ({ event_type: 'e', user_id: 'ada', event_time }),
  }
  for (const vendor of Object.keys(rows) as SdkVendor[]) {
    const at = (time: unknown) => {
      const [event] = eventsOf(exported(vendor, rows[vendor](time)))
      return event?.parts.timestamp
    }
    t.equal(at(ISO), String(AT), vendor)
    t.equal(at('2024-01-01 00:00:00.123456'), String(AT), vendor)
    t.equal(at(AT), String(AT), vendor)
    for (const time of ['soon', '', -1, true, {}, []]) {
      t.throws(() => at(time), { name: 'RowFault', message: `The time ${JSON.stringify(time)} ` }, vendor)
    }
    for (const none of [undefined, null]) t.throws(() => at(none), { message: 'The row has no time.' }, vendor)
    const row = readRow(Buffer.from(JSON.stringify(rows[vendor](1_704_067_200))))
    t.match(VENDORS[vendor].messages(row, { time: 's' }), [{ parts: { timestamp: '1704067200000' } }], vendor)
    t.throws(() => VENDORS[vendor].messages(row, { time: 'iso' }), { message: /ISO 8601/ }, vendor)
  }
})

t.test('a Mixpanel export links the original id of an event to its later user', async (t) => {
  const properties = { distinct_id: 'ada', $distinct_id_before_identity: '$device:d', time: AT, $insert_id: 'i' }
  const messages = exported('mixpanel', { event: 'seen', properties })
  t.match(eventsOf(messages), [{ parts: { distinct_id: '$device:d' }, insertId: 'seen:i' }])
  t.strictSame(aliasesOf(messages), [['ada', '$device:d']])
})

t.test("a message of Segment's without a time changes profiles and names only", async (t) => {
  const identify = { type: 'identify', userId: 'ada', anonymousId: 'anon', traits: { a: 1 }, messageId: 'm' }
  t.strictSame(exported('segment', identify), [
    {
      type: 'change',
      distinctId: 'ada',
      identifies: true,
      operations: ['{"$set":{"a":1}}'],
      insertId: 'm',
      time: undefined,
    },
    { type: 'alias', distinctId: 'ada', alias: 'anon', link: 'inferred' },
  ])
  t.match(exported('segment', { type: 'group', groupId: 'g', traits: {} }), [{ isGroup: true }])
  t.match(exported('segment', { type: 'alias', userId: 'ada', previousId: 'anon' }), [{ type: 'alias' }])
  t.throws(() => exported('segment', { type: 'group', userId: 'ada' }), NoEvent)
  t.match(live('segment', identify), [{ type: 'event' }, { type: 'change' }, { type: 'alias' }])
})

t.test('exports: rows of users become profiles and aliases', async (t) => {
  const person = { $distinct_id: 'ada', $properties: { $email: 'a@b.c', $last_seen: '2024-01-01T00:00:00.123' } }
  t.match(exported('mixpanel', person), [
    { operations: ['{"$set":{"$email":"a@b.c","$last_seen":"2024-01-01T00:00:00.123"}}'], time: AT },
  ])
  t.match(exported('mixpanel', { $distinct_id: 7, $properties: [] }), [{ distinctId: '7', operations: [] }])
  t.throws(() => exported('mixpanel', { $distinct_id: '', $properties: {} }), { message: /names no user/ })
  t.throws(() => exported('mixpanel', { $distinct_id: 'a', $properties: 5 }), { message: /not an object/ })
  for (const other of [{ $email: 'a@b.c' }, { $set: { a: 1 } }]) {
    t.throws(() => exported('mixpanel', { $distinct_id: 'a', ...other }), { message: /has no \$properties/ })
  }

  const own = { team_id: 1, distinct_id: 'ada', person_id: 'p', created_at: '2024-01-01 00:00:00.123' }
  t.match(exported('posthog', { ...own, properties: '{"plan": "pro"}' }), [
    { distinctId: 'ada', operations: ['{"$set":{"plan": "pro"}}'], time: AT },
  ])
  t.match(exported('posthog', { ...own, properties: { plan: 'pro' }, is_deleted: false }), [{ type: 'change' }])
  t.match(exported('posthog', { ...own, properties: {}, is_deleted: 0 }), [{ type: 'change' }])
  for (const is_deleted of [true, 1, 'true', '1']) {
    for (const properties of [{ plan: 'pro' }, '{}', undefined]) {
      t.throws(() => exported('posthog', { ...own, properties, is_deleted }), NoEvent, 'a deleted person stays deleted')
    }
  }
  t.throws(() => exported('posthog', { ...own, properties: '{}', is_deleted: 'true' }, true), NoEvent, 'in a table')

  const amplitude = { event_type: 'e', event_time: ISO, user_id: 'ada' }
  const odd = { ...amplitude, user_properties: { $email: 'a@b.c', plan: 'pro' } }
  t.strictSame(changesOf(exported('amplitude', odd)), [['ada', '{"$set":{"$email":"a@b.c","plan":"pro"}}']])
  t.strictSame(changesOf(exported('amplitude', { ...amplitude, user_properties: {} })), [])
  t.match(exported('amplitude', { ...amplitude, user_id: null, amplitude_id: 7 }), [{ parts: { distinct_id: '7' } }])
})

t.test('PostHog export: columns with $set change the profile', async (t) => {
  const row = { event: 'e', distinct_id: 'ada', timestamp: ISO, properties: '{}', set: '{"a":1}', set_once: '' }
  for (const isTable of [false, true]) {
    t.strictSame(changesOf(exported('posthog', row, isTable)), [['ada', '{"$set":{"a":1}}']])
  }
})

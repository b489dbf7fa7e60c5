import t from 'tap'
import { formatEvent } from '../../src/contract/event-text.js'
import { amplitudeGroupIdentifications, amplitudeMessages } from '../../src/vendors/amplitude.js'
import type { SdkMessage } from '../../src/vendors/message.js'
import { mixpanelEvents, mixpanelUpdates } from '../../src/vendors/mixpanel.js'
import { openpanelMessages } from '../../src/vendors/openpanel.js'
import { posthogMessages } from '../../src/vendors/posthog.js'
import { readRow } from '../../src/vendors/row.js'
import { segmentMessages } from '../../src/vendors/segment.js'
import { VENDORS, type VendorName } from '../../src/vendors/vendors.js'
import { json, request } from './sdk-messages.js'

/** The others have no endpoint, so only their exports are read. */
type SdkVendor = Exclude<VendorName, 'ga4' | 'matomo' | 'umami' | 'plausible'>

/** A value to replace an object in an otherwise valid message. */
type Messages = (value: unknown) => object

const ISO = '2024-01-01T00:00:00Z'

/** A field of each vendor's messages that is an object. Both texts are the message's properties. */
const DOORS: [name: string, decode: (text: string) => SdkMessage[], fields: Record<string, Messages>][] = [
  [
    'segment',
    (text) => segmentMessages(json(`{"batch":${text}}`), request()),
    {
      properties: (properties) => ({ type: 'track', event: 'e', userId: 'u', properties }),
      'traits of a user': (traits) => ({ type: 'identify', userId: 'u', traits }),
      'traits of a group': (traits) => ({ type: 'group', groupId: 'g', traits }),
      context: (context) => ({ type: 'track', event: 'e', userId: 'u', context }),
      'traits in the context': (traits) => ({ type: 'identify', userId: 'u', context: { traits } }),
    },
  ],
  [
    'posthog',
    (text) => posthogMessages(json(`{"api_key":"wk_key","batch":${text}}`), request()),
    {
      properties: (properties) => ({ event: 'e', distinct_id: 'u', properties }),
      $set: ($set) => ({ event: '$identify', distinct_id: 'u', $set }),
      $set_once: ($set_once) => ({ event: '$identify', distinct_id: 'u', $set_once }),
      '$set among the properties': ($set) => ({ event: '$set', distinct_id: 'u', properties: { $set } }),
      '$set_once among the properties': ($set_once) => ({ event: '$set', distinct_id: 'u', properties: { $set_once } }),
      $group_set: ($group_set) => {
        return {
          event: '$groupidentify',
          distinct_id: 'u',
          properties: { $group_type: 't', $group_key: 'k', $group_set },
        }
      },
      options: (options) => ({ event: '$identify', distinct_id: 'u', options }),
    },
  ],
  [
    'mixpanel',
    (text) => mixpanelEvents(json(text), request()),
    { properties: (properties) => ({ event: 'e', properties }) },
  ],
  [
    'mixpanel updates',
    (text) => mixpanelUpdates(json(text), request()),
    Object.fromEntries(
      ['$set', '$set_once', '$add', '$append', '$union', '$remove'].map((operator) => {
        return [operator, (operand: unknown) => ({ $distinct_id: 'u', $unset: ['x'], [operator]: operand })]
      }),
    ),
  ],
  [
    'amplitude',
    (text) => amplitudeMessages(json(`{"events":${text}}`), request()),
    {
      event_properties: (event_properties) => ({ event_type: 'e', user_id: 'u', event_properties }),
      user_properties: (user_properties) => ({ event_type: '$identify', user_id: 'u', user_properties }),
      $set: ($set) => ({ event_type: '$identify', user_id: 'u', user_properties: { $set } }),
      group_properties: (group_properties) => {
        return { event_type: '$groupidentify', groups: { company: 'acme' }, group_properties }
      },
    },
  ],
  [
    'amplitude groups',
    (text) => amplitudeGroupIdentifications(json(text), request()),
    { group_properties: (group_properties) => ({ group_type: 't', group_value: 'v', group_properties }) },
  ],
  [
    'openpanel',
    (text) => {
      return json(text)
        .elements()
        .flatMap((each, index) => {
          return openpanelMessages(each, request()).map((message) => ({ ...message, index }))
        })
    },
    {
      properties: (properties) => ({ type: 'track', payload: { name: 'e', properties } }),
      'properties of a user': (properties) => ({ type: 'identify', payload: { profileId: 'u', properties } }),
      'properties of a group': (properties) => ({ type: 'group', payload: { id: 'g', properties } }),
    },
  ],
]

/** The decoded message, without the parts that are stored as they were sent. */
function said(messages: SdkMessage[], index: number): unknown[] {
  return messages
    .filter((message) => message.index === index)
    .map((message) => {
      if (message.type !== 'event') return message
      const { properties, ...parts } = JSON.parse(formatEvent(message.parts))
      const { $segment, $posthog, $amplitude, $set, $set_once, $group_set, ...own } = properties
      return { ...parts, own }
    })
}

t.test('an empty array counts as an empty object in every message, because PHP encodes it like that', async (t) => {
  for (const [name, decode, fields] of DOORS) {
    for (const [field, make] of Object.entries(fields)) {
      const what = `${name}: ${field}`
      for (const empty of ['[]', '[ ]', '[\n]']) {
        const text = JSON.stringify([make('PHP'), make({})]).replace('"PHP"', () => empty)
        const messages = decode(text)
        const [php, object] = [said(messages, 0), said(messages, 1).map((each) => ({ ...(each as object) }))]
        t.notMatch(messages, [{ type: 'fault' }], what)
        t.ok(php.length > 0, what)
        t.strictSame(
          php,
          object.map((each) => ('index' in each ? { ...each, index: 0 } : each)),
          what,
        )
      }
    }
  }
})

t.test('any other value in place of an object is a fault of its message only', async (t) => {
  for (const [name, decode, fields] of DOORS) {
    for (const [field, make] of Object.entries(fields)) {
      // It only describes the sender: the event is stored without.
      if (field === 'context') continue
      for (const value of [5, 'x', true, [1], [[]], [{}], '[]']) {
        const messages = decode(JSON.stringify([make({}), make(value), make({})]))
        const what = `${name}: ${field} ${JSON.stringify(value)}`
        t.match(
          messages.filter(({ index }) => index === 1),
          [{ type: 'fault', reason: /not an object/ }],
          what,
        )
        t.notMatch(
          messages.filter(({ index }) => index !== 1),
          [{ type: 'fault' }],
          what,
        )
      }
      const absent = decode(JSON.stringify([make(undefined), make(null), make({})]))
      t.strictSame(
        absent.filter(({ type }) => type === 'fault'),
        [],
        `${name}: ${field} may be absent`,
      )
    }
  }
})

t.test('an empty array in an export counts as an empty object', async (t) => {
  const rows: Record<SdkVendor, Messages[]> = {
    segment: [
      (properties) => ({ type: 'track', event: 'e', userId: 'u', timestamp: ISO, properties }),
      (traits) => ({ type: 'identify', userId: 'u', timestamp: ISO, traits }),
    ],
    posthog: [
      (properties) => ({ event: 'e', distinct_id: 'u', timestamp: ISO, properties }),
      (properties) => ({ event: 'e', distinct_id: 'u', timestamp: ISO, properties: JSON.stringify(properties) }),
      (properties) => ({ distinct_id: 'u', properties }),
    ],
    mixpanel: [($properties) => ({ $distinct_id: 'u', $properties })],
    amplitude: [
      (event_properties) => ({ event_type: 'e', user_id: 'u', event_time: ISO, event_properties }),
      (user_properties) => ({ event_type: '$identify', user_id: 'u', event_time: ISO, user_properties }),
    ],
  }
  for (const vendor of Object.keys(rows) as SdkVendor[]) {
    const read = (row: object) => VENDORS[vendor].messages(readRow(Buffer.from(JSON.stringify(row))))
    for (const make of rows[vendor]) {
      t.equal(said(read(make([])), 0).length, said(read(make({})), 0).length, vendor)
      t.throws(() => read(make([1])), { name: 'RowFault', message: /not an object/ }, vendor)
    }
  }
})

import t from 'tap'
import { formatEvent } from '../../src/contract/event-text.js'
import { openpanelMessages } from '../../src/vendors/openpanel.js'
import { readCapture } from './replay.js'
import { changesOf, eventsOf, json, NOW, reasonsOf, request } from './sdk-messages.js'

const decode = (type: string, payload: unknown) => openpanelMessages(json(JSON.stringify({ type, payload })), request())

t.test('openpanelMessages decodes all captured messages', async (t) => {
  const types = new Set<string>()
  for (const name of ['openpanel-sdk', 'openpanel-web', 'minimum']) {
    for (const { method, sdk, call, unwrapped } of readCapture(name)) {
      if (method !== 'POST' || !sdk.includes('openpanel')) continue
      const { type, payload } = JSON.parse(unwrapped)
      const messages = openpanelMessages(json(unwrapped), request())
      const what = `${name} ${call}`
      t.strictSame(reasonsOf(messages), [], what)
      types.add(type)
      if (type !== 'track') {
        t.equal(changesOf(messages).length, type === 'replay' ? 0 : 1, what)
        continue
      }
      const [event] = eventsOf(messages)
      if (!event) throw new Error(`no event: ${what}`)
      const { $openpanel, ...own } = JSON.parse(formatEvent(event.parts)).properties
      t.strictSame(own, payload.properties ?? {}, what)
      t.strictSame($openpanel, payload.groups && { groups: payload.groups }, what)
      t.equal(event.parts.distinct_id, payload.profileId ?? '$anonymous', what)
      t.equal(event.insertId, undefined)
    }
  }
  for (const type of ['track', 'identify', 'increment', 'decrement', 'group', 'assign_group'])
    t.ok(types.has(type), type)
})

t.test('openpanelMessages keeps an event byte for byte', async (t) => {
  const properties = '{"price": 9.90,"__timestamp":"2017-07-14T02:40:00.123Z"}'
  const text = `{"type":"track","payload":{"name":"e","profileId":"ada","properties":${properties}}}`
  t.match(eventsOf(openpanelMessages(json(text), request())), [
    { parts: { event: 'e', distinct_id: 'ada', timestamp: '1500000000123', properties } },
  ])
  t.match(eventsOf(decode('track', { name: 'e', groups: ['g'] })), [
    { parts: { distinct_id: '$anonymous', properties: '{"$openpanel":{"groups":["g"]}}' } },
  ])
  const at = (__timestamp: unknown) => decode('track', { name: 'e', properties: { __timestamp } })
  for (const none of [undefined, null]) t.match(at(none), [{ parts: { timestamp: String(NOW) } }])
  for (const time of [1_700_000_000_123, '1700000000123', '2023-11-14T22:13:20.123Z']) {
    t.match(at(time), [{ parts: { timestamp: '1700000000123' } }])
  }
  for (const time of ['soon', '', 1_700_000_000, {}, false, '1900-01-01T00:00:00Z']) {
    t.match(at(time), [{ type: 'fault', field: 'timestamp', reason: `The time ${JSON.stringify(time)} ` }])
  }
})

t.test('openpanelMessages decodes profiles and groups', async (t) => {
  const rows: [type: string, payload: object, ...expected: string[]][] = [
    [
      'identify',
      { profileId: 'ada', firstName: 'A', email: 'e', properties: { plan: 'pro' } },
      'ada',
      '{"$set":{"firstName":"A","email":"e","plan":"pro"}}',
    ],
    ['identify', { profileId: 'ada', properties: { plan: 'pro' } }, 'ada', '{"$set":{"plan":"pro"}}'],
    ['identify', { profileId: 'ada', avatar: 'a', properties: {} }, 'ada', '{"$set":{"avatar":"a"}}'],
    ['identify', { profileId: 'ada' }, 'ada'],
    ['increment', { profileId: 'ada', property: 'n', value: 2 }, 'ada', '{"$add":{"n":2}}'],
    ['increment', { profileId: 'ada', property: 'n' }, 'ada', '{"$add":{"n":1}}'],
    ['decrement', { profileId: 'ada', property: 'n', value: 2.5 }, 'ada', '{"$add":{"n":-2.5}}'],
    ['decrement', { profileId: 'ada', property: 'n', value: -2 }, 'ada', '{"$add":{"n":2}}'],
    ['decrement', { profileId: 'ada', property: 'n' }, 'ada', '{"$add":{"n":-1}}'],
    [
      'group',
      { id: 'acme', type: 'company', name: 'Acme', properties: { a: 1 } },
      '$group:company:acme',
      '{"$set":{"name":"Acme","a":1}}',
    ],
    ['assign_group', { profileId: 'ada', groupIds: ['a', 'b'] }, 'ada', '{"$union":{"$groups":["a","b"]}}'],
  ]
  for (const [type, payload, ...expected] of rows) t.strictSame(changesOf(decode(type, payload)), [expected], type)
  t.strictSame(decode('assign_group', { groupIds: ['a'] }), [], 'nobody has no profile')
  t.strictSame(decode('replay', { chunk: 1 }), [])
})

t.test('openpanelMessages refuses invalid messages', async (t) => {
  t.match(reasonsOf(decode('identify', { email: 'e' })), [[0, /no profile/]])
  t.match(reasonsOf(decode('increment', { profileId: 'ada' })), [[0, /no property/]])
  t.match(reasonsOf(decode('increment', { profileId: 'ada', property: 'n', value: '2' })), [[0, /not a number/]])
  t.match(reasonsOf(decode('group', { type: 'company' })), [[0, /no id/]])
  t.match(reasonsOf(decode('assign_group', { profileId: 'ada' })), [[0, /no groups/]])
  t.match(reasonsOf(decode('nothing', {})), [[0, /no type/]])
  t.match(reasonsOf(decode('track', null)), [[0, /no payload/]])
  t.match(reasonsOf(openpanelMessages(json('[1]'), request())), [[0, /not a JSON object/]])
})

import t from 'tap'
import { formatEvent } from '../../src/contract/event-text.js'
import { linesToArray, mixpanelEvents, mixpanelUpdates } from '../../src/vendors/mixpanel.js'
import { readCapture } from './replay.js'
import { aliasesOf, changesOf, eventsOf, json, KEY, NOW, reasonsOf, request } from './sdk-messages.js'

const UPDATE = /^\$(set|set_once|add|append|union|remove|unset)$/

/** The event with these properties, including its token. */
function only(properties: object | string, event = 'e') {
  const text = typeof properties === 'string' ? properties : JSON.stringify({ token: KEY, ...properties })
  const messages = mixpanelEvents(json(`{"event":${JSON.stringify(event)},"properties":${text}}`), request())
  const [first] = eventsOf(messages)
  if (!first) throw new Error(`no event: ${JSON.stringify(messages)}`)
  return { ...first.parts, insertId: first.insertId, aliases: aliasesOf(messages) }
}

const update = (value: object) => mixpanelUpdates(json(JSON.stringify(value)), request())

t.test('mixpanel decodes all captured events and updates', async (t) => {
  let count = 0
  const operators = new Set<string>()
  for (const name of ['mixpanel', 'mixpanel-browser', 'mixpanel-unload', 'minimum']) {
    for (const { sdk, path, call, unwrapped } of readCapture(name)) {
      if (!sdk.includes('mixpanel') || !/^[[{]/.test(unwrapped)) continue
      const what = `${name} ${path} ${call}`
      const key = /"\$?token":"([^"]*)"/.exec(unwrapped)?.[1] ?? ''
      const sent = [JSON.parse(unwrapped)].flat()
      if (/\/(track|import)\/?$/.test(path)) {
        const messages = mixpanelEvents(json(unwrapped), request({ key, isOwnKey: () => true }))
        t.strictSame(reasonsOf(messages), [], what)
        const events = eventsOf(messages)
        t.equal(events.length, sent.length, what)
        for (const [i, event] of events.entries()) {
          const { token, ...own } = sent[i].properties
          const stored = JSON.parse(formatEvent(event.parts))
          t.strictSame(stored.properties, own, what)
          t.equal(stored.distinct_id, own.distinct_id || '$anonymous', what)
          t.equal(event.insertId === undefined, own.$insert_id === undefined, what)
          t.notOk(JSON.stringify(stored).includes(token), 'no key')
          count++
        }
      } else if (/\/(engage|groups)\/?$/.test(path)) {
        const messages = mixpanelUpdates(json(unwrapped), request({ key }))
        t.strictSame(reasonsOf(messages), [], what)
        for (const [i, message] of messages.entries()) {
          if (message.type === 'delete') t.ok('$delete' in sent[i], what)
          if (message.type !== 'change') continue
          const [operator = ''] = Object.keys(sent[i]).filter((member) => UPDATE.test(member))
          t.strictSame(message.operations, [JSON.stringify({ [operator]: sent[i][operator] })], what)
          operators.add(operator)
          count++
        }
        t.equal(messages.length, sent.length, what)
      }
    }
  }
  t.ok(count > 300, `${count} messages`)
  t.strictSame([...operators].sort(), ['$add', '$append', '$remove', '$set', '$set_once', '$union', '$unset'])
})

t.test('mixpanelEvents finds the user of an event', async (t) => {
  const ids = { $device_id: 'd', $user_id: 'u', distinct_id: 'ada' }
  t.equal(only(ids).distinct_id, 'ada')
  t.equal(only({ ...ids, distinct_id: '' }).distinct_id, 'u')
  t.equal(only({ $device_id: 'd' }).distinct_id, 'd')
  t.equal(only({}).distinct_id, '$anonymous')
  t.equal(only('{"distinct_id":12345678901234567890}').distinct_id, '12345678901234567890', 'as it is spelled')
})

t.test('mixpanelEvents keeps properties byte for byte, without the token', async (t) => {
  const rest = '"price": 9.90,"big":123456789012345678901234567890,"a":{"token":"wk_key"},"e":"\\u00e9"'
  t.equal(only(`{"token":"wk_key",${rest}}`).properties, `{${rest}}`)
  t.equal(only(`{${rest}, "token" : "wk_key" }`).properties, `{${rest} }`)
  t.equal(only(`{"token":"wk_key"}`).properties, '{}')
  t.equal(only('{"n":1}').properties, '{"n":1}', 'an event need not bring a token')
})

t.test('mixpanelEvents checks the token of each event', async (t) => {
  const text = JSON.stringify([
    { event: 'a', properties: { token: KEY } },
    { event: 'b', properties: { token: 'pk_second', x: 1 } },
    { event: 'c', properties: { token: 'foreign' } },
  ])
  const messages = mixpanelEvents(json(text), request({ isOwnKey: (key) => key === 'pk_second' }))
  t.strictSame(
    eventsOf(messages).map(({ parts }) => [parts.event, parts.properties]),
    [
      ['a', '{}'],
      ['b', '{"x":1}'],
    ],
    'another key of the same project works too, and is removed as well',
  )
  t.strictSame(reasonsOf(messages), [[2, 'The token belongs to another project.', 'token']])
  t.match(reasonsOf(update({ $token: 'foreign', $distinct_id: 'a', $set: {} })), [[0, /another project/, 'token']])
})

t.test('mixpanelEvents reads and corrects times', async (t) => {
  const timeOf = (time: unknown) => Number(only({ time }).timestamp ?? NOW)
  t.equal(timeOf(1_700_000_000), 1_700_000_000_000, 's')
  t.equal(timeOf(1_795_291_912.646), 1_795_291_912_646, 's with decimals')
  t.equal(timeOf(1_700_000_000_123), 1_700_000_000_123, 'ms')
  t.equal(timeOf(100_000_000_000), 100_000_000_000, 'the first ms')
  t.equal(timeOf('1700000000'), 1_700_000_000_000)
  t.equal(timeOf('2023-11-14T22:13:20.000Z'), 1_700_000_000_000)
  t.equal(timeOf('1700000000123'), 1_700_000_000_123)
  for (const time of [undefined, null]) t.equal(timeOf(time), NOW, JSON.stringify(time))
  // The last one is out of the storable range.
  for (const time of ['soon', '', -1, [1], {}, true, 1e300, 99_999_999_999]) {
    const [fault] = mixpanelEvents(json(JSON.stringify({ event: 'e', properties: { time } })), request())
    t.match(fault, { type: 'fault', field: 'timestamp', reason: `The time ${JSON.stringify(time)} ` })
    t.match(fault, { text: `"time":${JSON.stringify(time)}` }, 'its contents are kept')
    t.match(update({ $token: KEY, $distinct_id: 'a', $set: {}, $time: time }), [{ type: 'fault', field: 'timestamp' }])
  }
})

t.test('mixpanelEvents reads insert_ids', async (t) => {
  t.equal(only({ $insert_id: 'i' }, 'a').insertId, only({ $insert_id: 'i', time: 5 }, 'a').insertId, 'without the time')
  t.not(only({ $insert_id: 'i' }, 'a').insertId, only({ $insert_id: 'i' }, 'b').insertId, 'equal ones of other events')
  t.not(only({ $insert_id: 'b:c' }, 'a').insertId, only({ $insert_id: 'c' }, 'a:b').insertId, 'wherever a colon is')
  t.equal(only({ $insert_id: 'c' }, 'a:b').insertId, 'a:b:c')
  t.equal(only({}).insertId, undefined)
  t.ok((only({ $insert_id: 'i'.repeat(10_000) }).insertId?.length ?? 999) <= 255)
})

t.test('mixpanelEvents makes aliases', async (t) => {
  t.strictSame(only({ distinct_id: 'ada', $anon_distinct_id: '$device:1' }, '$identify').aliases, [
    ['ada', '$device:1'],
  ])
  t.strictSame(only({ distinct_id: 'ada', alias: 'a@b.c' }, '$create_alias').aliases, [['ada', 'a@b.c']])
  t.strictSame(only({ distinct_id: 'ada', alias: 'ada' }, '$create_alias').aliases, [])
  t.strictSame(only({ alias: 'a@b.c' }, '$create_alias').aliases, [], 'nobody has no aliases')
  t.strictSame(only({ distinct_id: 'ada', alias: 'a@b.c' }, 'renamed').aliases, [])
})

/** The messages of an event other than the event itself. */
function rest(event: string, properties: object) {
  const messages = mixpanelEvents(json(JSON.stringify({ event, properties })), request())
  return messages.slice(1).map(({ index: _, ...message }) => message)
}

t.test('mixpanelEvents decodes $identify of browsers and servers', async (t) => {
  const change = { type: 'change', identifies: true, operations: [], insertId: undefined, time: NOW }
  const link = (distinctId: string, alias: string) => ({ type: 'alias', distinctId, alias, link: 'inferred' })
  t.strictSame(rest('$identify', { distinct_id: 'ada', $anon_distinct_id: 'd' }), [
    { ...change, distinctId: 'ada' },
    link('ada', 'd'),
  ])
  const server = { $identified_id: 'ada', $anon_id: 'd' }
  t.strictSame(rest('$identify', server), [{ ...change, distinctId: 'ada' }, link('ada', 'd')])
  t.equal(only(server, '$identify').distinct_id, 'ada')
  t.equal(only({ ...server, distinct_id: 'd' }, '$identify').distinct_id, 'd', 'the distinct_id if it is given')
  t.match(rest('$identify', { ...server, distinct_id: 'd' }), [{ distinctId: 'ada' }, { alias: 'd' }])
  t.strictSame(rest('$identify', { $anon_distinct_id: 'd' }), [], 'nobody')
  t.strictSame(rest('$identify', { $identified_id: '$anonymous', $anon_id: 'd' }), [])
})

t.test('mixpanelEvents links a device and a user on one event', async (t) => {
  const ids = { $device_id: 'd', $user_id: 'ada' }
  // Events of the device may have either name; browsers use the prefix.
  const links = ['$device:d', 'd'].map((alias) => ({ type: 'alias', distinctId: 'ada', alias, link: 'inferred' }))
  t.strictSame(rest('e', ids), links)
  t.strictSame(rest('e', { ...ids, distinct_id: 'grace' }), links)
  t.strictSame(rest('e', { ...ids, $device_id: '$device:d' }), links.slice(0, 1))
  t.strictSame(rest('e', { $device_id: 'ada', $user_id: 'ada' }).length, 1, 'no alias to itself')
  for (const some of [{ $device_id: 'd' }, { $user_id: 'ada' }, { ...ids, $user_id: '' }, { ...ids, $device_id: {} }]) {
    t.strictSame(rest('e', some), [])
  }
  const twice = mixpanelEvents(json(JSON.stringify([1, 2].map(() => ({ event: 'e', properties: ids })))), request())
  t.equal(aliasesOf(twice).length, 2, 'said once in a request')
})

t.test('mixpanelEvents stores a merge of two users without a user', async (t) => {
  const ids = { $distinct_ids: ['ada', 'a@b.c'] }
  t.strictSame(rest('$merge', ids), [{ type: 'alias', distinctId: 'ada', alias: 'a@b.c', link: 'merge' }])
  t.equal(only({ ...ids, distinct_id: 'ada', $user_id: 'ada', $device_id: 'd' }, '$merge').distinct_id, '$anonymous')
  t.strictSame(rest('$merge', { $distinct_ids: [7, 'x'] }), [
    { type: 'alias', distinctId: '7', alias: 'x', link: 'merge' },
  ])
  t.strictSame(rest('$merge', { $distinct_ids: ['ada', 'ada'] }), [])
  for (const $distinct_ids of [undefined, null, [], ['ada'], ['ada', ''], ['ada', {}], 'ada', {}, [['ada', 'b']]]) {
    const [fault] = mixpanelEvents(json(JSON.stringify({ event: '$merge', properties: { $distinct_ids } })), request())
    t.match(fault, { type: 'fault', field: '$distinct_ids' }, JSON.stringify($distinct_ids))
  }
})

t.test('mixpanelUpdates decodes updates of profiles and groups', async (t) => {
  const user = { $token: KEY, $distinct_id: 'ada' }
  const operations = {
    $set: { a: 1 },
    $set_once: { b: 1 },
    $add: { n: -3 },
    $append: { l: 7, m: 'x' },
    $union: { l: ['a', 'b'] },
    $remove: { l: 'a' },
    $unset: ['a', 'b'],
  }
  for (const [operator, operand] of Object.entries(operations)) {
    const expected = JSON.stringify({ [operator]: operand })
    t.strictSame(changesOf(update({ ...user, [operator]: operand })), [['ada', expected]])
    const group = { $token: KEY, $group_key: 'company', $group_id: 'acme', [operator]: operand }
    t.strictSame(changesOf(update(group)), [['$group:company:acme', expected]])
  }
  const modifiers = { $ip: '0', $time: 1, $ignore_time: true, $ignore_alias: true, $latitude: 1.5, $longitude: 2 }
  t.strictSame(changesOf(update({ ...user, $set: { a: 1 }, ...modifiers })), [['ada', '{"$set":{"a":1}}']])
  const exact = `{"$token":"${KEY}","$distinct_id":42,"$set":{"price": 9.90,"big":123456789012345678901234567890}}`
  t.strictSame(changesOf(mixpanelUpdates(json(exact), request())), [
    ['42', '{"$set":{"price": 9.90,"big":123456789012345678901234567890}}'],
  ])
  t.strictSame(
    changesOf(
      update([
        { ...user, $add: { n: 1 } },
        { ...user, $set: { n: 5 } },
      ]),
    ),
    [
      ['ada', '{"$add":{"n":1}}'],
      ['ada', '{"$set":{"n":5}}'],
    ],
    'in their order',
  )
  t.match(update({ ...user, $delete: '' }), [{ type: 'delete', distinctId: 'ada' }])
  t.match(update({ $token: KEY, $group_key: 'c', $group_id: 7, $delete: '' }), [{ distinctId: '$group:c:7' }])
})

t.test('an invalid message does not affect the others', async (t) => {
  const good = { event: 'good', properties: { token: KEY } }
  const messages = mixpanelEvents(json(JSON.stringify([good, 1, { event: 'x', properties: [1] }, good])), request())
  t.equal(eventsOf(messages).length, 2)
  t.match(reasonsOf(messages), [
    [1, /not a JSON object/],
    [2, /properties are not an object/, 'properties'],
  ])
  const updates = update([
    { $token: KEY, $set: {} },
    { $token: KEY, $distinct_id: 'a' },
    { $token: KEY, $distinct_id: 'a', $set: {} },
  ])
  t.match(reasonsOf(updates), [
    [0, /names no user/, '$distinct_id'],
    [1, /none of \$set/],
  ])
  t.equal(changesOf(updates).length, 1)
  t.notMatch(JSON.stringify(updates), KEY, 'no key in a dead letter')
})

t.test('linesToArray reads one event per line', async (t) => {
  t.equal(linesToArray('[{"a":1},\n{"b":2}]'), '[{"a":1},\n{"b":2}]')
  t.equal(linesToArray('{\n "a": 1\n}\n'), '{\n "a": 1\n}\n')
  t.equal(linesToArray('{"a":1.0}\r\n\n{"b":2}\n'), '[{"a":1.0}\r,{"b":2}]')
  t.equal(linesToArray('{"a":1}\n{"b"\n'), '[{"a":1},"{\\"b\\""]')
  t.equal(linesToArray('{"a"\n{"b"'), '{"a"\n{"b"')
  t.throws(() => linesToArray(`{}\n${'x\n'.repeat(20_000)}`), { message: /over 20000 messages/ })
})

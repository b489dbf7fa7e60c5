import t from 'tap'
import { formatEvent } from '../../src/contract/event-text.js'
import { makeKey } from '../../src/keys/keys.js'
import type { SdkMessage, SdkRequest } from '../../src/vendors/message.js'
import { posthogMessages } from '../../src/vendors/posthog.js'
import { readCapture } from './replay.js'
import { json } from './sdk-messages.js'

const KEY = 'wk_key'
const NOW = Date.UTC(2026, 0, 1)
const MINUTE = 60_000

function request(more: Partial<SdkRequest> = {}): SdkRequest {
  return { key: KEY, receivedAt: NOW, header: () => undefined, fields: new Map(), ...more }
}

function decode(body: object, more: Partial<SdkRequest> = {}): SdkMessage[] {
  return posthogMessages(json(JSON.stringify(body)), request(more))
}

const batch = (...events: unknown[]) => ({ api_key: KEY, batch: events })
const iso = (ms: number) => new Date(ms).toISOString()

t.test('posthogMessages decodes all captured events', (t) => {
  let count = 0
  for (const name of ['posthog-node', 'posthog-js', 'minimum', 'cors']) {
    for (const { sdk, method, path, query, unwrapped, headers } of readCapture(name)) {
      if (method !== 'POST' || !sdk.startsWith('posthog') || !/batch|\/e\/|events/.test(path)) continue
      const key = /"api_key":"([^"]*)"/.exec(unwrapped)?.[1] ?? 'phc_TOKEN'
      const fields = new Map(new URLSearchParams(query))
      const messages = posthogMessages(json(unwrapped), request({ key, fields, header: (field) => headers[field] }))
      const events = messages.filter((message) => message.type === 'event')
      t.strictSame(
        messages.filter((message) => message.type === 'fault'),
        [],
        `${name} ${path}`,
      )
      const sent = JSON.parse(unwrapped).batch
      t.equal(events.length, sent.length)
      for (const [i, event] of events.entries()) {
        const { token: _, ...properties } = sent[i].properties
        const text = formatEvent(event.parts)
        const stored = JSON.parse(text)
        const { $posthog, ...rest } = stored.properties
        t.equal(event.insertId, sent[i].uuid)
        t.strictSame(rest, properties)
        t.equal(stored.event, sent[i].event)
        t.equal(stored.distinct_id, sent[i].distinct_id ?? properties.distinct_id)
        t.equal($posthog.timestamp, sent[i].timestamp)
        // An exception quotes lines of the program, which may contain anything.
        t.ok(stored.event === '$exception' || !text.includes(key), 'no key')
        count++
      }
    }
  }
  t.ok(count > 100, `${count} events`)
  t.end()
})

t.test('posthogMessages keeps an event byte for byte, without the key', (t) => {
  const before = '{ "price":9.90,"esc":"\\u00e9\\/","big":1e400,"$session_id":"s"'
  const text = `[{"event":"bought","uuid":"u-1","properties": ${before}, "token":"${KEY}" ,"distinct_id":"ada"},"offset":5}]`
  const properties = `${before}, "distinct_id":"ada","$posthog":{"uuid":"u-1","offset":5}}`
  const want = {
    type: 'event',
    insertId: 'u-1',
    index: 0,
    parts: { event: 'bought', distinct_id: 'ada', timestamp: String(NOW - 5), properties, session_id: 's' },
    source: { userAgent: undefined, address: undefined, timezone: undefined, language: undefined },
  }
  const escaped = text.replace(KEY, '\\u0077k_key')
  for (const each of [text, text.slice(1, -1), `{"batch":${text}}`, escaped]) {
    t.strictSame(posthogMessages(json(each), request()), [want], each)
  }
  t.end()
})

t.test('posthogMessages reads an array without an envelope, or one event, of posthog-js 1.236', (t) => {
  const event = (name: string, more: object) => ({
    event: name,
    properties: { token: KEY, distinct_id: 'd', $lib: 'web' },
    ...more,
  })
  const fields = new Map([['_', String(NOW - 5 * MINUTE)]])
  const messages = decode([event('a', { offset: 2000 }), event('b', { offset: 0 })], { fields })
  t.match(messages, [
    { parts: { event: 'a', timestamp: String(NOW - 2000), properties: /^\{"distinct_id":"d"/ } },
    { parts: { event: 'b', timestamp: String(NOW) } },
  ])
  const alone = decode(event('c', { timestamp: iso(NOW - 9 * MINUTE) }), { fields })
  t.match(alone, [{ parts: { event: 'c', timestamp: String(NOW - 4 * MINUTE) } }], 'corrected by the query')
  t.match(decode([event('a', { offset: 2000 })]), [{ parts: { timestamp: String(NOW - 2000) } }], 'by the arrival')
  t.end()
})

t.test('posthogMessages reads and corrects times', (t) => {
  const then = NOW - 10 * MINUTE
  const at = (event: object, sent_at?: number, more: Partial<SdkRequest> = {}) => {
    const sent = sent_at === undefined ? {} : { sent_at: iso(sent_at) }
    const [first] = decode({ ...batch({ event: 'e', distinct_id: 'u', ...event }), ...sent }, more)
    return first?.type === 'event' ? Number(first.parts.timestamp) : undefined
  }
  const timestamp = iso(then)
  t.equal(at({}), NOW)
  t.equal(at({ timestamp: null }), NOW)
  t.equal(at({ timestamp: '2025-12-31 23:50:00.000123+00:00' }), then)
  t.equal(at({ timestamp: then }), then, 'a number of milliseconds')
  for (const unreadable of ['never', '', 1_700_000_000, 5, {}, [], true, '2300-01-01T00:00:00Z', '1969-12-31']) {
    const [fault] = decode(batch({ event: 'e', distinct_id: 'u', timestamp: unreadable, offset: 5 }))
    t.match(fault, { type: 'fault', field: 'timestamp', reason: `The time ${JSON.stringify(unreadable)} ` })
  }
  for (const offset of ['soon', {}, 1e300, -1e300]) {
    t.match(decode(batch({ event: 'e', distinct_id: 'u', offset })), [{ type: 'fault', field: 'offset' }])
  }
  t.equal(at({ timestamp }, NOW - MINUTE), then, 'a minute is not corrected')
  t.equal(at({ timestamp }, NOW - MINUTE - 1), then + MINUTE + 1)
  t.equal(at({ timestamp }, NOW + 5 * MINUTE), then - 5 * MINUTE)
  t.equal(at({ offset: 1000 }, NOW - 5 * MINUTE), NOW - 1000)
  for (const properties of [
    { $is_server: true },
    { $ignore_sent_at: true },
    { $lib: 'posthog-node' },
    { $lib: 'posthog-python' },
  ]) {
    t.equal(at({ timestamp, properties }, 0), then, JSON.stringify(properties))
  }
  t.equal(at({ timestamp, library: 'posthog-node' }, 0), then, 'posthog-node 5.0')
  t.equal(at({ timestamp, options: { disable_skew_correction: true } }, 0), then)
  t.equal(at({ timestamp, properties: { $lib: 'web' } }, NOW - 5 * MINUTE), then + 5 * MINUTE)
  const headers: Record<string, string> = { 'posthog-request-timestamp': iso(NOW - 5 * MINUTE) }
  const header = (name: string) => headers[name]
  t.equal(at({ timestamp }, undefined, { header }), then + 5 * MINUTE)
  headers['posthog-sdk-info'] = 'posthog-node/5.70.0'
  t.equal(at({ timestamp }, undefined, { header }), then)
  t.end()
})

t.test('posthogMessages decodes profiles, groups and aliases', (t) => {
  const rest = (event: object) => decode(batch({ uuid: 'i', distinct_id: 'u', ...event })).slice(1)
  const change = { type: 'change', insertId: 'i', index: 0, distinctId: 'u', identifies: false, time: NOW }
  t.match(rest({ event: 'e', $set: { a: 1, b: 1 }, $set_once: { c: 1 }, properties: { $set: { b: 2 } } }), [
    { ...change, operations: ['{"$set":{"a":1,"b":2},"$set_once":{"c":1}}'] },
  ])
  t.strictSame(rest({ event: '$set', properties: { $unset: ['a'] } }), [
    { ...change, operations: ['{"$unset":["a"]}'] },
  ])
  t.strictSame(rest({ event: '$identify', properties: { $anon_distinct_id: 'anon' } }), [
    { ...change, identifies: true, operations: [] },
    { type: 'alias', distinctId: 'u', alias: 'anon', link: 'inferred', index: 0 },
  ])
  t.strictSame(rest({ event: '$create_alias', properties: { alias: 'b' } }), [
    { type: 'alias', distinctId: 'u', alias: 'b', link: 'said', index: 0 },
  ])
  t.strictSame(rest({ event: '$merge_dangerously', properties: { alias: 'b' } }), [
    { type: 'alias', distinctId: 'u', alias: 'b', link: 'merge', index: 0 },
  ])
  t.strictSame(rest({ event: '$create_alias', properties: { alias: 'u' } }), [])
  t.match(
    rest({ event: '$groupidentify', properties: { $group_type: 'company', $group_key: 5, $group_set: { n: 1.5 } } }),
    [{ type: 'change', distinctId: '$group:company:5', isGroup: true, operations: ['{"$set":{"n":1.5}}'] }],
  )
  const set = { $set: { a: 1 } }
  t.strictSame(rest({ event: 'e', properties: { ...set, $process_person_profile: false } }), [])
  t.strictSame(rest({ event: 'e', properties: set, options: { process_person_profile: false } }), [])
  t.strictSame(rest({ event: 'e', properties: { $set: null, $set_once: null, $unset: null } }), [])
  t.match(rest({ event: 'e', properties: { $unset: { a: 1, b: 2 } } }), [{ operations: ['{"$unset":["a","b"]}'] }])
  for (const field of ['$set', '$set_once', '$unset']) {
    const [fault] = decode(batch({ event: 'e', distinct_id: 'u', properties: { [field]: 'text' } }))
    t.match(fault, { type: 'fault', field })
  }
  const nobody = { event: '$identify', distinct_id: undefined, $set: { a: 1 }, properties: { $anon_distinct_id: 'x' } }
  t.strictSame(rest(nobody), [], 'nobody has no profile, and no other names')
  t.end()
})

t.test('an invalid event does not affect the others', (t) => {
  const good = { event: 'e', distinct_id: 'u' }
  const messages = decode(batch(good, null, 'x', { ...good, uuid: 'i', properties: 'x' }, good))
  t.equal(messages.filter(({ type }) => type === 'event').length, 2)
  t.match(
    messages.filter(({ type }) => type === 'fault'),
    [{ index: 1 }, { index: 2 }, { index: 3, insertId: 'i', reason: /properties are not an object/ }],
  )
  for (const text of ['{"batch":{}}', '{"batch":"x"}']) t.throws(() => posthogMessages(json(text), request()), text)
  t.end()
})

t.test('posthogMessages distinguishes keys from properties of the same name', (t) => {
  const event = (token: unknown) => ({ event: 'e', distinct_id: 'u', properties: { token } })
  const other = makeKey('write')
  t.match(decode(batch(event('mine'))), [{ type: 'event', parts: { properties: /^\{"token":"mine"/ } }], 'data')
  t.match(decode(batch(event(other), event(KEY))), [{ type: 'fault' }, { type: 'event' }], 'a key')
  t.match(decode([event(KEY), event('other'), event('')]), [{ type: 'event' }, { type: 'fault' }, { type: 'event' }])
  t.match(decode(batch({ ...event(5), api_key: other })), [{ type: 'fault' }])
  const [single] = decode({ ...event(KEY), api_key: KEY, token: KEY })
  t.match(single, { type: 'event', parts: { properties: '{"$posthog":{}}' } })
  const [fault] = decode(batch({ properties: 5, token: KEY }))
  t.match(fault, { type: 'fault', text: '{"properties":5,"token":""}' })
  t.end()
})

t.test('posthogMessages reads the ids of older libraries', (t) => {
  const idOf = (event: object) => {
    const [first] = decode(batch({ event: 'e', distinct_id: 'u', ...event }))
    return first?.type === 'event' ? first.insertId : first
  }
  t.equal(idOf({ uuid: 'u-1', messageId: 'm', properties: { $insert_id: 'i' } }), 'u-1')
  t.equal(idOf({ messageId: 'm', properties: { $insert_id: 'i' } }), 'i', 'posthog-js up to 1.63')
  t.equal(idOf({ messageId: 'm' }), 'm', 'posthog-python 1, posthog-ruby up to 2.10')
  t.equal(idOf({ uuid: '', messageId: {}, properties: { $insert_id: [] } }), undefined)
  t.end()
})

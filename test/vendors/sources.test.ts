import t from 'tap'
import { readJson } from '../../src/json/value.js'
import { amplitudeMessages } from '../../src/vendors/amplitude.js'
import type { SdkMessage, SdkRequest } from '../../src/vendors/message.js'
import { mixpanel, mixpanelEvents } from '../../src/vendors/mixpanel.js'
import { openpanelMessages } from '../../src/vendors/openpanel.js'
import { posthogMessages } from '../../src/vendors/posthog.js'
import { readRow } from '../../src/vendors/row.js'
import { segmentMessages } from '../../src/vendors/segment.js'

/** By vendor: makes a message with these fields where the vendor puts the sender's address and User-Agent. */
const VENDORS = {
  segment: (fields: object) =>
    segmentMessages(json({ type: 'track', event: 'e', userId: 'u', context: fields }), request(), 'track'),
  posthog: (fields: object) => posthogMessages(json({ event: 'e', distinct_id: 'u', properties: fields }), request()),
  mixpanel: (fields: object) =>
    mixpanelEvents(json({ event: 'e', properties: { distinct_id: 'u', ...fields } }), request()),
  amplitude: (fields: object) =>
    amplitudeMessages(json({ events: [{ event_type: 'e', user_id: 'u', ...fields }] }), request()),
  openpanel: (fields: object) =>
    openpanelMessages(json({ type: 'track', payload: { name: 'e', profileId: 'u', properties: fields } }), request()),
}
const ADDRESS = { segment: 'ip', posthog: '$ip', mixpanel: 'ip', amplitude: 'ip', openpanel: '__ip' }
const AGENT = {
  segment: 'userAgent',
  posthog: '$raw_user_agent',
  mixpanel: '$raw_user_agent',
  amplitude: 'user_agent',
  openpanel: '__userAgent',
}

function json(value: unknown) {
  const read = readJson(Buffer.from(JSON.stringify(value)))
  if (!read) throw new Error('not JSON')
  return read
}

function request(fields: [string, string][] = []): SdkRequest {
  return { key: 'wk_key', receivedAt: 1_700_000_000_000, header: () => undefined, fields: new Map(fields) }
}

function sourceOf([message]: SdkMessage[]) {
  return message?.type === 'event' ? message.source : undefined
}

t.test('a message may name the address and the browser of its sender', async (t) => {
  for (const vendor of Object.keys(VENDORS) as (keyof typeof VENDORS)[]) {
    const source = (fields: object) => sourceOf(VENDORS[vendor](fields))
    const address = ADDRESS[vendor]
    t.match(
      source({ [address]: '192.0.2.1', [AGENT[vendor]]: 'Mozilla/5.0' }),
      { address: '192.0.2.1', userAgent: 'Mozilla/5.0' },
      vendor,
    )
    for (const none of [0, false, '0', 'false', '', {}, []]) {
      t.equal(source({ [address]: none })?.address, null, `${vendor}: ${JSON.stringify(none)}`)
    }
    for (const unsaid of [null, undefined, true, 1, '1', '$remote']) {
      t.equal(source({ [address]: unsaid })?.address, undefined, `${vendor}: ${JSON.stringify(unsaid)}`)
    }
    t.equal(source({ [AGENT[vendor]]: 5.5 })?.userAgent === 'Mozilla/5.0', false, vendor)
  }
})

t.test('fields that only one vendor has', async (t) => {
  t.match(sourceOf(VENDORS.segment({ timezone: 'Europe/Vienna', locale: 'de-AT' })), {
    timezone: 'Europe/Vienna',
    language: 'de-AT',
  })
  t.match(sourceOf(VENDORS.posthog({ $timezone: 'Europe/Vienna' })), { timezone: 'Europe/Vienna' })
  t.match(sourceOf(VENDORS.posthog({ $timezone: 'Europe/Vienna', $geoip_disable: true })), {
    timezone: undefined,
    address: null,
  })
  t.match(sourceOf(VENDORS.mixpanel({ $ip: '192.0.2.1' })), { address: '192.0.2.1' })
  const event = json({ event: 'e', properties: { distinct_id: 'u' } })
  t.equal(sourceOf(mixpanelEvents(event, request([['ip', '0']])))?.address, null, 'for all events of a request')
  t.equal(sourceOf(mixpanelEvents(event, request([['ip', '1']])))?.address, undefined)
})

t.test('a context that cannot be read says nothing, and the message is stored', async (t) => {
  for (const context of ['text', [1], 5, { library: 5 }, { library: [1] }]) {
    const message = { type: 'identify', userId: 'u', traits: { a: 1 }, context }
    const [event, change] = segmentMessages(json(message), request(), 'identify')
    t.match(event, { type: 'event', source: { userAgent: undefined } }, JSON.stringify(context))
    t.match(change, { type: 'change', operations: ['{"$set":{"a":1}}'] })
    const untold = segmentMessages(json({ ...message, traits: undefined }), request(), 'identify')
    t.strictSame(
      untold.map(({ type }) => type),
      ['event', 'change'],
    )
  }
})

t.test('rows of an export have no sender', async (t) => {
  const [row] = mixpanel.messages(
    readRow(Buffer.from('{"event":"e","properties":{"distinct_id":"u","time":1700000000,"ip":"192.0.2.1"}}')),
  )
  t.equal(row?.type === 'event' && row.source, undefined)
})

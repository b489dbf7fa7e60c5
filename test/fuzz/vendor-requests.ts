import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { SECRET_KEY } from '../helper.js'
import type { Request } from './requests.js'
import { brokenBytes, jsonText, objectText, text } from './texts.js'

/** How a vendor's SDKs send events that are in order. */
export interface VendorCall {
  paths: string[]
  /** the text of an event of a user, with a property `x` */
  event(user: string, id: string, x: string): string
  /** a request of these messages; one without an envelope holds one message */
  envelope(messages: string[]): string
  isSingle?: boolean
  /** whether it is sent as the form of amplitude-js 8 */
  isForm?: boolean
}

const KEY = JSON.stringify(SECRET_KEY)
const list = (messages: string[]) => `[${messages.join()}]`
const only = (messages: string[]) => messages[0] ?? ''

const segmentEvent = (user: string, id: string, x: string) =>
  `{"type":"track","messageId":${id},"userId":${user},"event":"good","properties":{"x":${x}}}`
const posthogEvent = (user: string, id: string, x: string) =>
  `{"event":"good","uuid":${id},"distinct_id":${user},"properties":{"x":${x}}}`
const mixpanelEvent = (user: string, id: string, x: string) =>
  `{"event":"good","properties":{"token":${KEY},"$insert_id":${id},"distinct_id":${user},"x":${x}}}`
const amplitudeEvent = (user: string, id: string, x: string) =>
  `{"event_type":"good","insert_id":${id},"user_id":${user},"event_properties":{"x":${x}}}`
const openpanelEvent = (user: string, _id: string, x: string) =>
  `{"type":"track","payload":{"name":"good","profileId":${user},"properties":{"x":${x}}}}`

export const VENDOR_CALLS: Record<string, VendorCall> = {
  'a batch of Segment': {
    paths: ['/segment/v1/batch', '/segment/v1/b/', '/segment/v1/import', '/segment/beacon/v1/batch'],
    event: segmentEvent,
    envelope: (messages) => `{"batch":${list(messages)},"writeKey":${KEY}}`,
  },
  'a message of Segment': {
    paths: ['/segment/v1/t', '/segment/v1/track/', '/jitsu/api/s/track', '/jitsu/api/s/s2s/track'],
    event: segmentEvent,
    envelope: only,
    isSingle: true,
  },
  'a batch of PostHog': {
    paths: ['/posthog/batch/', '/posthog/e/', '/posthog/i/v0/e', '/posthog/capture/', '/posthog/i/v1/analytics/events'],
    event: posthogEvent,
    envelope: (messages) => `{"api_key":${KEY},"batch":${list(messages)}}`,
  },
  'an array of PostHog': { paths: ['/posthog/e/', '/posthog/track'], event: posthogEvent, envelope: list },
  'an array of Mixpanel': {
    paths: ['/mixpanel/track', '/mixpanel/track/', '/mixpanel/import'],
    event: mixpanelEvent,
    envelope: list,
  },
  'events of Amplitude': {
    paths: ['/amplitude/2/httpapi', '/amplitude/batch', '/amplitude/'],
    event: amplitudeEvent,
    envelope: (messages) => `{"api_key":${KEY},"events":${list(messages)}}`,
  },
  'a form of Amplitude': {
    paths: ['/amplitude', '/amplitude/', '/amplitude/httpapi'],
    event: amplitudeEvent,
    envelope: list,
    isForm: true,
  },
  'a message of OpenPanel': { paths: ['/openpanel/track'], event: openpanelEvent, envelope: only, isSingle: true },
}

/** Names that the decoders look for. */
const NAMES = [
  ...['type', 'event', 'userId', 'anonymousId', 'previousId', 'groupId', 'traits', 'context', 'properties', 'options'],
  ...['timestamp', 'originalTimestamp', 'sentAt', 'messageId', 'writeKey', 'distinct_id', 'uuid', 'offset', 'token'],
  ...['$set', '$set_once', '$unset', '$add', '$delete', '$token', '$distinct_id', '$group_key', '$group_id', 'api_key'],
  ...['$insert_id', 'time', '$anon_distinct_id', 'alias', 'event_type', 'insert_id', 'user_id', 'device_id', 'groups'],
  ...['event_properties', 'user_properties', 'group_properties', '$clearAll', '$group_type', '$group_set'],
  ...['payload', 'name', 'profileId', 'property', 'value', 'groupIds', 'id', '__proto__', 'constructor'],
]
const WORDS = [
  ...['track', 'identify', 'alias', 'group', 'page', '$identify', '$create_alias', '$groupidentify', 'increment', 'u'],
  ...['', SECRET_KEY, '2026-01-01T00:00:00Z', '-999999-01-01T00:00:00Z', 'x'.repeat(300), 'x:***', '\ud800', '1e400'],
]
const word = fc.constantFrom(...WORDS).map((given) => JSON.stringify(given))
const members = (value: fc.Arbitrary<string>) =>
  fc
    .array(fc.tuple(fc.constantFrom(...NAMES), value), { maxLength: 8 })
    .map((pairs) => `{${pairs.map(([name, given]) => `${JSON.stringify(name)}:${given}`).join()}}`)
const leaf = fc.oneof(word, jsonText)
/** Something between a message and none. */
const odd = fc.oneof(
  { weight: 4, arbitrary: members(fc.oneof(leaf, members(fc.oneof(leaf, members(leaf))))) },
  { weight: 1, arbitrary: jsonText },
)

interface Wrapped {
  body: Buffer
  headers: Record<string, string>
  query: string
}

const bare = (body: Buffer): Wrapped => ({ body, headers: {}, query: '' })
const plain = (json: string) => bare(Buffer.from(json))
const base64Of = (json: string) => Buffer.from(json).toString('base64')

/** As mixpanel-browser writes it: each half of a surrogate pair by itself. */
function cesu8(json: string): Buffer {
  const bytes: number[] = []
  for (let i = 0; i < json.length; i++) {
    const unit = json.charCodeAt(i)
    if (unit < 0x80) bytes.push(unit)
    else if (unit < 0x800) bytes.push(0xc0 | (unit >> 6), 0x80 | (unit & 0x3f))
    else bytes.push(0xe0 | (unit >> 12), 0x80 | ((unit >> 6) & 0x3f), 0x80 | (unit & 0x3f))
  }
  return Buffer.from(bytes)
}

/** How SDKs wrap JSON; all of these are understood at every call. */
const WRAPS: ((json: string) => Wrapped)[] = [
  plain,
  (json) => bare(cesu8(json)),
  (json) => bare(gzipSync(json)),
  (json) => ({ ...bare(gzipSync(json)), headers: { 'content-encoding': 'gzip' } }),
  (json) => ({ ...bare(gzipSync(gzipSync(json))), headers: { 'content-encoding': 'gzip' } }),
  (json) => bare(Buffer.from(base64Of(json))),
]
const FORMS: ((json: string) => Wrapped)[] = [
  (json) => bare(Buffer.from(`data=${base64Of(json)}`)),
  (json) => bare(Buffer.from(`ip=1&verbose=1&data=${encodeURIComponent(base64Of(json))}`)),
  (json) => bare(Buffer.from(`data=${encodeURIComponent(cesu8(json).toString('base64'))}`)),
  (json) => bare(gzipSync(`data=${encodeURIComponent(json)}&compression=base64`)),
]
const amplitudeForm = (json: string) => bare(Buffer.from(`checksum=0&client=x&v=2&e=${encodeURIComponent(json)}`))

/** Headers that say nothing about a body, or the wrong thing. */
const contentType = fc.constantFrom(
  ...['application/json', 'application/json;charset=UTF-8', 'text/plain;charset=UTF-8', 'application/octet-stream', ''],
  ...['application/x-www-form-urlencoded', 'application/x-ndjson', 'text/plain; charset', 'multipart/form-data'],
)
const query = fc.constantFrom(
  '',
  '?ip=1&_=1795291912646&ver=1.2',
  '?verbose=1&compression=gzip-js',
  '?compression=lz64&img=1&redirect=%2F%2Fx',
  '?strict=1&beacon=1',
)
/** The key that counts is also in a header if no message needs to have it. */
const AUTHORIZATION = { authorization: `Basic ${Buffer.from(`${SECRET_KEY}:`).toString('base64')}` }

/** Events of a user that are in order, among messages that may be anything. */
export interface Sending {
  call: VendorCall
  /** the texts of the properties `x` of the events in order */
  good: string[]
  /** their indexes among the messages */
  places: number[]
  messages(user: string): string[]
  /** a request of these messages */
  request(messages: string[]): Request
}

export const sending: fc.Arbitrary<Sending> = fc
  .record({
    call: fc.constantFrom(...Object.values(VENDOR_CALLS)),
    mixed: fc.array(
      fc.oneof(
        objectText.map((x) => ({ x, message: '' })),
        odd.map((message) => ({ x: null, message })),
      ),
      { minLength: 1, maxLength: 8 },
    ),
    path: fc.nat(),
    wrap: fc.nat(),
    type: contentType,
    query,
  })
  .map(({ call, mixed, path, wrap, type, query }) => {
    const all = call.isSingle ? mixed.slice(0, 1) : mixed
    const wraps = [...WRAPS, ...FORMS]
    const wrapped = call.isForm ? amplitudeForm : (wraps[wrap % wraps.length] ?? plain)
    return {
      call,
      good: all.flatMap(({ x }) => x ?? []),
      places: all.flatMap(({ x }, i) => (x === null ? [] : [i])),
      messages: (user: string) =>
        all.map(({ x, message }, i) =>
          x === null ? message : call.event(JSON.stringify(user), JSON.stringify(`${user}:${i}`), x),
        ),
      request: (messages: string[]) => {
        const { body, headers } = wrapped(call.envelope(messages))
        return {
          method: 'POST',
          path: (call.paths[path % call.paths.length] ?? '') + query,
          headers: { ...AUTHORIZATION, ...(type && { 'content-type': type }), ...headers },
          body,
        }
      },
    }
  })

const anyPath = fc.oneof(
  fc.constantFrom(...Object.values(VENDOR_CALLS).flatMap(({ paths }) => paths)),
  fc.constantFrom(
    ...[
      '/mixpanel/engage',
      '/mixpanel/groups/',
      '/mixpanel/record/',
      '/posthog/decide/',
      '/posthog/flags/',
      '/posthog/s/',
      '/posthog/engage/',
      '/posthog/api/surveys/',
      '/posthog/static/array.js',
      '/posthog/array/x/config.js',
    ],
    ...['/amplitude/httpapi', '/amplitude/identify', '/amplitude/groupidentify/', '/amplitude/usermap'],
    ...['/mixpanel/decide/', '/mixpanel/settings', '/segment/v1/pixel/track', '/jitsu/p.js'],
    ...['/posthog//batch/', '/segment/analytics-next/bundles/x.js', '/segment/analytics.js/v1/x/analytics.min.js'],
    ...[
      '/segment/v1/projects/x/settings',
      '/segment/sourceConfig/',
      '/posthog/array/x/config',
      '/segment',
      '/mixpanel/x',
    ],
  ),
)
const anyBody = fc.oneof(
  fc.uint8Array({ maxLength: 80 }).map((bytes) => Buffer.from(bytes)),
  brokenBytes,
  odd.map((given) => Buffer.from(given)),
  fc.array(odd, { maxLength: 3 }).map((all) => gzipSync(`{"batch":[${all.join()}],"events":[${all.join()}]}`)),
  fc
    .tuple(
      fc.constantFrom(
        'data=',
        'compression=lz64&data=',
        'e=',
        'mapping=',
        'checksum=&',
        '\x1f\x8b\x08',
        '\x28\xb5\x2f\xfd',
        '%',
        '{"a":',
      ),
      fc.uint8Array(),
    )
    .map(([start, bytes]) => Buffer.concat([Buffer.from(start, 'latin1'), bytes])),
  fc.constantFrom('[', '{"batch":[', 'data=%5B', '{"a":').map((open) => Buffer.from(open.repeat(10_000))),
)

/** A small body that would grow beyond the limit of a request, which is 20 MiB. */
export const BOMB: Buffer = gzipSync(Buffer.alloc(21 * 1024 * 1024, ' '))

/** Anything to any path of a vendor. */
export const vendorNoise: fc.Arbitrary<Request> = fc
  .record({
    method: fc.constantFrom('POST', 'POST', 'POST', 'GET', 'PUT', 'OPTIONS'),
    path: anyPath,
    query: fc.oneof(
      query,
      fc.tuple(fc.constantFrom('data', 'e', 'event', 'identification', 'mapping', 'token', 'x'), text).map(asQuery),
    ),
    key: fc.option(fc.constantFrom(SECRET_KEY, 'wk_wrong', '')),
    type: contentType,
    encoding: fc.option(fc.constantFrom('gzip', 'deflate', 'br', 'zstd', 'identity', 'x'), { freq: 6 }),
    body: fc.oneof({ weight: 30, arbitrary: anyBody }, { weight: 1, arbitrary: fc.constant(BOMB) }),
  })
  .map(({ body, ...others }) => {
    // Bodies that grow large without a known key count for a while; that they are then refused is tested elsewhere.
    return body === BOMB ? { ...others, body, method: 'POST', key: SECRET_KEY, encoding: null } : { ...others, body }
  })
  .map(({ method, path, query, key, type, encoding, body }) => ({
    method,
    path: path + query,
    headers: {
      ...(key !== null && { 'x-api-key': key }),
      ...(type && { 'content-type': type }),
      ...(encoding !== null && { 'content-encoding': encoding }),
    },
    body: method === 'GET' ? null : body,
  }))

function asQuery([name, value]: [string, string]): string {
  return `?${name}=${encodeURIComponent(value.toWellFormed())}`
}

import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import { formatEvent } from '../../src/contract/event-text.js'
import type { SdkRequest } from '../../src/vendors/message.js'
import { posthogMessages } from '../../src/vendors/posthog.js'
import { RowFault } from '../../src/vendors/row.js'
import { SdkBodyError, unwrapSdkBody } from '../../src/vendors/sdk-body.js'
import { segmentMessages } from '../../src/vendors/segment.js'
import { json } from './sdk-messages.js'

const KEY = 'wk_key'
const LIMIT = 1_000_000
const request: SdkRequest = { key: KEY, receivedAt: 1e12, header: () => undefined, fields: new Map() }
const runs = { numRuns: 1000 }

const text = fc.jsonValue().map((value) => JSON.stringify(value))
/** Objects with the names that the decoders look for, and values of any shape. */
const NAMES =
  'type event userId anonymousId previousId groupId traits context properties timestamp sentAt messageId writeKey distinct_id uuid offset $set $set_once $unset options api_key token $anon_distinct_id alias'
const words = fc.constantFrom(
  'track',
  'identify',
  '$identify',
  '$create_alias',
  'group',
  'u',
  '',
  KEY,
  '2026-01-01T00:00:00Z',
)
const leaf = fc.oneof(
  words,
  fc.jsonValue(),
  fc.dictionary(fc.constantFrom(...NAMES.split(' ')), fc.oneof(words, fc.jsonValue())),
)
const message = fc.oneof(fc.dictionary(fc.constantFrom(...NAMES.split(' ')), leaf), fc.jsonValue())
const good = { type: 'track', event: 'good', userId: 'u', distinct_id: 'u' }

t.test('JSON comes out as it went in, in whatever it is wrapped', async () => {
  const wrap = fc.constantFrom<(text: string) => string>(
    (json) => json,
    (json) => Buffer.from(json).toString('base64'),
    (json) => `data=${encodeURIComponent(Buffer.from(json).toString('base64'))}&verbose=1`,
    (json) => `data=${Buffer.from(json).toString('base64')}`,
    (json) => `e=${encodeURIComponent(json)}`,
  )
  const object = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue())
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

t.test('any bytes are taken or refused in words', async () => {
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

t.test('no message takes another with it, and none is lost without a reason', async () => {
  const decoders = [segmentMessages, posthogMessages]
  fc.assert(
    fc.property(fc.array(message), fc.constantFrom(...decoders), (all, decode) => {
      const body = JSON.stringify({ api_key: KEY, batch: [good, ...all, good] })
      const messages = decode(json(body), request)
      const indexes = new Set(
        messages.filter(({ type }) => type === 'event' || type === 'fault').map(({ index }) => index),
      )
      const events = messages.filter((each) => each.type === 'event').filter(({ parts }) => parts.event === 'good')
      for (const { parts } of events) JSON.parse(formatEvent(parts))
      for (const each of messages) {
        if (each.type === 'event') JSON.parse(each.parts.properties ?? '')
        if (each.type === 'change') each.operations.map((operations) => JSON.parse(operations))
      }
      return indexes.size === all.length + 2 && events.length >= 2
    }),
    runs,
  )
  fc.assert(
    fc.property(
      fc.oneof(
        text,
        message.map((value) => JSON.stringify(value)),
      ),
      fc.constantFrom(...decoders),
      (body, decode) => {
        try {
          return decode(json(body), request).every(({ type }) => typeof type === 'string')
        } catch (error) {
          return error instanceof RowFault
        }
      },
    ),
    runs,
  )
})

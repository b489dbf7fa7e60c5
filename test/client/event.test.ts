import type { Static } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import fc from 'fast-check'
import t from 'tap'
import { TallyhouseError } from '../../src/client/errors.js'
import { formatEvent, formatObject, parseEvent, type TrackEvent } from '../../src/client/event.js'
import type { ProfileOperations } from '../../src/client/tallyhouse.js'
import { type ProfileBody, TrackBody } from '../../src/contract/schemas.js'
import { memberText } from '../../src/json/texts.js'
import { parseOperations } from '../../src/model/profile-operations.js'
import { codePoint } from '../fuzz/texts.js'

const NOW = 1_700_000_000_000

/** Does not compile if the client's type accepts what the service's schema refuses. */
type Fits<Given extends Wanted, Wanted> = Given
type Parsed = Pick<TrackEvent, 'event' | 'distinct_id'> & {
  properties?: object | null
  timestamp?: number | null
  insert_id?: string | null
  session_id?: string | null
}
export type Checked = [
  Fits<Parsed, Static<typeof TrackBody>>,
  Fits<{ distinct_id: string; operations: ProfileOperations }, Static<typeof ProfileBody>>,
]

t.test('client and service accept and refuse the same events', async (t) => {
  const fitsService = TypeCompiler.Compile(TrackBody)
  const name = fc.oneof(fc.string({ unit: codePoint, maxLength: 300 }), fc.constantFrom('', '\ud800', '😀'.repeat(255)))
  const event = fc.record(
    {
      event: fc.oneof(name, fc.anything()),
      distinct_id: name,
      properties: fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue()),
      timestamp: fc.oneof(fc.nat(), fc.double(), fc.constant(null), fc.jsonValue()),
      insert_id: fc.oneof(name, fc.constant(null)),
      session_id: fc.oneof(name, fc.constant(null)),
    },
    { requiredKeys: ['event', 'distinct_id'] },
  )
  let taken = 0
  fc.assert(
    fc.property(event, (given) => {
      // JSON has neither NaN nor infinity, and only the client accepts properties as text.
      fc.pre(typeof given.properties !== 'string' && Number.isFinite(given.timestamp ?? 0))
      const fits = fitsService.Check(given)
      try {
        const text = formatEvent(given as TrackEvent, NOW)
        taken++
        return fits && fitsService.Check(JSON.parse(text))
      } catch (error) {
        return !fits && error instanceof TallyhouseError && error.code === 'invalid_request'
      }
    }),
    { numRuns: 500, examples: [[{ event: 'a', distinct_id: 'b', properties: {}, timestamp: 0 }]] },
  )
  t.ok(taken > 20, 'both cases come')
})

t.test("formatEvent uses the event's time, or that of the call", async (t) => {
  const time = (timestamp: TrackEvent['timestamp']) =>
    JSON.parse(formatEvent({ event: 'a', distinct_id: 'b', timestamp }, NOW)).timestamp
  t.equal(time(undefined), NOW)
  t.equal(time(null), NOW)
  t.equal(time(5), 5)
  t.equal(time(new Date(6)), 6)
  t.throws(() => time(new Date('never')), { code: 'invalid_request', details: [{ path: '/timestamp' }] })
})

t.test('formatEvent keeps properties that are JSON text', async (t) => {
  const properties = '{ "n" : 12345678901234567890, "x":1.0,"e":1e400 ,"s":"\\u0061"}'
  const text = formatEvent({ event: 'a', distinct_id: 'b', properties, session_id: 's' }, NOW)
  t.equal(memberText(text, 'properties'), properties)
  t.strictSame(parseEvent(text), { event: 'a', distinct_id: 'b', timestamp: NOW, properties, session_id: 's' })
  t.equal(formatEvent(parseEvent(text), 1), text, 'one that was dropped can be tracked again')
})

t.test('formatObject refuses text that is not an object', async (t) => {
  const loop: Record<string, unknown> = {}
  loop.self = loop
  const bad = ['{}}', '{},"event":"b"', '[]', '1', '', '{"a":"\ud800"}', [], () => undefined, { n: 1n }, loop]
  for (const value of bad) {
    t.throws(() => formatObject('operations', value), {
      name: 'TallyhouseError',
      code: 'invalid_request',
      message: /^operations /,
      details: [{ path: '/operations', message: String }],
    })
  }
})

t.test('the service supports every operation of the type', async (t) => {
  const all: Required<ProfileOperations> = {
    $set: { a: 1 },
    $add: { b: 1 },
    $append: { c: 1 },
    $set_once: { d: 1 },
    $unset: ['e'],
    $prepend: { h: 1 },
    $union: { f: [1] },
    $remove: { g: 1 },
  }
  t.strictSame(
    parseOperations(JSON.stringify(all)).map(({ operator }) => operator),
    Object.keys(all),
  )
})

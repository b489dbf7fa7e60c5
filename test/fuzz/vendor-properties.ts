import assert from 'node:assert/strict'
import fc from 'fast-check'
import { elementTexts, memberText } from '../../src/json/texts.js'
import type { Property, Target } from './properties.js'
import { BOMB, type Sending, sending, VENDOR_CALLS, vendorNoise } from './vendor-requests.js'

/** Amplitude's SDKs drop the events that a refusal names, and send the others again. */
const MAX_REFUSALS = 10
/** Paths that read their requests. */
const CALLED = new Set(Object.values(VENDOR_CALLS).flatMap(({ paths }) => paths))
let users = 0

/** The indexes of messages that a refusal of Amplitude names. */
function refusedBy(answer: string): Set<number> {
  const { events_with_invalid_fields: invalid = {}, events_with_missing_fields: missing = {} } = JSON.parse(answer)
  return new Set([...Object.values<number[]>(invalid), ...Object.values<number[]>(missing)].flat())
}

/** Checks that a response of Mixpanel's import names no valid message. */
function checkFailed(answer: string, sent: { place: number }[], good: number[]): void {
  const failed: { index: number }[] = JSON.parse(answer).failed_records
  for (const { index } of failed) assert(!good.includes(sent[index]?.place ?? -1), answer)
}

/** Sends messages like the SDK, until they are accepted. */
async function deliver(target: Target, { places, messages, request }: Sending, user: string): Promise<void> {
  let left = messages(user).map((message, place) => ({ message, place }))
  for (let refusals = 0; left.length > 0; refusals++) {
    assert(refusals < MAX_REFUSALS, 'it names other messages each time')
    const { status, body } = await target.call(request(left.map(({ message }) => message)))
    const said = body.toString()
    if (status === 200) return
    assert.equal(status, 400, said)
    // Mixpanel's import names the messages that it refused, and accepted the rest.
    if (said.includes('"failed_records":')) return checkFailed(said, left, places)
    // Nothing in the request is valid.
    const refused = said.startsWith('{"code":400') && said.includes('events_with_') ? refusedBy(said) : null
    if (refused === null) return assert.equal(left.filter(({ place }) => places.includes(place)).length, 0, said)
    assert(refused.size > 0, said)
    for (const index of refused)
      assert(!places.includes(left[index]?.place ?? -1), `it refuses ${left[index]?.message}`)
    left = left.filter((_, index) => !refused.has(index))
  }
}

/** Events are stored in order, once and as sent, whatever else the request contains and however often it is sent. */
function keepsVendorEvents(target: Target): Property {
  return fc.asyncProperty(sending, async (given) => {
    const user = `vendor-${process.pid}-${++users}`
    await deliver(target, given, user)
    // Events without an id are stored each time.
    if (given.call !== VENDOR_CALLS['a message of OpenPanel']) await deliver(target, given, user)
    const { status, body } = await target.ask('GET', `/public/events?limit=1000&distinct_id=${user}`)
    assert.equal(status, 200, body.toString())
    const found = elementTexts(memberText(body.toString(), 'events') ?? '')
    const stored = found.map((row) => memberText(memberText(row, 'properties') ?? '', 'x'))
    assert.deepEqual(stored.toSorted(), given.good.toSorted())
  })
}

/** Any request to a vendor's call is answered in time, and the service survives. */
function answersVendors(target: Target): Property {
  return fc.asyncProperty(fc.array(vendorNoise, { minLength: 1, maxLength: 20 }), async (requests) => {
    const answers = await Promise.all(requests.map((given) => target.call(given)))
    for (const [i, { status, body }] of answers.entries()) {
      const { path, body: sent } = requests[i] ?? {}
      assert(status < 500, `${path}: ${status} ${body}`)
      assert(
        sent !== BOMB || status === 413 || !CALLED.has(path?.split('?', 1)[0] ?? ''),
        `a bomb at ${path}: ${status}`,
      )
    }
  })
}

/** Runs after the others are counted, because it is not known what odd messages store. */
export const VENDOR_PROPERTIES: Record<string, (target: Target) => Property> = {
  "a vendor's event is returned as it was sent, whatever is sent with it": keepsVendorEvents,
  "every request to a vendor's call is answered": answersVendors,
}

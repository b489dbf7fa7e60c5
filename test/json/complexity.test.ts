import fc from 'fast-check'
import t from 'tap'
import { MAX_BATCH } from '../../src/contract/limits.js'
import { MAX_BATCH_WEIGHT, MAX_WEIGHT, weigh } from '../../src/json/complexity.js'
import { scanBatch, scanEvent } from '../../src/model/scan.js'

t.test('weigh counts 8 for a field, 1 for an element, 0 for a string whatever it contains', async (t) => {
  const weight = (text: string) => weigh(Buffer.from(text), 1_000_000)
  t.equal(weight('{"a":1}'), 8)
  t.equal(weight('{"a":1,"b":{"c":2}}'), 8 * 3)
  t.equal(weight('[1,2,[3,4]]'), 5)
  t.equal(weight('[{},{"a":[]}]'), 12)
  t.equal(weight(JSON.stringify(['{[:\\":,"'.repeat(1000)])), 1)
  t.equal(weight(`"${'\\'.repeat(1001)}`), 0, 'text that is not JSON returns')
  t.equal(weigh(Buffer.from('['.repeat(10_000)), 100), 101, 'stops above the limit')
})

t.test('the scanner weighs a body with unknown fields as weigh does', async () => {
  const properties = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 6 }))
  const filled = (around: object, max: number, given: object) => {
    const weight = weigh(Buffer.from(JSON.stringify({ ...around, x: [0] })), max)
    const zeros = (more: number) => Buffer.from(JSON.stringify({ ...around, x: Array(max - weight + more).fill(0) }))
    return { fits: zeros(1), heavy: zeros(2), given }
  }
  fc.assert(
    fc.property(properties, (given) => {
      const event = { event: 'e', distinct_id: 'u', properties: given }
      const one = filled(event, MAX_WEIGHT, given)
      const batch = filled({ events: [event, { ...event, properties: null }], y: {} }, MAX_BATCH_WEIGHT, given)
      return (
        weigh(one.fits, MAX_WEIGHT) === MAX_WEIGHT &&
        scanEvent(one.fits) !== null &&
        scanEvent(one.heavy) === null &&
        weigh(batch.fits, MAX_BATCH_WEIGHT) === MAX_BATCH_WEIGHT &&
        scanBatch(batch.fits, MAX_BATCH) !== null &&
        scanBatch(batch.heavy, MAX_BATCH) === null
      )
    }),
    { numRuns: 5 },
  )
})

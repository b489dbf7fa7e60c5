import fc from 'fast-check'
import t from 'tap'
import { MAX_BATCH } from '../../src/contract/limits.js'
import { deepProperties } from '../../src/contract/property-depth.js'
import { scanBatch } from '../../src/model/scan.js'

/** The depth by definition, for shallow values. */
function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(depthOf))
}

t.test('the scanner and the check of a parsed body find the same depth', async () => {
  const properties = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 6 }))
  fc.assert(
    fc.property(properties, fc.integer({ min: 1, max: 8 }), (given, max) => {
      const event = { event: 'e', distinct_id: 'u', properties: given }
      const body = { events: [event, { ...event, properties: null }, event] }
      const paths = depthOf(given) > max ? ['/events/0/properties', '/events/2/properties'] : []
      const found = deepProperties(body, { events: true }, max).map(({ path }) => path)
      const isScanned = scanBatch(Buffer.from(JSON.stringify(body)), MAX_BATCH, max) !== null
      return JSON.stringify(found) === JSON.stringify(paths) && isScanned === (paths.length === 0)
    }),
  )
})

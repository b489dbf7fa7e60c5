import fc from 'fast-check'
import t from 'tap'
import { checkAll, LIMIT, PROPERTIES, Target } from '../fuzz/properties.js'
import { VENDOR_PROPERTIES } from '../fuzz/vendor-properties.js'
import { settingsFor, startService } from '../helper.js'

const RUNS = 5
const VENDOR_RUNS = 3

// For longer, and with both journals: npm run fuzz
t.test('free-form requests', async (t) => {
  const target = new Target(await startService(t, { ...(await settingsFor(t, 'embedded')), FACTS: 'off' }))
  t.teardown(() => target.close())
  for (const [name, property] of Object.entries(PROPERTIES)) {
    await t.test(name, async (t) => {
      await fc.assert(property(target), { ...LIMIT, numRuns: RUNS })
      t.pass('it holds')
    })
  }
  await t.test('everything accepted is stored', async (t) => {
    await checkAll(target)
    t.ok(target.accepted > 0)
  })
  for (const [name, property] of Object.entries(VENDOR_PROPERTIES)) {
    await t.test(name, async (t) => {
      await fc.assert(property(target), { ...LIMIT, numRuns: VENDOR_RUNS })
      t.equal(target.service.process.exitCode, null)
    })
  }
})

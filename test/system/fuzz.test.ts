import fc from 'fast-check'
import t from 'tap'
import { JOURNALS, journalFor } from '../delivery/servers.js'
import { checkAll, LIMIT, PROPERTIES, Target } from '../fuzz/properties.js'
import { VENDOR_PROPERTIES } from '../fuzz/vendor-properties.js'
import { startService } from '../helper.js'

const RUNS = 5
const VENDOR_RUNS = 3

// A longer run: npm run fuzz
for (const journal of JOURNALS) {
  t.test(journal, async (t) => {
    const { settings } = await journalFor(t, journal)
    const target = new Target(await startService(t, settings))
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
}

import t from 'tap'
import { shareRun } from '../../src/lib/share-run.js'

t.test('calls during a run share its result; later calls start a new run', async (t) => {
  let runs = 0
  const run = shareRun(async () => ++runs)
  t.strictSame(await Promise.all([run(), run(), run()]), [1, 1, 1])
  t.equal(await run(), 2)
})

t.test('a failure is shared, too, and not kept', async (t) => {
  let runs = 0
  const run = shareRun(async () => {
    if (++runs === 1) throw new Error('the first')
    return runs
  })
  const failed = await Promise.allSettled([run(), run()])
  t.strictSame(
    failed.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  t.equal(await run(), 2)
})

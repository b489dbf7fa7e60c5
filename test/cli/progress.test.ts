import t from 'tap'
import { describeProgress } from '../../src/cli/progress.js'

t.test('a stalled transfer has neither a speed nor a time left', async (t) => {
  const first = { events: 0, part: 0 }
  const describe = (events: number, part: number | null, seconds: number, stillSeconds: number) => {
    return describeProgress('imported', { events, part }, { first, seconds, stillSeconds })
  }
  t.equal(describe(2_000, 0.5, 20, 0), '[############............] 50 %, 2 000 events imported, 100/s, 20 s left')
  t.equal(describe(2_000, 0.5, 80, 60), '[############............] 50 %, 2 000 events imported, no progress for 60 s')
  t.equal(describe(1, null, 20, 15), '1 event imported, no progress for 15 s')
})

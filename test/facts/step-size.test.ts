import t from 'tap'
import { StepSize } from '../../src/facts/step-size.js'

t.test('steps are smaller after each failure, and grow again after successes', async (t) => {
  const size = new StepSize({ rows: 100_000, bytes: 64_000 })
  size.noteFailure()
  size.noteFailure()
  t.strictSame(size.limit, { rows: 25_000, bytes: 16_000 })
  for (let i = 0; i < 10; i++) size.noteSuccess()
  t.strictSame(size.limit, { rows: 50_000, bytes: 32_000 })
  for (let i = 0; i < 30; i++) size.noteSuccess()
  t.strictSame(size.limit, { rows: 100_000, bytes: 64_000 })
  for (let i = 0; i < 30; i++) size.noteFailure()
  t.ok(size.limit.rows >= 1)
})

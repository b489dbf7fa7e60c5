import t from 'tap'
import { OutageLog } from '../../src/lib/outage-log.js'

t.test('OutageLog logs the first of consecutive failures, and the recovery', async (t) => {
  const lines: string[] = []
  const write = (_data: object, message: string) => void lines.push(message)
  const outage = new OutageLog({ info: write, warn: write }, { failed: 'failed', recovered: 'recovered' })
  outage.noteSuccess()
  for (const _ of [1, 2]) {
    outage.noteFailure(new Error('no answer'))
    outage.noteFailure(new Error('no answer'))
    t.equal(outage.isFailing, true)
    outage.noteSuccess()
    outage.noteSuccess()
    t.equal(outage.isFailing, false)
  }
  t.strictSame(lines, ['failed', 'recovered', 'failed', 'recovered'])
})

import t from 'tap'
import { troubleFacts } from './facts-chaos.js'

const SECONDS = 20

t.test('answers match the events, whatever is killed', async (t) => {
  const { answers, kills, ...verdict } = await troubleFacts(t, { seconds: SECONDS, shards: 1 })
  t.strictSame([verdict.wrong, verdict.differences], [[], 0])
  t.ok(answers > 0 && kills > 0, `${answers} answers, ${kills} kills`)
})

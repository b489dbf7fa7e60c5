import { test } from 'tap'
import { compareAnswers, KINDS, sendBroken } from './agreement.js'
import { Projects } from './projects.js'

/**
 * The same questions in each run, so that a failure is due to the change at hand; `npm run fuzz:questions` asks others.
 */
const SEED = 16
/** Only the answer counts, not its time: a busy machine may take half a minute to plan the largest questions. */
const PATIENT = { QUERY_TIMEOUT: '600' }

test('every question is answered as the reference answers it', async (t) => {
  const projects = await Projects.open(t, 20, PATIENT)
  const { asked, failure } = await compareAnswers(projects, { seed: SEED, projects: 1, questions: 3, kinds: KINDS })
  t.equal(failure, null)
  for (const kind of KINDS) t.ok((asked[kind] ?? 0) >= 2, `${asked[kind]} of ${kind}`)

  const { failure: unclear } = await sendBroken(projects, { seed: SEED, projects: 1, questions: 4 })
  t.equal(unclear, null)
})

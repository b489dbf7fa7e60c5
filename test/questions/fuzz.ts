import { parseArgs } from 'node:util'
import type { Scope } from '../helper.js'
import { compareAnswers, KINDS, type Kind, type Outcome, sendBroken } from './agreement.js'
import { Projects } from './projects.js'

const USAGE = `usage: npm run fuzz:questions -- [--cases N] [--seed S] [--kinds series,funnel,…]

Asks N questions (10000) about random data, fifty of each kind about each, and ends with 1 and the shortest question
and the least data that it found where the answer is not that of the reference.`

/** Questions of each kind about the same data, and projects in one store. */
const QUESTIONS = 50
const PROJECTS = 20
/** Projects in which the data of a wrong answer is made smaller. */
const SPARE = 300

/** The machine may have other work, and this may be the least of it. */
const PATIENT = { QUERY_TIMEOUT: '600' }

const { values } = parseArgs({
  options: {
    cases: { type: 'string', default: '10000' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    kinds: { type: 'string', default: KINDS.join(',') },
    help: { type: 'boolean', default: false },
  },
})
const cases = Number(values.cases)
const firstSeed = Number(values.seed)
const kinds = values.kinds.split(',') as Kind[]
if (values.help || !(cases > 0) || !Number.isInteger(firstSeed) || kinds.some((kind) => !KINDS.includes(kind))) {
  console.log(USAGE)
  process.exit(values.help ? 0 : 2)
}

const closers: (() => unknown)[] = []
const scope: Scope = { teardown: (close) => closers.unshift(close) }
const asked: Record<string, number> = {}
const total = () => Object.values(asked).reduce((sum, count) => sum + count, 0)

function note(outcome: Outcome): void {
  for (const [kind, count] of Object.entries(outcome.asked)) asked[kind] = (asked[kind] ?? 0) + count
  console.log(`${total()} questions: ${JSON.stringify(asked)}`)
  if (!outcome.failure) return
  console.error(outcome.failure)
  process.exitCode = 1
}

try {
  let seed = firstSeed
  const isGoingOn = () => total() < cases && process.exitCode === undefined
  while (isGoingOn()) {
    const projects = await Projects.open(scope, PROJECTS + SPARE, PATIENT)
    for (const end = seed + PROJECTS; seed < end && isGoingOn(); seed++) {
      console.log(`seed ${seed}`)
      note(await compareAnswers(projects, { seed, projects: 1, questions: QUESTIONS, kinds }))
    }
    if (isGoingOn()) note(await sendBroken(projects, { seed, projects: 2, questions: QUESTIONS }))
    for (const close of closers.splice(0)) await close()
  }
} finally {
  for (const close of closers) await close()
}

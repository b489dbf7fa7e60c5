import { parseArgs } from 'node:util'
import type { Scope } from '../helper.js'
import { shardsUrl, startNodes } from '../nodes.js'
import { compareAnswers, KINDS, type Kind, type Outcome, sendBroken } from './agreement.js'
import { Projects } from './projects.js'

const USAGE = `usage: npm run fuzz:questions -- [--cases N] [--seed S] [--kinds series,funnel,…] [--shards N]

Asks N questions (10000) about random data, a hundred of each kind about each, and ends with 1 and the shortest question
and the least data that it found where the answer is not that of the reference. The store has one shard, or N.`

/** Questions of each kind about the same data, and projects in one store. */
const QUESTIONS = 100
const PROJECTS = 20
/** Projects in which the data of a wrong answer is made smaller. */
const SPARE = 300

/** Data sets in use at the same time, so that neither process waits for the other. */
const AT_ONCE = 2

/** The machine may have other work, and this may be the least of it. */
const PATIENT = { QUERY_TIMEOUT: '600' }
/** So little data is for one thread. */
const ONE_THREAD = { isShort: true }

const { values } = parseArgs({
  options: {
    cases: { type: 'string', default: '10000' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    shards: { type: 'string', default: '1' },
    kinds: { type: 'string', default: KINDS.join(',') },
    help: { type: 'boolean', default: false },
  },
})
const cases = Number(values.cases)
const firstSeed = Number(values.seed)
const shards = Number(values.shards)
const kinds = values.kinds.split(',') as Kind[]
if (
  values.help ||
  !(cases > 0) ||
  !(shards >= 1) ||
  !Number.isInteger(firstSeed) ||
  kinds.some((kind) => !KINDS.includes(kind))
) {
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

/** A store with all that it takes. */
async function openProjects(): Promise<Projects> {
  const count = PROJECTS + SPARE
  if (shards === 1) return await Projects.open(scope, count, PATIENT, ONE_THREAD)
  const CLICKHOUSE_URL = shardsUrl(await startNodes(scope, shards))
  return await Projects.open(scope, count, { ...PATIENT, CLICKHOUSE_URL, LANES: String(shards) }, ONE_THREAD)
}

let seed = firstSeed
const isGoingOn = () => total() < cases && process.exitCode === undefined

/** Asks about one set of data after the other. */
async function compareUntil(projects: Projects, end: number): Promise<void> {
  while (seed < end && isGoingOn()) {
    const effort = { seed: seed++, projects: 1, questions: QUESTIONS, kinds }
    console.log(`seed ${effort.seed}`)
    note(await compareAnswers(projects, effort))
  }
}

try {
  while (isGoingOn()) {
    const projects = await openProjects()
    const end = seed + PROJECTS
    await Promise.all(Array.from({ length: AT_ONCE }, () => compareUntil(projects, end)))
    if (isGoingOn()) note(await sendBroken(projects, { seed, projects: 2, questions: QUESTIONS }))
    for (const close of closers.splice(0)) await close()
  }
} finally {
  for (const close of closers) await close()
}

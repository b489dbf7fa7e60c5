import { parseArgs } from 'node:util'
import { PAGE_NAMES } from '../../src/contract/page-fields.js'
import { DEFAULT_SETTINGS } from '../../src/contract/project-settings.js'
import { PageColumns } from '../../src/questions/page-columns.js'
import { Statement } from '../../src/questions/statement.js'
import { ValueColumns } from '../../src/questions/value-columns.js'
import { addValueColumns, type ColumnSource } from '../../src/store/fact-values.js'
import { completeFacts } from '../facts/copied-facts.js'
import { type Scope, startClickHouse, startRedis } from '../helper.js'
import { startNodes } from '../nodes.js'
import { compareAnswers, KINDS, type Kind, type Outcome, sendBroken } from './agreement.js'
import { Copiers, countReadings, HABITS, type Habit } from './copiers.js'
import { Projects } from './projects.js'

const USAGE = `usage: npm run fuzz:questions -- [--cases N] [--seed S] [--kinds series,funnel,…] [--shards N]
         [--habits complete,lagging,…] [--questions N]

Asks N questions (10000) about random data, --questions N of each kind about each (50), and ends with 1 and the shortest question
and the least data that it found where the answer is not that of the reference. The store has one shard, or N. Each store has the next of the
habits (${HABITS.join(', ')}), which say what happens to facts meanwhile.
A question takes 0.2 s of CPU, nearly all of it for ClickHouse to analyze and plan 8 KB of SQL: 100000 take 3 h on two cores.`

/** Projects, each with different data, in one store. */
const PROJECTS = 8
/** Further projects, for shrinking the data of a wrong answer. */
const SPARE = 300

/** Data sets in use at the same time, so that neither process waits for the other. */
const AT_ONCE = 2

/** The machine may be busy with other work. */
const PATIENT = { QUERY_TIMEOUT: '600', LOG_LEVEL: 'warn' }
/** One thread is enough for so little data. */
const ONE_THREAD = { isShort: true }

const { values } = parseArgs({
  options: {
    cases: { type: 'string', default: '10000' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    shards: { type: 'string', default: '1' },
    questions: { type: 'string', default: '50' },
    habits: { type: 'string', default: HABITS.join(',') },
    kinds: { type: 'string', default: KINDS.join(',') },
    help: { type: 'boolean', default: false },
  },
})
const cases = Number(values.cases)
const firstSeed = Number(values.seed)
const shards = Number(values.shards)
const questions = Number(values.questions)
const habits = values.habits.split(',') as Habit[]
const kinds = values.kinds.split(',') as Kind[]
if (
  values.help ||
  !(cases > 0) ||
  !(shards >= 1) ||
  !(questions >= 1) ||
  !Number.isInteger(firstSeed) ||
  habits.some((habit) => !HABITS.includes(habit)) ||
  kinds.some((kind) => !KINDS.includes(kind))
) {
  console.log(USAGE)
  process.exit(values.help ? 0 : 2)
}

const closers: (() => unknown)[] = []
const scope: Scope = { teardown: (close) => closers.unshift(close) }
const readings = countReadings()
/** by habit and kind */
const asked: Record<string, Record<string, number>> = {}
const total = () =>
  Object.values(asked)
    .flatMap((kinds) => Object.values(kinds))
    .reduce((sum, count) => sum + count, 0)

function note(habit: Habit, outcome: Outcome): void {
  const counts = { ...asked[habit] }
  for (const [kind, count] of Object.entries(outcome.asked)) counts[kind] = (counts[kind] ?? 0) + count
  asked[habit] = counts
  const rate = (total() / (performance.now() / 1000)).toFixed(1)
  console.log(
    `${total()} questions, ${rate} a second: ${JSON.stringify(asked)}, readings of facts: ${JSON.stringify(readings)}`,
  )
  if (!outcome.failure) return
  console.error(outcome.failure)
  process.exitCode = 1
}

/** Sources of what questions read from properties; page fields are computed from several. */
const SOURCES: ColumnSource[] = [['plan'], ['n'], ['o', 'x'], ...listPageSources()]

function listPageSources(): ColumnSource[] {
  const values = new ValueColumns(new Set())
  const shards = { table: (name: string) => name, areSeveral: false }
  const context = { projectId: '', now: 0, shards, hasAliases: false, repairsTexts: false, pages: DEFAULT_SETTINGS }
  const page = new PageColumns(new Statement(context))
  for (const name of PAGE_NAMES) page.column(name)
  page.needsProperties({ find: (source) => values.find(source), isThere: true })
  return values.sources
}

/** Gives columns to all of what questions read in one of three stores, to some in the next, and to none in the third. */
async function addColumns({ shards }: Projects, store: number): Promise<void> {
  const sources = SOURCES.filter((_, i) => store % 3 === 0 || (store % 3 === 1 && i % 3 !== 1))
  await shards.each(({ clickhouse }) => addValueColumns(clickhouse, sources))
}

/** A service with its store. Copiers that take turns with the one of the service need servers. */
async function openProjects(habit: Habit, store: number): Promise<Projects> {
  const count = PROJECTS + SPARE
  const nodes = shards === 1 ? [await startClickHouse(scope)] : await startNodes(scope, shards)
  const { url: REDIS_URL } = await startRedis(scope)
  const urls = nodes.map(({ url }) => url)
  const servers = { REDIS_URL, CLICKHOUSE_URL: urls.join(','), LANES: String(shards) }
  Copiers.forgetService()
  const settings = { ...PATIENT, ...servers, FACTS: habit === 'off' ? 'off' : 'all' }
  const projects = await Projects.open(scope, count, settings, ONE_THREAD)
  if (habit !== 'off') await addColumns(projects, store)
  if (habit === 'complete') {
    projects.untilReady = (id) => projects.shards.each(({ clickhouse }) => completeFacts(clickhouse, [id]))
  }
  await new Copiers(scope, habit).start(projects.shards, urls)
  return projects
}

let seed = firstSeed
const isGoingOn = () => total() < cases && process.exitCode === undefined

/** Asks about one set of data after the other. */
async function compareUntil(habit: Habit, projects: Projects, end: number): Promise<void> {
  while (seed < end && isGoingOn()) {
    const effort = { seed: seed++, projects: 1, questions, kinds }
    console.log(`seed ${effort.seed}`)
    note(habit, await compareAnswers(projects, effort))
  }
}

try {
  for (let store = 0; isGoingOn(); store++) {
    const habit = habits[store % habits.length] ?? 'complete'
    console.log(`facts: ${habit}`)
    const projects = await openProjects(habit, store)
    const end = seed + PROJECTS
    await Promise.all(Array.from({ length: AT_ONCE }, () => compareUntil(habit, projects, end)))
    if (isGoingOn()) note(habit, await sendBroken(projects, { seed, projects: 2, questions }))
    for (const close of closers.splice(0)) await close()
  }
} finally {
  for (const close of closers) await close()
}

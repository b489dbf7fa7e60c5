import fc from 'fast-check'
import { cellsOf } from './cells.js'
import { difference } from './compare.js'
import { broken } from './generate/broken.js'
import { type Plan, plan } from './generate/data.js'
import { type Asking, askingsOf } from './generate/questions.js'
import type { Project, Projects } from './projects.js'
import { answerOf } from './reference/answer.js'
import type { Answerable, Question } from './reference/question.js'
import { frameOf, NOTHING } from './reference/question.js'

export const KINDS = ['series', 'funnel', 'retention', 'paths', 'users'] as const
export type Kind = (typeof KINDS)[number]

export interface Effort {
  seed: number
  /** each with different data */
  projects: number
  /** number of each kind for each project */
  questions: number
  kinds: readonly Kind[]
}

/** How many questions of each kind were asked, and the first answer that differs from the reference. */
export interface Outcome {
  asked: Record<string, number>
  failure: string | null
}

/** Asks many questions about random data, and compares the answers with the reference. */
export async function compareAnswers(projects: Projects, { seed, kinds, ...effort }: Effort): Promise<Outcome> {
  const asked: Record<string, number> = {}
  for (const [index, data] of fc.sample(plan(), { seed, numRuns: effort.projects }).entries()) {
    const project = await projects.load(data)
    for (const kind of kinds) {
      const property = fc.asyncProperty(arbitraryOf(kind, data), async (given) => {
        const wrong = await check(projects, project, given)
        if (wrong !== undefined) asked[kind] = (asked[kind] ?? 0) + 1
        if (wrong) throw new Error(wrong)
      })
      const result = await fc.check(property, { seed: seed + index, numRuns: effort.questions })
      if (!result.failed) continue
      const report = await fc.asyncDefaultReportMessage(result)
      const least = result.counterexample ? await smallest(projects, data, result.counterexample[0]) : data
      return {
        asked,
        failure: `seed ${seed}, project ${index}\n${report}\n${result.errorInstance}\n${JSON.stringify(least)}`,
      }
    }
  }
  return { asked, failure: null }
}

/** Sends broken questions: each must be answered anyway, or refused with the right error. */
export async function sendBroken(projects: Projects, { seed, ...effort }: Omit<Effort, 'kinds'>): Promise<Outcome> {
  for (const [index, data] of fc.sample(plan(), { seed, numRuns: effort.projects }).entries()) {
    const project = await projects.load(data)
    const questions = fc.oneof(...Object.values(askingsOf(data))).map(({ question }) => question)
    const property = fc.asyncProperty(broken(questions), async (body) => {
      const { statusCode, ...response } = await projects.send(project, body)
      if (statusCode === 200) return
      const { code, details } = response.json()
      if (statusCode === 400 && code === 'invalid_request' && details.length > 0) return
      if (statusCode === 422 && code === 'query_too_large') return
      throw new Error(`${statusCode} ${response.body}`)
    })
    const result = await fc.check(property, { seed: seed + index, numRuns: effort.questions })
    if (!result.failed) continue
    return { asked: {}, failure: `${await fc.asyncDefaultReportMessage(result)}\n${result.errorInstance}` }
  }
  return { asked: { broken: effort.projects * effort.questions }, failure: null }
}

/** A question and, if it lists users, the cell of another answer. */
interface Case extends Asking {
  users?: { cell: number; limit?: number; page?: number }
}

function arbitraryOf(kind: Kind, data: Plan): fc.Arbitrary<Case> {
  const askings = askingsOf(data)
  if (kind !== 'users') return askings[kind]
  const users = fc.record({
    cell: fc.nat(),
    limit: fc.constantFrom(undefined, 1, 2, 1000),
    page: fc.constantFrom(undefined, 1, 2),
  })
  return fc
    .record({ asking: fc.oneof(...Object.values(askings)), users })
    .map(({ asking, users }) => ({ ...asking, users }) as Case)
}

/** Describes how the answer to a case is wrong; null if it is right, undefined if there is nothing to ask. */
async function check(projects: Projects, project: Project, { question: base, now, users }: Case) {
  let question: Question = base
  if (users) {
    const cells = cellsOf(base, answerOf(base, project.world, now))
    const cell = cells[users.cell % cells.length]
    if (cell === undefined) return undefined
    question = { kind: 'users', of: base, ...users, cell }
  }
  const expected = answerOf(question, project.world, now)
  const actual = await projects.ask(project, question, now)
  return difference(actual, {
    status: 1,
    error: null,
    kind: question.kind,
    ...expected,
    ...echo(question, project, now),
  })
}

/** The question as the answer should repeat it. */
function echo(question: Question, { world }: Project, now: number) {
  const asked = (base: Answerable) => {
    const { from, to, zone, weekStart } = frameOf(base, NOTHING, now)
    const sessions = base.sessions ?? world.project.sessions
    return { kind: base.kind, from, to, timezone: zone, week_start: weekStart, sessions }
  }
  const query = question.kind === 'users' ? { kind: 'users', of: asked(question.of) } : asked(question)
  return { query, pending: 0 }
}

/** The smallest data for which the question still gets a wrong answer. */
async function smallest(projects: Projects, data: Plan, given: Case): Promise<Plan> {
  let least = data
  const isWrong = async (some: Plan) => {
    if (projects.left === 0 || some.events.length === 0) return false
    const project = await projects.load(some)
    return await check(projects, project, given).then(Boolean, () => true)
  }
  for (const part of ['erased', 'deletes', 'edits', 'aliases', 'profiles'] as const) {
    const without = { ...least, [part]: [] }
    if (least[part].length > 0 && (await isWrong(without))) least = without
  }
  for (let size = Math.ceil(least.events.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let at = 0; at < least.events.length; ) {
      const without = { ...least, events: least.events.toSpliced(at, size) }
      if (await isWrong(without)) least = without
      else at += size
    }
  }
  return least
}

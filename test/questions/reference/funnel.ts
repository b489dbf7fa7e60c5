import { breakdownOf, type Group, largestGroups } from './breakdown.js'
import { byUser, type Fact } from './data.js'
import { type Definition, isEvent } from './filter.js'
import { type Frame, type FunnelQuestion, isInRange, mean, percentile, windowOf } from './question.js'

/** How far a user got with one entry: the events of the steps, in the order in which they were done. */
export interface Passage {
  user: string
  done: Fact[]
}

export function funnelLines(question: FunnelQuestion, frame: Frame): Group<Passage>[] {
  const passages = [...byUser(frame.facts)].flatMap(([user, facts]) => {
    const done = furthest(question, frame, facts)
    return done.length === 0 ? [] : [{ user, done }]
  })
  return largestGroups(passages, {
    isBroken: (question.breakdown ?? []).length > 0,
    valuesOf: ({ done: [entry] }) => breakdownOf(question.breakdown, entry as Fact),
    sizeOf: (passages) => passages.length,
    limit: frame.limit,
  })
}

export function funnelAnswer(question: FunnelQuestion, frame: Frame) {
  const complete = frame.range.end + windowOf(question) <= frame.now
  const results = funnelLines(question, frame).map(({ breakdown, members }) => {
    const users = question.steps.map((_, step) => members.filter(({ done }) => done.length > step).length)
    const steps = question.steps.map((_, step) => {
      const times = members.flatMap(({ done }) => {
        const [entry, reached] = [done[0], done[step]]
        return entry && reached && step > 0 ? [reached.timestamp - entry.timestamp] : []
      })
      const [all = 0, before = 0, these = 0] = [users[0], users[step - 1], users[step]]
      return {
        users: these,
        of_first: step === 0 ? 1 : share(these, all),
        of_previous: step === 0 ? 1 : share(these, before),
        median_ms: percentile(times, 50),
        mean_ms: mean(times),
      }
    })
    return { breakdown, steps, complete }
  })
  return { results }
}

function share(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole
}

/** The events of the entry with which a user got furthest, the earliest of several. */
function furthest(question: FunnelQuestion, frame: Frame, facts: Fact[]): Fact[] {
  let best: Fact[] = []
  const walk = question.order === 'any' ? walkInAnyOrder : walkInOrder
  for (const [index, entry] of facts.entries()) {
    if (!isInRange(frame, entry)) continue
    const later = facts.slice(index + 1).filter(({ timestamp }) => timestamp - entry.timestamp <= windowOf(question))
    const done = walk(question, frame.zone, entry, later)
    if (done.length > best.length) best = done
  }
  return best
}

/** One entry, in order: each step is the earliest event that matches it. */
function walkInOrder({ steps, order, exclude = [] }: FunnelQuestion, zone: string, entry: Fact, later: Fact[]): Fact[] {
  const isStep = (step: number, fact: Fact) => {
    const definition = steps[step]
    return definition !== undefined && isEvent(definition, fact, zone)
  }
  if (!isStep(0, entry)) return []
  const done = [entry]
  for (const fact of later) {
    if (done.length === steps.length) break
    if (isStep(done.length, fact)) {
      done.push(fact)
      continue
    }
    if (order === 'strict' && steps.some((_, step) => isStep(step, fact))) break
    if (exclude.some((one) => one.after === done.length && isEvent(one, fact, zone))) break
  }
  return done
}

/** One entry, in any order: each event counts for the first step that it matches and that is not done yet. */
function walkInAnyOrder({ steps, exclude = [] }: FunnelQuestion, zone: string, entry: Fact, later: Fact[]): Fact[] {
  const undone = new Set(steps.keys())
  const done: Fact[] = []
  for (const fact of [entry, ...later]) {
    if (undone.size === 0) break
    const served = [...undone].find((step) => isEvent(steps[step] as Definition, fact, zone))
    if (served !== undefined) {
      undone.delete(served)
      done.push(fact)
      continue
    }
    if (done.length === 0) break
    if (exclude.some((one) => one.after === done.length && isEvent(one, fact, zone))) break
  }
  return done
}

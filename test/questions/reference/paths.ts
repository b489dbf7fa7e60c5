import { byUser, type Fact } from './data.js'
import { type Definition, isEvent } from './filter.js'
import { compareTexts } from './json.js'
import { type Frame, isInRange, type PathsQuestion, windowOf } from './question.js'

const OTHER = '$other'

export interface Node {
  step: number
  event: string
  users: Set<string>
}

export interface Link {
  step: number
  from: string
  to: string
  users: Set<string>
}

/** A user's events from a start event on, or back from an end event. */
interface Path {
  user: string
  events: string[]
}

export function pathsAnswer(question: PathsQuestion, frame: Frame) {
  const { nodes, links } = nodesAndLinks(question, frame)
  return {
    results: {
      nodes: nodes.map((node) => ({ ...node, users: node.users.size })),
      links: links.map((link) => ({ ...link, users: link.users.size })),
    },
  }
}

export function nodesAndLinks(question: PathsQuestion, frame: Frame): { nodes: Node[]; links: Link[] } {
  const paths = pathsOf(question, frame)
  const named = namedMost(paths, frame.limit)
  const nodes = new Map<string, Node>()
  const links = new Map<string, Link>()
  for (const { user, events } of paths) {
    const names = events.map((event, step) => (named[step]?.has(event) ? event : OTHER))
    for (const [step, event] of names.entries()) {
      const key = JSON.stringify([step, event])
      const node = nodes.get(key) ?? { step, event, users: new Set() }
      nodes.set(key, node)
      node.users.add(user)
      const next = names[step + 1]
      if (next === undefined) continue
      const [from, to] = question.end ? [next, event] : [event, next]
      const linkKey = JSON.stringify([step, from, to])
      const link = links.get(linkKey) ?? { step, from, to, users: new Set() }
      links.set(linkKey, link)
      link.users.add(user)
    }
  }
  return { nodes: inOrder([...nodes.values()], ['event']), links: inOrder([...links.values()], ['from', 'to']) }
}

/** By step, most users first, then by name; all others last. */
function inOrder<One extends Node | Link>(all: One[], names: (keyof One)[]): One[] {
  const textsOf = (one: One) => names.map((name) => String(one[name]))
  return all.sort((a, b) => {
    const [ours, theirs] = [textsOf(a), textsOf(b)]
    return (
      a.step - b.step ||
      Number(ours.includes(OTHER)) - Number(theirs.includes(OTHER)) ||
      b.users.size - a.users.size ||
      ours.reduce((order, text, index) => order || compareTexts(text, theirs[index] ?? ''), 0)
    )
  })
}

function pathsOf(question: PathsQuestion, frame: Frame): Path[] {
  const { start, end, steps = 3 } = question
  const given = start ?? end ?? '*'
  const first: Definition = typeof given === 'string' ? { event: given } : given
  const windowMs = windowOf(question)
  // Sessions are among the events of a path only if it starts or ends at one.
  const taken = frame.facts.filter(({ isSession }) => !isSession || first.event === '$session')
  return [...byUser(taken)].flatMap(([user, facts]) =>
    facts.flatMap((fact, index) => {
      if (!isInRange(frame, fact) || !isEvent(first, fact, frame.zone)) return []
      const others = end ? facts.slice(0, index).reverse() : facts.slice(index + 1)
      const near = others.filter((other) => Math.abs(other.timestamp - fact.timestamp) <= windowMs)
      return [{ user, events: [fact, ...near.slice(0, steps)].map(nameOf) }]
    }),
  )
}

function nameOf({ event }: Fact): string {
  return event
}

/** Per step, the names with the most users. */
function namedMost(paths: Path[], limit: number): Set<string>[] {
  const steps: Map<string, Set<string>>[] = []
  for (const { user, events } of paths) {
    for (const [step, event] of events.entries()) {
      const names = steps[step] ?? new Map<string, Set<string>>()
      steps[step] = names
      const users = names.get(event) ?? new Set()
      names.set(event, users)
      users.add(user)
    }
  }
  return steps.map((names) => {
    const sorted = [...names].sort(([a, ours], [b, theirs]) => theirs.size - ours.size || compareTexts(a, b))
    return new Set(sorted.slice(0, limit).map(([name]) => name))
  })
}

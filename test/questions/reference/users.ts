import type { Group } from './breakdown.js'
import { usersOf } from './data.js'
import { funnelLines } from './funnel.js'
import { areEqual, compareTexts, jsonText, type Value } from './json.js'
import { nodesAndLinks } from './paths.js'
import type { Frame, UsersQuestion } from './question.js'
import { cohorts } from './retention.js'
import { seriesLines, seriesPoints } from './series.js'

export function usersAnswer(question: UsersQuestion, frame: Frame) {
  const { page = 1, limit = 50 } = question
  const all = [...usersBehind(question, frame)].sort(compareTexts)
  const end = page * limit
  return {
    results: { users: all.slice(end - limit, end), count: all.length, page, limit, hasMore: all.length > end },
  }
}

/** The users that a cell counts; it must be a cell of the answer. */
function usersBehind({ of, cell }: UsersQuestion, frame: Frame): Set<string> {
  switch (of.kind) {
    case 'series': {
      const its = seriesLines(of, frame).filter(({ series }) => series === (cell.series ?? 0))
      const members = membersOf(its, cell.breakdown, of.other)
      if (cell.at === undefined) return usersOf(members)
      const point = seriesPoints(of, frame).find(({ at }) => at === cell.at)
      return usersOf(members.filter(found(point).has))
    }
    case 'funnel': {
      const members = membersOf(funnelLines(of, frame), cell.breakdown)
      const those = members.filter(({ done }) =>
        cell.dropped ? done.length === cell.step - 1 : done.length >= cell.step,
      )
      return new Set(those.map(({ user }) => user))
    }
    case 'retention': {
      const cohort = found(cohorts(of, frame).find((one) => one.cohort === cell.cohort))
      return cell.interval === undefined ? cohort.users : found(cohort.cells[cell.interval]).users
    }
    case 'paths': {
      const { nodes, links } = nodesAndLinks(of, frame)
      if (cell.event !== undefined) {
        return found(nodes.find(({ step, event }) => step === cell.step && event === cell.event)).users
      }
      return found(links.find(({ step, from, to }) => step === cell.step && from === cell.from && to === cell.to)).users
    }
  }
}

/**
 * The members of a line. `["$other"]` is the line of all others, which may have no members, even if a value has this
 * text.
 * @param hasRest whether the answer may have a line for the rest; if not, it is the line of the value
 */
function membersOf<Member>(lines: Group<Member>[], breakdown: Value[] = [], hasRest = true): Member[] {
  if (hasRest && jsonText(breakdown) === '["$other"]') return lines.find(({ isRest }) => isRest)?.members ?? []
  return found(lines.find((line) => areEqual(line.breakdown, breakdown))).members
}

function found<One>(one: One | undefined): One {
  if (one === undefined) throw new Error('the answer has no such cell')
  return one
}

import { byUser, type Fact } from './data.js'
import { isEvent } from './filter.js'
import { type Frame, isInRange, type RetentionQuestion, sum } from './question.js'
import { type Bucket, bucketsOf, isIn } from './time.js'

const DAY_MS = 86_400_000
/** The length of an interval from a user's own start. */
const PERIOD_MS = { day: DAY_MS, week: 7 * DAY_MS, month: 30 * DAY_MS }

export interface Cohort {
  cohort: string
  users: Set<string>
  cells: { users: Set<string>; complete: boolean }[]
}

/** A user in a cohort, from one start event on. */
interface Member {
  user: string
  unit: number
  start: Fact
  returns: Fact[]
}

export function cohorts(question: RetentionQuestion, frame: Frame): Cohort[] {
  const { unit = 'day', mode = 'calendar', count = 'on', intervals = 8 } = question
  const { range, zone, weekStart, now } = frame
  const periodMs = PERIOD_MS[unit]
  // Cells may lie past the range; they, too, have the length of their unit.
  const beyond = range.end + (intervals + 2) * (unit === 'month' ? 32 * DAY_MS : periodMs)
  const units = bucketsOf(unit, { start: range.start, end: beyond }, zone, weekStart)
  const members = membersOf(question, frame, units)
  const last = Math.min(range.end, now)
  const cohortUnits = bucketsOf(unit, range, zone, weekStart)

  return cohortUnits.map(({ date, end }, cohort) => {
    const its = members.filter((member) => member.unit === cohort)
    const intervalOf = ({ start }: Member, fact: Fact) =>
      mode === 'calendar'
        ? units.findIndex((one) => isIn(one, fact.timestamp)) - cohort
        : Math.floor((fact.timestamp - start.timestamp) / periodMs)
    const cells = Array.from({ length: intervals }, (_, interval) => {
      const back = its.filter((member) =>
        member.returns.some((fact) => {
          const found = intervalOf(member, fact)
          return count === 'on' ? found === interval : found >= interval
        }),
      )
      const cellEnd =
        mode === 'calendar'
          ? (units[cohort + interval]?.end ?? Number.POSITIVE_INFINITY)
          : Math.min(end, range.end) + (interval + 1) * periodMs
      return { users: new Set(back.map(({ user }) => user)), complete: cellEnd <= last }
    })
    return { cohort: date, users: new Set(its.map(({ user }) => user)), cells }
  })
}

function membersOf(question: RetentionQuestion, frame: Frame, units: Bucket[]): Member[] {
  const { zone, range } = frame
  return [...byUser(frame.facts)].flatMap(([user, all]) => {
    const facts = all.filter(({ timestamp }) => timestamp < range.end)
    const starts = facts.filter((fact) => isEvent(question.start, fact, zone))
    const candidates =
      question.cohort === 'recurring' ? starts.filter((fact) => isInRange(frame, fact)) : starts.slice(0, 1)
    const seen = new Set<number>()
    return candidates.flatMap((start) => {
      const unit = units.findIndex((one) => isIn(one, start.timestamp))
      if (!isInRange(frame, start) || seen.has(unit)) return []
      seen.add(unit)
      const returns = facts.slice(facts.indexOf(start) + 1).filter((fact) => isEvent(question.return, fact, zone))
      return [{ user, unit, start, returns }]
    })
  })
}

export function retentionAnswer(question: RetentionQuestion, frame: Frame) {
  const all = cohorts(question, frame)
  const results = all.map(({ cohort, users, cells }) => ({
    cohort,
    size: users.size,
    cells: cells.map(({ users, complete }, interval) => ({ interval, users: users.size, complete })),
  }))
  const averages = Array.from({ length: question.intervals ?? 8 }, (_, interval) => {
    const over = results.filter(({ cells }) => cells[interval]?.complete)
    const size = sum(over.map(({ size }) => size))
    const back = sum(over.map(({ cells }) => cells[interval]?.users ?? 0))
    return { interval, share: size === 0 ? null : back / size }
  })
  return { results, averages }
}

import { DEFAULT_SETTINGS } from '../../../src/contract/project-settings.js'
import type { Fact, World } from './data.js'
import { type Definition, type Field, type Filter, matches, type SessionsDefinition } from './filter.js'
import { withSessions } from './sessions.js'
import type { Stretch, Unit, WeekStart } from './time.js'
import { dateOf, dayAt, dayOf, durationOf, isDate, timeOf } from './time.js'

type Time = string | number

interface Common {
  from?: Time
  to?: Time
  timezone?: string
  week_start?: WeekStart
  where?: Filter | null
  breakdown?: Field[]
  limit?: number
  sessions?: SessionsDefinition
}

type Metric = 'events' | 'users' | 'events_per_user' | 'sum' | 'avg' | 'min' | 'max' | 'median' | 'percentile'

export interface SeriesQuestion extends Common {
  kind: 'series'
  series: (Definition & { metric?: Metric; property?: Field; p?: number })[]
  interval?: Unit | 'none'
  other?: boolean
  approximate?: boolean
}

export interface FunnelQuestion extends Common {
  kind: 'funnel'
  steps: Definition[]
  window?: string
  order?: 'ordered' | 'strict' | 'any'
  exclude?: (Definition & { after: number })[]
}

export interface RetentionQuestion extends Common {
  kind: 'retention'
  start: Definition
  return: Definition
  cohort?: 'first' | 'recurring'
  unit?: 'day' | 'week' | 'month'
  mode?: 'calendar' | 'rolling'
  count?: 'on' | 'on_or_after'
  intervals?: number
}

export interface PathsQuestion extends Common {
  kind: 'paths'
  start?: string | Definition
  end?: string | Definition
  steps?: number
  window?: string
}

export type Answerable = SeriesQuestion | FunnelQuestion | RetentionQuestion | PathsQuestion

export interface UsersQuestion {
  kind: 'users'
  of: Answerable
  // biome-ignore lint/suspicious/noExplicitAny: each kind has cells of its own
  cell: any
  limit?: number
  page?: number
}

export type Question = Answerable | UsersQuestion

export const NOTHING: World = { facts: [], calls: [], project: DEFAULT_SETTINGS }

/** The data that every kind of question reads. */
export interface Frame {
  /** in order, without those that the question's own filter excludes */
  facts: Fact[]
  range: Stretch
  /** the given range, or its defaults */
  from: Time
  to: Time
  zone: string
  weekStart: WeekStart
  limit: number
  now: number
}

export function frameOf(question: Answerable, world: World, now: number): Frame {
  const zone = question.timezone ?? 'UTC'
  const to = question.to ?? dateOf(dayAt(zone, now) + 1)
  // A date is a calendar day, even one that the zone skipped.
  const end = isDate(to) ? dayOf(to) : dayAt(zone, timeOf(to, zone))
  const from = question.from ?? dateOf(end - 30)
  const range = { start: timeOf(from, zone), end: timeOf(to, zone) }
  const facts = withSessions(world, question.sessions ?? world.project.sessions, searched(question, range), zone)
  return {
    facts: facts.filter((fact) => matches(question.where, fact, zone)),
    range,
    from,
    to,
    zone,
    weekStart: question.week_start ?? 'monday',
    limit: question.limit ?? 10,
    now,
  }
}

/** The range of the events that a question follows, which all know their sessions. */
function searched(question: Answerable, { start, end }: Stretch): Stretch {
  switch (question.kind) {
    case 'series':
      return { start, end }
    case 'funnel':
      return { start, end: end + windowOf(question) }
    case 'retention':
      // A user's very first session is looked for among all sessions.
      return { start: (question.cohort ?? 'first') === 'first' ? Number.NEGATIVE_INFINITY : start, end }
    case 'paths':
      return question.end ? { start: start - windowOf(question), end } : { start, end: end + windowOf(question) }
  }
}

const WINDOWS = { funnel: '7d', paths: '30m' }

/** How long the events of a funnel or a path may take, in ms. */
export function windowOf({ kind, window = WINDOWS[kind] }: FunnelQuestion | PathsQuestion): number {
  return durationOf(window)
}

export function isInRange({ range }: Pick<Frame, 'range'>, { timestamp }: Fact): boolean {
  return range.start <= timestamp && timestamp < range.end
}

export function mean(numbers: number[]): number | null {
  return numbers.length === 0 ? null : orNull(sum(numbers) / numbers.length)
}

export function sum(numbers: number[]): number {
  return numbers.reduce((total, one) => total + one, 0)
}

/**
 * The value below which `p` percent are, on a straight line between two neighbours. Positions are counted from 1, as in
 * ClickHouse, so that the last digits are rounded alike; otherwise lines of equal numbers would be in a different
 * order.
 */
export function percentile(numbers: number[], p: number): number | null {
  const sorted = [...numbers].sort((a, b) => (a === b ? 0 : a - b))
  const place = (p / 100) * (sorted.length - 1) + 1
  const whole = Math.floor(place)
  const below = sorted[whole - 1]
  if (below === undefined) return null
  const above = sorted[whole] ?? below
  if (below === above || place === whole) return below
  return Number.isFinite(below) ? below + (above - below) * (place - whole) : orNull(below + above)
}

/** Infinity minus infinity is not a number. */
export function orNull(number: number): number | null {
  return Number.isNaN(number) ? null : number
}

/**
 * Questions about events and their answers (`POST /public/query`), as they go over the wire. A question has every field
 * here; of the caller's, those with a default may be absent or null.
 */

export type Scalar = string | number | boolean | null

/**
 * `event`, `distinct_id`, `timestamp`, `properties.<name>[.<name>…]` or `user.<name>…`; as a list of names where one of
 * them has a dot in it.
 */
export type FieldName = string | string[]

type ListOperator = 'is' | 'is_not'
type TextOperator = 'contains' | 'not_contains' | 'starts_with' | 'ends_with' | 'matches'
type OrderOperator = 'gt' | 'gte' | 'lt' | 'lte'
type PresenceOperator = 'set' | 'not_set'

export type Filter =
  | [ListOperator, FieldName, Scalar[]]
  | [TextOperator, FieldName, string | string[]]
  | [OrderOperator, FieldName, number | string]
  | [PresenceOperator, FieldName]
  | ['and' | 'or', Filter[]]
  | ['not', Filter]

/** Which events are meant: by their names (`*` for all), and by what they hold. */
export interface Definition {
  event: string | string[]
  where: Filter | null
}

/** What all questions about a range of time have. */
export interface RangeQuestion {
  /** a date, which is the day in `timezone`, an ISO time, or epoch ms */
  from: string | number
  /** exclusive; a date does not include its day */
  to: string | number
  timezone: string
  week_start: 'monday' | 'sunday'
  /** which events exist for this question */
  where: Filter | null
}

/** Answers that are split by the values of up to two fields. */
export interface Split {
  breakdown: FieldName[]
  /** of the values, how many have a line of their own */
  limit: number
}

export const METRICS = [
  'events',
  'users',
  'events_per_user',
  'sum',
  'avg',
  'min',
  'max',
  'median',
  'percentile',
] as const
export type Metric = (typeof METRICS)[number]

export const INTERVALS = ['hour', 'day', 'week', 'month', 'none'] as const
export type Interval = (typeof INTERVALS)[number]

export interface SeriesDefinition extends Definition {
  metric: Metric
  /** of the metrics of numbers */
  property?: FieldName
  /** of `percentile`, 0 to 100 */
  p?: number
}

export interface SeriesQuestion extends RangeQuestion, Split {
  kind: 'series'
  series: SeriesDefinition[]
  interval: Interval
  /** whether values beyond `limit` have a line together */
  other: boolean
  /** whether sketches will do */
  approximate: boolean
}

/** Ends an entry between a step, from 1, and the next. */
export interface Exclusion extends Definition {
  after: number
}

export interface FunnelQuestion extends RangeQuestion, Split {
  kind: 'funnel'
  steps: Definition[]
  /** a number and one of ms, s, m, h, d, w */
  window: string
  order: 'ordered' | 'strict' | 'any'
  exclude: Exclusion[]
}

export interface RetentionQuestion extends RangeQuestion {
  kind: 'retention'
  start: Definition
  return: Definition
  cohort: 'first' | 'recurring'
  unit: 'day' | 'week' | 'month'
  mode: 'calendar' | 'rolling'
  count: 'on' | 'on_or_after'
  intervals: number
}

export interface PathsQuestion extends RangeQuestion {
  kind: 'paths'
  /** one of start and end is there */
  start: Definition | null
  end: Definition | null
  steps: number
  window: string
  /** of the names at each step, how many have a node of their own */
  limit: number
}

export type AnyQuestion = SeriesQuestion | FunnelQuestion | RetentionQuestion | PathsQuestion

/** A number of an answer to `series`; the whole range without `at`. */
export interface SeriesCell {
  series: number
  breakdown: Scalar[]
  at?: string
}

/** A number of an answer to `funnel`: who reached a step, from 1; with `dropped`, who reached the one before and not it. */
export interface FunnelCell {
  step: number
  breakdown: Scalar[]
  dropped: boolean
}

/** A number of an answer to `retention`; the size of the cohort without `interval`. */
export interface RetentionCell {
  cohort: string
  interval?: number
}

/** A node or a link of an answer to `paths`. */
export type PathsCell = { step: number; event: string } | { step: number; from: string; to: string }

export type Cell = SeriesCell | FunnelCell | RetentionCell | PathsCell

export interface UsersQuestion {
  kind: 'users'
  of: AnyQuestion
  cell: Cell
  limit: number
  page: number
}

export type Question = AnyQuestion | UsersQuestion

export interface SeriesPoint {
  /** the bucket's first instant in local time, with its offset from UTC */
  at: string
  value: number | null
  /** whether the bucket is over */
  complete: boolean
}

export interface SeriesLine {
  series: number
  /** of JSON: also objects and arrays */
  breakdown: unknown[]
  total: number | null
  points: SeriesPoint[]
}

export interface FunnelStep {
  users: number
  of_first: number
  of_previous: number
  median_ms: number | null
  mean_ms: number | null
}

export interface FunnelLine {
  breakdown: unknown[]
  steps: FunnelStep[]
  complete: boolean
}

export interface Cohort {
  /** the local date on which its unit begins */
  cohort: string
  size: number
  cells: { interval: number; users: number; complete: boolean }[]
}

export interface Paths {
  nodes: { step: number; event: string; users: number }[]
  links: { step: number; from: string; to: string; users: number }[]
}

export interface UsersPage {
  users: string[]
  count: number
  page: number
  limit: number
  hasMore: boolean
}

import { MAX_TIMESTAMP } from '../contract/limits.js'
import {
  type AnyQuestion,
  type Cell,
  type Definition,
  type FunnelQuestion,
  INTERVALS,
  METRICS,
  type PathsQuestion,
  type Question,
  type RangeQuestion,
  type RetentionQuestion,
  type Scalar,
  type SeriesDefinition,
  type SeriesQuestion,
  type Split,
  type UsersQuestion,
} from '../contract/questions.js'
import type { Warning } from '../contract/warning.js'
import { Faults, Fields } from './faults.js'
import { type FilterContext, parseDefinition, parseField, parseFilter } from './parse-filter.js'
import { countBuckets, durationMs, instantOf, isDate, isTimeZone, laterDate, localDate, rangeOf } from './time.js'

/** The kinds except `users`, which is about another question. */
const OWN_KINDS = ['series', 'funnel', 'retention', 'paths'] as const
const KINDS = [...OWN_KINDS, 'users'] as const
const DEFAULT_DAYS = 30
const DAY_MS = 86_400_000
/** Maximum number of buckets of one line. */
const MAX_BUCKETS = 10_000
/** Maximum number of points of all lines of an answer. */
const MAX_POINTS = 500_000
const MAX_WINDOW_MS = 366 * DAY_MS
const NUMBER_METRICS: readonly string[] = ['sum', 'avg', 'min', 'max', 'median', 'percentile']

/**
 * Parses a question and fills in every default.
 * @param body of the request, already parsed as JSON
 * @param now epoch ms
 * @throws ApiError `invalid_request` that names every field at fault
 */
export function parseQuestion(body: unknown, now: number): Question {
  return readQuestion(body, now).question
}

/** As `parseQuestion`, and warns of fields that are ignored. */
export function readQuestion(body: unknown, now: number): { question: Question; warnings: Warning[] } {
  const faults = new Faults()
  const fields = new Fields(body, '', faults)
  // The authentication has read it.
  fields.get('apiKey')
  const question = parseAny(fields, now)
  faults.throwIfAny()
  return { question, warnings: faults.warnings() }
}

/**
 * Adds the faults of a question that is part of a body.
 * @param path of the question in the body
 * @throws ApiError with the faults so far if its kind is unknown
 */
export function checkQuestion(question: unknown, path: string, faults: Faults, now: number): void {
  parseAny(new Fields(question, path, faults), now)
}

function parseAny(fields: Fields, now: number): Question {
  const kind = fields.get('kind')
  if (kind === 'users') return usersQuestion(fields, now)
  return parseKind(fields, now, KINDS)
}

/** @param kinds that it may have, for the message; `users` is parsed elsewhere */
function parseKind(fields: Fields, now: number, kinds: readonly string[] = OWN_KINDS): AnyQuestion {
  const kind = fields.get('kind')
  switch (kind) {
    case 'series':
      return seriesQuestion(fields, now)
    case 'funnel':
      return funnelQuestion(fields, now)
    case 'retention':
      return retentionQuestion(fields, now)
    case 'paths':
      return pathsQuestion(fields, now)
    default: {
      fields.fault('kind', `must be one of ${kinds.join(', ')}`)
      fields.faults.throwIfAny()
      throw new Error('there is a fault')
    }
  }
}

function seriesQuestion(fields: Fields, now: number): SeriesQuestion {
  const { range, context } = rangeFields(fields, now)
  const interval = fields.oneOf('interval', INTERVALS, 'day')
  if (interval !== 'none') checkBuckets(fields, 'interval', range, interval)
  const series = fields.list('series', 1, 10, 'series').map((value, i) => {
    return seriesDefinition(new Fields(value, `${fields.path}/series/${i}`, fields.faults), context)
  })
  const lines = split(fields, context)
  const points = countBuckets(rangeOf(range), interval === 'none' ? 'month' : interval)
  if (series.length * (lines.breakdown.length > 0 ? lines.limit + 1 : 1) * points > MAX_POINTS) {
    fields.fault('limit', `must be less, or interval longer: there would be over ${MAX_POINTS} points`)
  }
  return {
    kind: 'series',
    ...range,
    series,
    interval,
    ...lines,
    other: fields.boolean('other', true),
    approximate: fields.boolean('approximate', false),
  }
}

function seriesDefinition(fields: Fields, context: FilterContext): SeriesDefinition {
  const definition = parseDefinition(fields, context)
  const metric = fields.oneOf('metric', METRICS, 'events')
  if (!NUMBER_METRICS.includes(metric)) return { ...definition, metric }
  const given = fields.get('property')
  if (given === undefined) fields.fault('property', `is required: ${metric} is of numbers, such as properties.price`)
  const property = given === undefined ? 'timestamp' : parseField(given, `${fields.path}/property`, context)
  if (metric !== 'percentile') return { ...definition, metric, property }
  const p = fields.get('p') ?? 95
  if (typeof p === 'number' && p >= 0 && p <= 100) return { ...definition, metric, property, p }
  fields.fault('p', 'must be a number from 0 to 100')
  return { ...definition, metric, property, p: 95 }
}

function funnelQuestion(fields: Fields, now: number): FunnelQuestion {
  const { range, context } = rangeFields(fields, now)
  const steps = fields.list('steps', 2, 20, 'steps').map((value, i) => {
    return parseDefinition(new Fields(value, `${fields.path}/steps/${i}`, fields.faults), context)
  })
  const exclude = fields.list('exclude', 0, 20, 'exclusions').map((value, i) => {
    const exclusion = new Fields(value, `${fields.path}/exclude/${i}`, fields.faults)
    const last = Math.max(1, steps.length - 1)
    if (exclusion.get('after') === undefined)
      exclusion.fault('after', `is required: the number of a step, 1 to ${last}`)
    return { ...parseDefinition(exclusion, context), after: exclusion.integer('after', 1, last, 1) }
  })
  const order = fields.oneOf('order', ['ordered', 'strict', 'any'] as const, 'ordered')
  return { kind: 'funnel', ...range, steps, window: window(fields, '7d'), order, exclude, ...split(fields, context) }
}

function retentionQuestion(fields: Fields, now: number): RetentionQuestion {
  const { range, context } = rangeFields(fields, now)
  refuseBreakdown(fields)
  const unit = fields.oneOf('unit', ['day', 'week', 'month'] as const, 'day')
  checkBuckets(fields, 'unit', range, unit)
  return {
    kind: 'retention',
    ...range,
    start: definition(fields, 'start', context),
    return: definition(fields, 'return', context),
    cohort: fields.oneOf('cohort', ['first', 'recurring'] as const, 'first'),
    unit,
    mode: fields.oneOf('mode', ['calendar', 'rolling'] as const, 'calendar'),
    count: fields.oneOf('count', ['on', 'on_or_after'] as const, 'on'),
    intervals: fields.integer('intervals', 1, 90, 8),
  }
}

function pathsQuestion(fields: Fields, now: number): PathsQuestion {
  const { range, context } = rangeFields(fields, now)
  refuseBreakdown(fields)
  const at = (name: string) => (fields.get(name) === undefined ? null : definition(fields, name, context))
  const [start, end] = [at('start'), at('end')]
  if ((start === null) === (end === null)) fields.fault('start', 'or end must be there, and not both')
  return {
    kind: 'paths',
    ...range,
    start,
    end,
    steps: fields.integer('steps', 1, 5, 3),
    window: window(fields, '30m'),
    limit: fields.integer('limit', 1, 1000, 10),
  }
}

function usersQuestion(fields: Fields, now: number): UsersQuestion {
  const of = parseKind(new Fields(fields.get('of'), `${fields.path}/of`, fields.faults), now)
  const cell = new Fields(fields.get('cell'), `${fields.path}/cell`, fields.faults)
  return {
    kind: 'users',
    of,
    cell: cellOf(of, cell),
    limit: fields.integer('limit', 1, 1000, 50),
    page: fields.integer('page', 1, Number.MAX_SAFE_INTEGER, 1),
  }
}

function cellOf(of: AnyQuestion, fields: Fields): Cell {
  switch (of.kind) {
    case 'series': {
      const at = optionalText(fields, 'at')
      if (at !== undefined && instantOf(at, of.timezone) === null)
        fields.fault('at', 'must be the time of a point of the answer')
      const series = fields.integer('series', 0, Math.max(0, of.series.length - 1), 0)
      return { series, breakdown: breakdownOf(fields, of), ...(at !== undefined && { at }) }
    }
    case 'funnel': {
      if (fields.get('step') === undefined) fields.fault('step', 'is required: the number of a step, from 1')
      const dropped = fields.boolean('dropped', false)
      const step = fields.integer('step', dropped ? 2 : 1, Math.max(2, of.steps.length), 2)
      return { step, breakdown: breakdownOf(fields, of), dropped }
    }
    case 'retention': {
      const cohort = optionalText(fields, 'cohort')
      if (cohort === undefined || !isDate(cohort)) fields.fault('cohort', 'must be the date of a cohort of the answer')
      const interval = fields.get('interval') === undefined ? {} : { interval: interval0(fields, of) }
      return { cohort: cohort ?? '', ...interval }
    }
    case 'paths': {
      if (fields.get('step') === undefined) fields.fault('step', 'is required: the number of a step, from 0')
      const step = fields.integer('step', 0, of.steps, 0)
      const [event, from, to] = ['event', 'from', 'to'].map((name) => optionalText(fields, name))
      if (event !== undefined && from === undefined && to === undefined) return { step, event }
      if (event === undefined && from !== undefined && to !== undefined) return { step, from, to }
      fields.fault('event', 'must be there for a node, or from and to for a link')
      return { step, event: '' }
    }
  }
}

function interval0(fields: Fields, of: RetentionQuestion): number {
  return fields.integer('interval', 0, of.intervals - 1, 0)
}

function breakdownOf(fields: Fields, { breakdown }: Split): Scalar[] {
  const given = fields.get('breakdown')
  if (given === undefined && breakdown.length === 0) return []
  const isRest = Array.isArray(given) && given.length === 1 && given[0] === '$other'
  if (Array.isArray(given) && (isRest || given.length === breakdown.length)) return given
  fields.fault('breakdown', 'must be the breakdown of a line of the answer')
  return []
}

function optionalText(fields: Fields, name: string): string | undefined {
  const value = fields.get(name)
  if (value === undefined || typeof value === 'string') return value
  fields.fault(name, 'must be a text')
  return undefined
}

function definition(fields: Fields, name: string, context: FilterContext): Definition {
  const value = fields.get(name)
  if (value === undefined) {
    fields.fault(name, 'is required: {"event": …}')
    return { event: '*', where: null }
  }
  // A plain name means the events with that name.
  const object = typeof value === 'string' ? { event: value } : value
  return parseDefinition(new Fields(object, `${fields.path}/${name}`, fields.faults), context)
}

function split(fields: Fields, context: FilterContext): Split {
  const breakdown = fields.list('breakdown', 0, 2, 'fields').map((value, i) => {
    return parseField(value, `${fields.path}/breakdown/${i}`, context)
  })
  return { breakdown, limit: fields.integer('limit', 1, 1000, 10) }
}

function refuseBreakdown(fields: Fields): void {
  const given = fields.get('breakdown')
  if (given === undefined || (Array.isArray(given) && given.length === 0)) return
  fields.fault('breakdown', 'must not be there: only series and funnel have one')
}

function window(fields: Fields, fallback: string): string {
  const given = fields.get('window') ?? fallback
  const ms = typeof given === 'string' ? durationMs(given) : null
  if (ms !== null && ms > 0 && ms <= MAX_WINDOW_MS) return given as string
  fields.fault(
    'window',
    'must be a whole number above 0 with a unit (ms, s, m, h, d, w), such as "7d", of at most 366d',
  )
  return fallback
}

function checkBuckets(
  fields: Fields,
  name: string,
  range: RangeQuestion,
  unit: 'hour' | 'day' | 'week' | 'month',
): void {
  if (countBuckets(rangeOf(range), unit) <= MAX_BUCKETS) return
  const larger = { hour: 'day', day: 'month', week: 'month', month: 'month' }[unit]
  fields.fault(name, `must be longer, or the range shorter: there would be over ${MAX_BUCKETS} of them; use ${larger}`)
}

function rangeFields(fields: Fields, now: number): { range: RangeQuestion; context: FilterContext } {
  const timezone = zoneOf(fields)
  const week_start = fields.oneOf('week_start', ['monday', 'sunday'] as const, 'monday')
  const to = boundOf(fields, 'to', timezone) ?? localDate(now, timezone, 1)
  const from = boundOf(fields, 'from', timezone) ?? daysBefore(to, timezone)
  const range = rangeOf({ from, to, timezone })
  if (range.from >= range.to) fields.fault('from', 'must be before to')
  const context = { faults: fields.faults, timezone, filters: 0 }
  const where = parseFilter(fields.get('where'), `${fields.path}/where`, context)
  return { range: { from, to, timezone, week_start, where }, context }
}

function daysBefore(to: string | number, timezone: string): string {
  if (isDate(to)) return laterDate(to, -DEFAULT_DAYS)
  return localDate(instantOf(to, timezone) ?? 0, timezone, -DEFAULT_DAYS)
}

function zoneOf(fields: Fields): string {
  const timezone = fields.get('timezone') ?? 'UTC'
  if (typeof timezone === 'string' && isTimeZone(timezone)) return timezone
  fields.fault('timezone', 'must be an IANA time zone, such as Europe/Vienna')
  return 'UTC'
}

function boundOf(fields: Fields, name: 'from' | 'to', timezone: string): string | number | undefined {
  const given = fields.get(name)
  if (given === undefined) return undefined
  const at = typeof given === 'string' || typeof given === 'number' ? instantOf(given, timezone) : null
  // In local time, the first day may begin earlier and the last one end later than in UTC.
  const slack = typeof given === 'number' ? 0 : DAY_MS
  if (at !== null && at >= -slack && at <= MAX_TIMESTAMP + slack) return given as string | number
  fields.fault(name, 'must be a date (2026-04-24), an ISO time, or milliseconds since 1970')
  return undefined
}

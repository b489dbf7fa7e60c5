import fc from 'fast-check'
import { PAGE_NAMES } from '../../../src/contract/page-fields.js'
import type { Definition, Field, Filter } from '../reference/filter.js'
import {
  type Answerable,
  type FunnelQuestion,
  frameOf,
  NOTHING,
  type PathsQuestion,
  type RetentionQuestion,
  type SeriesQuestion,
} from '../reference/question.js'
import { dateOf, dayAt, localText } from '../reference/time.js'
import { aside, type Plan } from './data.js'
import * as pools from './pools.js'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

const oddNumbers = [...pools.NUMBERS, ...pools.ODD_NUMBERS, ...pools.REFUSED_NUMBERS]

/** JSON texts as values, because -0 and 1e400 cannot get into a body otherwise. */
const scalars = [...pools.TEXTS, ...oddNumbers, 'true', 'false', 'null'].map((text) => JSON.parse(text))
const texts = [...pools.TEXTS, ...pools.EVENTS.map((name) => JSON.stringify(name)), '"o"', '"p"'].map((text) =>
  JSON.parse(text),
)
const numbers = oddNumbers.map((text) => JSON.parse(text)).filter(Number.isFinite)

const pageFields = [
  ...PAGE_NAMES.map((name) => `page.${name}`),
  ...['context.browser', 'context.country', 'context.language', 'context.bot'],
]

const field: fc.Arbitrary<Field> = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom<Field>('properties.plan', 'properties.n', 'properties.m') },
  {
    weight: 2,
    arbitrary: fc.constantFrom<Field>(
      ...['properties.o', 'properties.o.x', 'properties.o.x.y', 'properties.a.b', 'properties.missing'],
      ...[
        ['properties', 'a.b'],
        ['properties', 'a', 'b.c'],
        ['properties', ''],
        ['properties', '\ud83d'],
        ['properties', 'plan'],
      ],
    ),
  },
  { weight: 2, arbitrary: fc.constantFrom<Field>('event', 'distinct_id', 'timestamp') },
  { weight: 2, arbitrary: fc.constantFrom<Field>('user.plan', 'user.n', 'user.a.b', ['user', 'plan']) },
  { weight: 2, arbitrary: fc.constantFrom<Field>(...pageFields) },
)

const ofSession: fc.Arbitrary<Field> = fc.oneof(
  fc.constantFrom<Field>(...['id', 'start', 'seconds', 'events', 'pages', 'bounced'].map((name) => `session.${name}`)),
  fc.constantFrom<Field>('session.properties.n', 'session.properties.m', 'session.state', 'session.duration'),
  fc
    .tuple(fc.constantFrom('first', 'last', 'entry', 'exit'), field)
    .map(([which, field]) => ['session', which, ...(Array.isArray(field) ? field : field.split('.'))]),
)

/** A field of an event and, outside of filters that decide what belongs to a session, of its session. */
const anyField: fc.Arbitrary<Field> = fc.oneof({ weight: 3, arbitrary: field }, { weight: 1, arbitrary: ofSession })

/** A field that is sometimes a number. */
const property = fc.oneof(
  { weight: 4, arbitrary: fc.constant<Field>('properties.n') },
  { weight: 1, arbitrary: fc.constantFrom<Field>('properties.a.b', 'user.n', 'properties.plan', 'event', 'timestamp') },
  {
    weight: 2,
    arbitrary: fc.constantFrom<Field>(
      ...['session.seconds', 'session.events', 'session.pages', 'session.bounced', 'session.duration', 'session.start'],
      'session.first.properties.n',
    ),
  },
)

/** Times as callers spell them. */
function time(plan: Plan, zone: string, from: number, to: number): fc.Arbitrary<string | number> {
  const instant = fc.oneof(
    fc
      .integer({ min: Math.ceil(from / HOUR_MS), max: Math.floor(to / HOUR_MS) })
      .map((hours) => plan.center + hours * HOUR_MS),
    fc.tuple(fc.integer({ min: from, max: to }), aside).map(([away, by]) => Math.floor(plan.center + away + by)),
  )
  return fc.tuple(instant, fc.integer({ min: 0, max: 4 })).map(([at, how]) => {
    if (how === 0) return at
    if (how === 1) return new Date(at).toISOString()
    const local = localText(zone, at)
    // An offset with seconds is no ISO time.
    if (how === 2) return /[-+]\d\d:\d\d$/.test(local) ? local : at
    if (how === 3) return local.slice(0, 19)
    return dateOf(dayAt(zone, at))
  })
}

/** @param level how many filters of session_has are around it */
function filter(plan: Plan, zone: string, field = anyField, level = 0): fc.Arbitrary<Filter> {
  const scalar = fc.constantFrom(...scalars)
  const text = fc.constantFrom(...texts)
  const list = (one: fc.Arbitrary<unknown>) => fc.array(one, { minLength: 1, maxLength: 3 })
  const name = fc.constantFrom(...pools.NAMES, pools.NOBODY)
  const order = fc.constantFrom('gt', 'gte', 'lt', 'lte')
  const { leaf } = fc.letrec<{ leaf: Filter; tree: Filter }>((tie) => ({
    tree: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      tie('leaf'),
      fc.tuple(fc.constantFrom('and', 'or'), fc.array(tie('tree'), { maxLength: 3 })) as fc.Arbitrary<Filter>,
      fc.tuple(fc.constant('not'), tie('tree')) as fc.Arbitrary<Filter>,
    ),
    leaf: fc.oneof(
      fc.tuple(fc.constantFrom('is', 'is_not'), field, list(scalar)),
      fc.tuple(
        fc.constantFrom('is', 'is_not'),
        fc.constantFrom('event', 'distinct_id'),
        list(fc.oneof(name, fc.constantFrom(...pools.EVENTS))),
      ),
      fc.tuple(
        fc.constantFrom('contains', 'not_contains', 'starts_with', 'ends_with'),
        field,
        fc.oneof(text, list(text)),
      ),
      fc.tuple(
        fc.constant('matches'),
        field,
        fc.oneof(fc.constantFrom(...pools.PATTERNS), list(fc.constantFrom(...pools.PATTERNS))),
      ),
      fc.tuple(
        order,
        field.filter((one) => one !== 'timestamp'),
        fc.oneof(fc.constantFrom(...numbers), text),
      ),
      fc.tuple(order, fc.constant('timestamp'), time(plan, zone, -3 * DAY_MS, 3 * DAY_MS)),
      fc.tuple(fc.constantFrom('set', 'not_set'), field),
      ...(field === anyField && level < 2 ? [fc.tuple(fc.constant('session_has'), within(plan, zone, level))] : []),
      tie('tree'),
    ) as fc.Arbitrary<Filter>,
  }))
  return leaf
}

/** Events that a session may contain. */
function within(plan: Plan, zone: string, level: number): fc.Arbitrary<Definition> {
  const where = fc.oneof(
    filter(plan, zone, field),
    filter(plan, zone, anyField, level + 1).filter((one) => new Set(listOfSession(one)).size <= 4),
  )
  const names = [...new Set(plan.events.map(({ event }) => event))]
  return fc.record({
    event: fc.oneof(fc.constantFrom(...names, '*'), fc.uniqueArray(fc.constantFrom(...names), { minLength: 1 })),
    where: maybe(where, { absent: 2 }),
  }) as fc.Arbitrary<Definition>
}

/** The conditions about the session in the filter of a session_has, which may have at most four different ones. */
function listOfSession([operator, first, ...rest]: Filter): string[] {
  if (operator === 'and' || operator === 'or') return first.flatMap(listOfSession)
  if (operator === 'not') return listOfSession(first)
  const isOfSession = operator === 'session_has' || [first].flat().join('.').startsWith('session.')
  return isOfSession ? [JSON.stringify([operator, first, ...rest])] : []
}

function sessions(plan: Plan, zone: string) {
  const gap = fc.constantFrom('1m', '30m', '60m', '1h', '3h', '24h', '1d')
  return fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(undefined, null, 'id' as const) },
    {
      weight: 2,
      arbitrary: fc.record({ gap, where: maybe(filter(plan, zone, field), { absent: 2 }) }),
    },
  )
}

/** A member that may be present, null, or absent; the last two mean the same. */
function maybe<T>(one: fc.Arbitrary<T>, { absent = 1, given = 1 } = {}): fc.Arbitrary<T | undefined | null> {
  return fc.oneof(
    { weight: absent, arbitrary: fc.constantFrom(undefined, undefined, null) },
    { weight: given, arbitrary: one },
  )
}

function definition(plan: Plan, zone: string): fc.Arbitrary<Definition> {
  const names = [...new Set(plan.events.map(({ event }) => event))]
  const name = fc.constantFrom(...names, ...names, '*', 'no such event', ...Array(names.length).fill('$session'))
  return fc.record({
    event: fc.oneof(
      { weight: 4, arbitrary: name },
      { weight: 1, arbitrary: fc.uniqueArray(fc.constantFrom(...names, 'no such event'), { minLength: 1 }) },
    ),
    where: maybe(filter(plan, zone), { absent: 5 }),
  }) as fc.Arbitrary<Definition>
}

const WINDOWS = ['1ms', '1s', '1m', '90m', '1h', '3h', '1d', '25h', '7d', '2w', '60d']

/** The fields of every question: a range of up to `maxMs` around the center. */
function common(plan: Plan, maxMs: number) {
  return fc
    .oneof(
      { weight: 3, arbitrary: fc.constant(plan.zone) },
      { weight: 1, arbitrary: fc.constantFrom(...pools.ERAS.map(({ zone }) => zone)) },
    )
    .chain((zone) =>
      fc.record({
        zone: fc.constant(zone),
        timezone: fc.constant(zone),
        from: maybe(time(plan, zone, -maxMs / 2, HOUR_MS), { absent: 1, given: 7 }),
        to: maybe(time(plan, zone, 0, maxMs / 2), { absent: 1, given: 7 }),
        week_start: maybe(fc.constantFrom('monday' as const, 'sunday' as const)),
        where: maybe(filter(plan, zone), { absent: 3 }),
        limit: maybe(fc.constantFrom(1, 2, 3, 10, 1000)),
        sessions: sessions(plan, zone),
      }),
    )
}

const breakdown = maybe(
  fc.oneof(fc.array(anyField, { minLength: 1, maxLength: 1 }), fc.array(anyField, { maxLength: 2 })),
  {
    absent: 2,
  },
)

/** Usually the smallest number: ClickHouse spends most of its time on the plan, which grows with the question. */
function few<T>(one: fc.Arbitrary<T>, least: number, most: number): fc.Arbitrary<T[]> {
  return fc.oneof(
    { weight: 3, arbitrary: fc.array(one, { minLength: least, maxLength: least }) },
    { weight: 1, arbitrary: fc.array(one, { minLength: least, maxLength: most }) },
  )
}

/** Metrics whose sketch is exact for few values. */
const COUNTING = new Set<unknown>([undefined, null, 'events', 'users', 'events_per_user'])

function series(plan: Plan): fc.Arbitrary<SeriesQuestion> {
  const interval = fc.constantFrom(
    { interval: 'hour' as const, maxMs: 5 * DAY_MS },
    { interval: 'day' as const, maxMs: 60 * DAY_MS },
    { interval: undefined, maxMs: 12 * DAY_MS },
    { interval: 'week' as const, maxMs: 300 * DAY_MS },
    { interval: 'month' as const, maxMs: 900 * DAY_MS },
    { interval: 'none' as const, maxMs: 300 * DAY_MS },
  )
  const metric = fc.oneof(
    fc.record({ metric: maybe(fc.constantFrom('events', 'users', 'events_per_user')) }),
    fc.record({ metric: fc.constantFrom('sum', 'avg', 'min', 'max', 'median'), property }),
    fc.record({
      metric: fc.constantFrom('sum', 'avg', 'min', 'max', 'median', 'percentile'),
      property: fc.constant<Field>('properties.i'),
    }),
    // The results of these depend on the order of the values.
    fc.record({ metric: fc.constantFrom('min', 'max'), property: fc.constant<Field>('properties.m') }),
    fc.record({
      metric: fc.constant('percentile'),
      property,
      p: maybe(fc.constantFrom(0, 1, 25, 37.5, 50, 90, 99.9, 100)),
    }),
  )
  return interval.chain(({ interval, maxMs }) =>
    common(plan, maxMs).chain(({ zone, ...rest }) => {
      const one = fc.tuple(definition(plan, zone), metric).map(([defined, measured]) => ({ ...defined, ...measured }))
      return few(one, 1, 3).chain((series) =>
        fc.record({
          kind: fc.constant('series'),
          ...constants(rest),
          interval: fc.constant(interval),
          series: fc.constant(series),
          breakdown,
          other: maybe(fc.boolean()),
          approximate: series.every(({ metric }) => COUNTING.has(metric))
            ? maybe(fc.boolean(), { absent: 3 })
            : fc.constant(undefined),
        }),
      )
    }),
  ) as fc.Arbitrary<SeriesQuestion>
}

function constants<T extends object>(values: T) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, fc.constant(value)]))
}

function funnel(plan: Plan): fc.Arbitrary<FunnelQuestion> {
  return common(plan, 60 * DAY_MS).chain(({ zone, ...rest }) => {
    const step = definition(plan, zone)
    return few(step, 2, 5).chain((steps) =>
      fc.record({
        kind: fc.constant('funnel'),
        ...constants(rest),
        steps: fc.constant(steps),
        window: maybe(fc.constantFrom(...WINDOWS)),
        order: maybe(fc.constantFrom('ordered', 'strict', 'any'), { given: 3 }),
        exclude: maybe(
          fc.array(
            fc.tuple(step, fc.integer({ min: 1, max: steps.length - 1 })).map(([one, after]) => ({ ...one, after })),
            {
              maxLength: 2,
            },
          ),
        ),
        breakdown,
      }),
    )
  }) as fc.Arbitrary<FunnelQuestion>
}

function retention(plan: Plan): fc.Arbitrary<RetentionQuestion> {
  const unit = fc.constantFrom(
    { unit: 'day' as const, maxMs: 30 * DAY_MS },
    { unit: undefined, maxMs: 10 * DAY_MS },
    { unit: 'week' as const, maxMs: 150 * DAY_MS },
    { unit: 'month' as const, maxMs: 450 * DAY_MS },
  )
  return unit.chain(({ unit, maxMs }) =>
    common(plan, maxMs).chain(({ zone, limit, ...rest }) =>
      fc.record({
        kind: fc.constant('retention'),
        ...constants(rest),
        unit: fc.constant(unit),
        start: definition(plan, zone),
        return: definition(plan, zone),
        cohort: maybe(fc.constantFrom('first', 'recurring')),
        mode: maybe(fc.constantFrom('calendar', 'rolling')),
        count: maybe(fc.constantFrom('on', 'on_or_after')),
        intervals: maybe(fc.constantFrom(1, 2, 3, 8, 20)),
      }),
    ),
  ) as fc.Arbitrary<RetentionQuestion>
}

function paths(plan: Plan): fc.Arbitrary<PathsQuestion> {
  return common(plan, 60 * DAY_MS).chain(({ zone, ...rest }) => {
    const one = definition(plan, zone)
    const names = [...new Set(plan.events.map(({ event }) => event))].filter((name) => name !== '*')
    const edge = fc.oneof(fc.constantFrom('no such event', ...names), one)
    return fc
      .tuple(
        fc.boolean(),
        edge,
        fc.record({
          kind: fc.constant('paths'),
          ...constants(rest),
          steps: maybe(fc.constantFrom(1, 1, 1, 2, 2, 3, 4, 5), { given: 4 }),
          window: maybe(fc.constantFrom(...WINDOWS)),
        }),
      )
      .map(([isEnd, edge, question]) => ({ ...question, [isEnd ? 'end' : 'start']: edge }))
  }) as unknown as fc.Arbitrary<PathsQuestion>
}

/** A question and its time. */
export interface Asking {
  question: Answerable
  /** epoch ms */
  now: number
}

/** A question of each kind about the data of a plan. */
export function askingsOf(plan: Plan): Record<Answerable['kind'], fc.Arbitrary<Asking>> {
  const now = fc.constantFrom(-DAY_MS, 0, HOUR_MS, 3 * DAY_MS, 20 * DAY_MS, 1000 * DAY_MS)
  const asking = (question: fc.Arbitrary<Answerable>) =>
    fc.record({ question, now: now.map((away) => plan.center + away) }).filter(isModest)
  return {
    series: asking(series(plan)),
    funnel: asking(funnel(plan)),
    retention: asking(retention(plan)),
    paths: asking(paths(plan)),
  }
}

/** Maximum number of buckets, so that three series with a thousand lines each stay below the limit of points. */
const MAX_BUCKETS = 160
const LEAST_MS: Record<string, number> = { hour: HOUR_MS, week: 7 * DAY_MS, month: 28 * DAY_MS, none: 1000 * DAY_MS }

/** Whether the range is not empty and has not too many buckets; with a default at one end, it may have. */
function isModest({ question, now }: Asking): boolean {
  const { range } = frameOf(question, NOTHING, now)
  const { interval, unit } = question as { interval?: string; unit?: string }
  const bucketMs = LEAST_MS[interval ?? unit ?? 'day'] ?? DAY_MS
  return range.start < range.end && range.end - range.start < MAX_BUCKETS * bucketMs
}

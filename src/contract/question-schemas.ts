import * as Type from '@sinclair/typebox'
import {
  anything,
  choice,
  computed,
  custom,
  flag,
  list,
  literal,
  never,
  number,
  object,
  optional,
  orNull,
  shorthand,
  text,
  when,
  wholeNumber,
  withDefault,
} from './fields.js'
import type { FieldName, Filter, Scalar } from './filters.js'

/**
 * Questions about events (`POST /public/query`): every field with its limits, its default and what it means. The types, the
 * reader of questions, OpenAPI, MCP, the options of `tallyhouse query` and the page's form follow from these schemas.
 * Rules between fields are in `questions/rules.ts`.
 */

export const MAX_EVENTS = 1000
export const FIELD_MESSAGE = 'must be event, distinct_id, timestamp, properties.<name> or user.<name>'
/** The metrics that are of the numbers of a property. */
export const NUMBER_METRICS = ['sum', 'avg', 'min', 'max', 'median', 'percentile'] as const

const texts = { type: 'array', items: { type: 'string' } }
const Field = custom<FieldName>('Field', {
  anyOf: [{ type: 'string' }, texts],
  message: FIELD_MESSAGE,
  description:
    '`event`, `distinct_id`, `timestamp`, `properties.<name>` or `user.<name>`; an array if a name has a dot in it.',
})
const Where = custom<Filter>('Filter', {
  type: 'array',
  items: {},
  message: 'must be a filter such as ["is", "properties.plan", ["pro"]]',
  description: 'An operator, then a field and a value, or filters: `["is", "properties.plan", ["pro"]]`.',
})
const EventNames = custom<string | string[]>('EventNames', {
  anyOf: [{ type: 'string' }, texts],
  message: `must be the name of an event, an array of 1 to ${MAX_EVENTS} names, or "*" for all`,
  description: 'A name, a list of names, or `*` for all.',
})
const Time = custom<string | number>('Time', {
  type: ['string', 'number'],
  message: 'must be a date (2026-04-24), an ISO time, or milliseconds since 1970',
})
const TimeZone = custom<string>('TimeZone', {
  type: 'string',
  message: 'must be an IANA time zone, such as Europe/Vienna',
})
const Duration = custom<string>('Duration', {
  type: 'string',
  message: 'must be a whole number above 0 with a unit (ms, s, m, h, d, w), such as "7d", of at most 366d',
})

const definition = {
  event: EventNames,
  where: orNull(Where, 'Which of these events are meant.'),
}
export const Definition = object(definition, 'Which events are meant: by their names, and by what they hold.')
const NameOrDefinition = shorthand(
  custom<string>('Name', { type: 'string', message: 'must be the name of an event' }),
  Definition,
  'must be {"event": …}, or the name of an event',
)

const range = {
  from: computed(Time, 'The first instant; a date is that day in `timezone`. By default 30 days before `to`.'),
  to: computed(Time, 'Exclusive: a date does not include its day. By default the end of today.'),
  timezone: withDefault(TimeZone, 'UTC', 'IANA time zone of dates and days.'),
  week_start: withDefault(choice('monday', 'sunday'), 'monday', 'The first day of a week.'),
  where: orNull(Where, 'Which events exist for this question.'),
}
const Limit = wholeNumber(1, 1000)
const split = {
  breakdown: withDefault(list('fields', Field, 0, 2), [], 'The fields whose values have lines of their own.'),
  limit: withDefault(Limit, 10, 'How many values of the breakdown have a line of their own.'),
}
const noBreakdown = { breakdown: never('must not be there: only series and funnel have one') }

export const SeriesDefinition = object({
  ...definition,
  metric: withDefault(choice('events', 'users', 'events_per_user', ...NUMBER_METRICS), 'events', 'What is counted.'),
  property: when({ field: 'metric', values: NUMBER_METRICS }, Field, {
    description: 'The numbers of `sum` to `percentile`, such as `properties.price`.',
    message: 'must be a field with numbers, such as properties.price',
  }),
  p: when({ field: 'metric', values: ['percentile'] }, number(0, 100), {
    description: 'Which `percentile`.',
    default: 95,
  }),
})
export const Series = object({
  kind: literal('series'),
  ...range,
  series: list('series', SeriesDefinition, 1, 10),
  interval: withDefault(choice('hour', 'day', 'week', 'month', 'none'), 'day', 'Of a bucket; `none`: one for all.'),
  ...split,
  other: withDefault(flag(), true, 'Whether values beyond `limit` have a line together.'),
  approximate: withDefault(flag(), false, 'Whether sketches will do.'),
})

export const Exclusion = object({
  ...definition,
  after: { ...wholeNumber(1), description: 'It ends an entry between this step, from 1, and the next.' },
})
export const Funnel = object({
  kind: literal('funnel'),
  ...range,
  steps: list('steps', Definition, 2, 20),
  window: withDefault(Duration, '7d', 'How long all steps may take.'),
  order: withDefault(choice('ordered', 'strict', 'any'), 'ordered', 'How the steps follow each other.'),
  exclude: withDefault(list('exclusions', Exclusion, 0, 20), [], 'Events that end an entry.'),
  ...split,
})

export const Retention = object({
  kind: literal('retention'),
  ...range,
  start: NameOrDefinition,
  return: NameOrDefinition,
  cohort: withDefault(
    choice('first', 'recurring'),
    'first',
    'By the first start event ever, or by each unit with a start.',
  ),
  unit: withDefault(choice('day', 'week', 'month'), 'day', 'Of cohorts and intervals.'),
  mode: withDefault(choice('calendar', 'rolling'), 'calendar', 'Whether units begin with each user’s own start.'),
  count: withDefault(choice('on', 'on_or_after'), 'on', 'Whether a later return counts, too.'),
  intervals: withDefault(wholeNumber(1, 90), 8, 'How many intervals each cohort has.'),
  ...noBreakdown,
})

export const Paths = object({
  kind: literal('paths'),
  ...range,
  start: orNull(NameOrDefinition, 'Where the paths start; or `end`.'),
  end: orNull(NameOrDefinition, 'Where the paths end; or `start`.'),
  steps: withDefault(wholeNumber(1, 5), 3, 'How many events before or after.'),
  window: withDefault(Duration, '30m', 'How long a path may take.'),
  limit: withDefault(Limit, 10, 'How many names of each step have a node of their own.'),
  ...noBreakdown,
})

/** The kinds that have numbers. */
export const COUNTING = { series: Series, funnel: Funnel, retention: Retention, paths: Paths }

const breakdown = withDefault(list('values', anything<Scalar>(), 0, 2), [], 'That of a line of the answer.')
export const CELLS = {
  series: object({
    series: withDefault(wholeNumber(), 0, 'Which of the series, from 0.'),
    breakdown,
    at: optional(text('must be the time of a point of the answer'), '`at` of a point; the whole range without.'),
  }),
  funnel: object({
    step: { ...wholeNumber(1), description: 'The number of a step, from 1.' },
    breakdown,
    dropped: withDefault(flag(), false, 'Who reached the step before and not this one.'),
  }),
  retention: object({
    cohort: text('must be the date of a cohort of the answer'),
    interval: optional(wholeNumber(), 'From 0; the whole cohort without.'),
  }),
  paths: object({
    step: { ...wholeNumber(), description: 'The number of a step, from 0.' },
    event: optional(text(), 'The name at a node.'),
    from: optional(text(), 'The name at which a link begins.'),
    to: optional(text(), 'The name at which a link ends.'),
  }),
}

const page = {
  limit: withDefault(Limit, 50, 'The most users of a page.'),
  page: withDefault(wholeNumber(1), 1, 'Which page, from 1.'),
}
const kind = literal('users')
/** The users behind a number of the answer to `of`, by the kind of that. */
export const USERS = {
  series: object({ kind, of: Series, cell: CELLS.series, ...page }),
  funnel: object({ kind, of: Funnel, cell: CELLS.funnel, ...page }),
  retention: object({ kind, of: Retention, cell: CELLS.retention, ...page }),
  paths: object({ kind, of: Paths, cell: CELLS.paths, ...page }),
}

export const AnyQuestion = Type.Union([...Object.values(COUNTING), ...Object.values(USERS)])
/** Shorter, for models: what a question about users is about is described in words. */
export const AnyQuestionBriefly = Type.Union([
  ...Object.values(COUNTING),
  object({
    kind,
    of: anything('A question of one of the other kinds.'),
    cell: anything('Which number of the answer: the fields of its kind.'),
    ...page,
  }),
])

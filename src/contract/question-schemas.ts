import * as Type from '@sinclair/typebox'
import {
  anything,
  choice,
  computed,
  custom,
  describe,
  flag,
  list,
  literal,
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
 * Questions about events (`POST /public/query`): every field with its limits, its default and what it means. The types,
 * the reader of questions, OpenAPI, MCP, the options of `tallyhouse query` and the page's form follow from these
 * schemas. Rules between fields are in `questions/rules.ts`.
 */

export const MAX_EVENTS = 1000
export const FIELD_MESSAGE =
  'must be event, distinct_id, timestamp, properties.<name>, user.<name>, session.<name>, page.<name> or context.<name>'
/** The event name that stands for sessions in questions, as if each were an event. */
export const SESSION = '$session'
/** Stands in answers for all values or names beyond the limit. */
export const OTHER = '$other'
/** The metrics that are computed from the numbers of a property. */
export const NUMBER_METRICS = ['sum', 'avg', 'min', 'max', 'median', 'percentile'] as const

const texts = { type: 'array', items: { type: 'string' } }
const Field = custom<FieldName>('Field', {
  anyOf: [{ type: 'string' }, texts],
  message: FIELD_MESSAGE,
  description:
    '`event`, `distinct_id`, `timestamp`, `properties.<name>`, `user.<name>`, `session.<name>`, `page.<name>` or ' +
    '`context.<name>`; an array if a name contains a dot.',
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
  description: 'The name of an event, a list of names, `*` for all, or `$session` for sessions.',
})
const Time = custom<string | number>('Time', {
  anyOf: [{ type: 'string' }, { type: 'number' }],
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

type SessionsDefinition = 'id' | { gap: string; where?: Filter | null }
export const Sessions = custom<SessionsDefinition>('Sessions', {
  anyOf: [
    { type: 'string', enum: ['id'] },
    {
      type: 'object',
      properties: { gap: { type: 'string' }, where: { type: ['array', 'null'], items: {} } },
      required: ['gap'],
    },
  ],
  message: 'must be "id", or an object such as {"gap": "30m"}',
})

const definition = {
  event: EventNames,
  where: orNull(Where, 'A filter of these events.'),
}
export const Definition = object(definition)
const NameOrDefinition = shorthand(
  custom<string>('Name', { type: 'string', message: 'must be the name of an event' }),
  Definition,
  'must be {"event": …}, or the name of an event',
)

const range = {
  from: computed(
    Time,
    'The start of the range: a date, an ISO time or milliseconds since 1970 (default: 30 days before `to`).',
  ),
  to: computed(Time, 'The end of the range, exclusive (default: the end of today).'),
  timezone: withDefault(
    TimeZone,
    'UTC',
    'The IANA time zone of dates and days, unless the project has set another default.',
  ),
  week_start: withDefault(choice('monday', 'sunday'), 'monday', 'The first day of a week.'),
  where: orNull(Where, 'A filter: only events that match count.'),
  sessions: withDefault(
    Sessions,
    'id',
    'What a session is: the events of one `session_id` (`id`), or a user’s events that are at most `gap` apart, ' +
      'unless the project has set another default.',
  ),
}
const Limit = wholeNumber(1, 1000)
const split = {
  breakdown: withDefault(list('fields', Field, 0, 2), [], 'Fields to split the answer by.'),
  limit: withDefault(Limit, 10, 'How many values of the breakdown get their own line.'),
}
const noBreakdown = { breakdown: 'is only possible for series and funnel' }

export const SeriesDefinition = object({
  ...definition,
  metric: withDefault(
    choice('events', 'users', 'events_per_user', ...NUMBER_METRICS),
    'events',
    'What to count, or to compute from the numbers in `property`.',
  ),
  property: when({ field: 'metric', values: NUMBER_METRICS }, Field, {
    description: 'The field with the numbers for `sum` to `percentile`, such as `properties.price`.',
    message: 'must be a field with numbers, such as properties.price',
  }),
  p: when({ field: 'metric', values: ['percentile'] }, number(0, 100), {
    description: 'Which percentile, in percent.',
    default: 95,
  }),
})
export const Series = object({
  kind: literal('series'),
  ...range,
  interval: withDefault(
    choice('hour', 'day', 'week', 'month', 'none'),
    'day',
    'The length of a bucket; `none` for a single one.',
  ),
  series: describe(list('series', SeriesDefinition, 1, 10), 'The series, one line each.'),
  ...split,
  other: withDefault(flag(), true, 'Whether the values beyond `limit` share a line.'),
  approximate: withDefault(
    flag(),
    false,
    'Allows estimates of unique users, medians and percentiles, which are faster.',
  ),
})

export const Exclusion = object({
  ...definition,
  after: describe(wholeNumber(1), 'The step, from 1, after which such an event ends an entry.'),
})
export const Funnel = object({
  kind: literal('funnel'),
  ...range,
  steps: describe(list('steps', Definition, 2, 20), 'The steps.'),
  window: withDefault(Duration, '7d', 'How long a user has for all steps.'),
  order: withDefault(
    choice('ordered', 'strict', 'any'),
    'ordered',
    'Steps one after another (`ordered`), with no other step in between (`strict`), or in `any` order.',
  ),
  exclude: withDefault(
    list('exclusions', Exclusion, 0, 20),
    [],
    'Events that end an entry if they occur between two steps.',
  ),
  ...split,
})

export const Retention = object(
  {
    kind: literal('retention'),
    ...range,
    start: describe(NameOrDefinition, 'The event that puts a user into a cohort.'),
    return: describe(NameOrDefinition, 'The event that counts as a return.'),
    cohort: withDefault(
      choice('first', 'recurring'),
      'first',
      'Whether users join with their first start event ever, or in every unit that has one.',
    ),
    unit: withDefault(choice('day', 'week', 'month'), 'day', 'The length of cohorts and intervals.'),
    mode: withDefault(
      choice('calendar', 'rolling'),
      'calendar',
      'Whether intervals follow the calendar or begin at each user’s own start.',
    ),
    count: withDefault(
      choice('on', 'on_or_after'),
      'on',
      'Whether a return counts in its own interval only, or in all earlier ones, too.',
    ),
    intervals: withDefault(wholeNumber(1, 90), 8, 'How many intervals are shown.'),
  },
  noBreakdown,
)

export const Paths = object(
  {
    kind: literal('paths'),
    ...range,
    start: orNull(NameOrDefinition, 'The event from which to follow paths.'),
    end: orNull(NameOrDefinition, 'The event to which paths lead, instead of `start`.'),
    steps: withDefault(wholeNumber(1, 5), 3, 'How many events to follow.'),
    window: withDefault(Duration, '30m', 'How long a path may take.'),
    limit: withDefault(Limit, 10, 'How many names per step get their own node.'),
  },
  noBreakdown,
)

/** The kinds whose answers have numbers. */
export const COUNTING = { series: Series, funnel: Funnel, retention: Retention, paths: Paths }

const breakdown = withDefault(list('values', anything<Scalar>(), 0, 2), [], 'The breakdown of a line of the answer.')
export const CELLS = {
  series: object({
    series: withDefault(wholeNumber(), 0, 'The number of the series, from 0.'),
    breakdown,
    at: optional(text('must be the time of a point of the answer'), '`at` of a point; without it, the total.'),
  }),
  funnel: object({
    step: describe(wholeNumber(1), 'The number of a step, from 1.'),
    breakdown,
    dropped: withDefault(flag(), false, 'Users who reached the previous step but not this one.'),
  }),
  retention: object({
    cohort: describe(text('must be the date of a cohort of the answer'), 'The date of a cohort.'),
    interval: optional(wholeNumber(), 'The number of an interval, from 0; without it, the whole cohort.'),
  }),
  paths: object({
    step: describe(wholeNumber(), 'The number of a step, from 0.'),
    event: optional(text(), 'The event of a node.'),
    from: optional(text(), 'The event where a link begins.'),
    to: optional(text(), 'The event where a link ends.'),
  }),
}

const page = {
  limit: withDefault(Limit, 50, 'Maximum number of users in a page.'),
  page: withDefault(wholeNumber(1), 1, 'Which page, from 1.'),
}
const kind = literal('users')
/** Schemas of questions about users, by the kind of `of`: the users who make up a number of its answer. */
export const USERS = {
  series: object({ kind, of: Series, cell: CELLS.series, ...page }),
  funnel: object({ kind, of: Funnel, cell: CELLS.funnel, ...page }),
  retention: object({ kind, of: Retention, cell: CELLS.retention, ...page }),
  paths: object({ kind, of: Paths, cell: CELLS.paths, ...page }),
}

export const AnyQuestion = Type.Union([...Object.values(COUNTING), ...Object.values(USERS)])
const anyObject = (description: string) => describe(object({}), description)
/** A shorter schema for language models: the fields of `of` and `cell` are described in words. */
export const AnyQuestionOutline = Type.Union([
  ...Object.values(COUNTING),
  object({
    kind,
    of: anyObject('A question of one of the other kinds.'),
    cell: anyObject('Which number of the answer; the fields depend on its kind.'),
    ...page,
  }),
])

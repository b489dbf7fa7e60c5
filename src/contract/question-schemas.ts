import { type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { INTERVALS, METRICS } from './questions.js'
import { warnings, withFields } from './schemas.js'

/** The shapes of questions and answers for generated clients. Questions are checked by `questions/parse.ts`, which says more. */

const oneOf = (...values: readonly string[]) => Type.Union(values.map((value) => Type.Literal(value)))
const optional = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))
const orNull = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])

const Field = Type.Union([Type.String(), Type.Array(Type.String())], {
  description:
    '`event`, `distinct_id`, `timestamp`, `properties.<name>` or `user.<name>`; an array if a name has a dot in it.',
})
const Filter = Type.Array(Type.Unknown(), {
  description: 'An operator, then a field and a value, or filters: `["is", "properties.plan", ["pro"]]`.',
})
const Event = Type.Union([Type.String(), Type.Array(Type.String())], { description: 'Names; `*` for all.' })
const definition = { event: Event, where: optional(Filter) }
const Definition = Type.Object(definition)
const NameOrDefinition = Type.Union([Type.String(), Definition])
const Time = Type.Union([Type.String(), Type.Number()], {
  description: 'A date, an ISO time or milliseconds since 1970.',
})
const Breakdown = Type.Array(Type.Unknown(), { description: 'A value for each field; `["$other"]` for the rest.' })

const range = {
  from: optional(Time),
  to: optional(Time),
  timezone: optional(Type.String()),
  week_start: optional(oneOf('monday', 'sunday')),
  where: optional(Filter),
}
const limit = optional(Type.Integer({ minimum: 1, maximum: 1000 }))
const split = { breakdown: optional(Type.Array(Field, { maxItems: 2 })), limit }

const Series = Type.Object({
  kind: Type.Literal('series'),
  ...range,
  ...split,
  series: Type.Array(
    Type.Object({
      ...definition,
      metric: optional(oneOf(...METRICS)),
      property: optional(Field),
      p: optional(Type.Number({ minimum: 0, maximum: 100 })),
    }),
    { minItems: 1, maxItems: 10 },
  ),
  interval: optional(oneOf(...INTERVALS)),
  other: optional(Type.Boolean()),
  approximate: optional(Type.Boolean()),
})
const Funnel = Type.Object({
  kind: Type.Literal('funnel'),
  ...range,
  ...split,
  steps: Type.Array(Definition, { minItems: 2, maxItems: 20 }),
  window: optional(Type.String()),
  order: optional(oneOf('ordered', 'strict', 'any')),
  exclude: optional(Type.Array(Type.Object({ ...definition, after: Type.Integer({ minimum: 1 }) }))),
})
const Retention = Type.Object({
  kind: Type.Literal('retention'),
  ...range,
  start: NameOrDefinition,
  return: NameOrDefinition,
  cohort: optional(oneOf('first', 'recurring')),
  unit: optional(oneOf('day', 'week', 'month')),
  mode: optional(oneOf('calendar', 'rolling')),
  count: optional(oneOf('on', 'on_or_after')),
  intervals: optional(Type.Integer({ minimum: 1, maximum: 90 })),
})
const Paths = Type.Object({
  kind: Type.Literal('paths'),
  ...range,
  start: optional(NameOrDefinition),
  end: optional(NameOrDefinition),
  steps: optional(Type.Integer({ minimum: 1, maximum: 5 })),
  window: optional(Type.String()),
  limit,
})
const usersOf = (of: TSchema) =>
  Type.Object({
    kind: Type.Literal('users'),
    of,
    cell: Type.Object(
      {
        series: optional(Type.Integer()),
        at: optional(Type.String()),
        breakdown: optional(Breakdown),
        step: optional(Type.Integer()),
        dropped: optional(Type.Boolean()),
        cohort: optional(Type.String()),
        interval: optional(Type.Integer()),
        event: optional(Type.String()),
        from: optional(Type.String()),
        to: optional(Type.String()),
      },
      { description: 'Which number of the answer: the fields of its kind.' },
    ),
    limit,
    page: optional(Type.Integer({ minimum: 1 })),
  })

const Users = usersOf(Type.Union([Series, Funnel, Retention, Paths]))

export const AnyQuestion = Type.Union([Series, Funnel, Retention, Paths, Users])
/** In half the length: what a question about users is of is described in words. */
export const AnyQuestionBriefly = Type.Union([
  ...[Series, Funnel, Retention, Paths],
  usersOf(Type.Object({}, { additionalProperties: true, description: 'A question of one of the other kinds.' })),
])

const whole = Type.Integer()
const SeriesResults = Type.Array(
  Type.Object({
    series: whole,
    breakdown: Breakdown,
    total: orNull(Type.Number()),
    points: Type.Array(Type.Object({ at: Type.String(), value: orNull(Type.Number()), complete: Type.Boolean() })),
  }),
)
const FunnelResults = Type.Array(
  Type.Object({
    breakdown: Breakdown,
    steps: Type.Array(
      Type.Object({
        users: whole,
        of_first: Type.Number(),
        of_previous: Type.Number(),
        median_ms: orNull(Type.Number()),
        mean_ms: orNull(Type.Number()),
      }),
    ),
    complete: Type.Boolean(),
  }),
)
const RetentionResults = Type.Array(
  Type.Object({
    cohort: Type.String(),
    size: whole,
    cells: Type.Array(Type.Object({ interval: whole, users: whole, complete: Type.Boolean() })),
  }),
)
const PathsResults = Type.Object({
  nodes: Type.Array(Type.Object({ step: whole, event: Type.String(), users: whole })),
  links: Type.Array(Type.Object({ step: whole, from: Type.String(), to: Type.String(), users: whole })),
})
const UsersResults = Type.Object({
  users: Type.Array(Type.String()),
  count: whole,
  page: whole,
  limit: whole,
  hasMore: Type.Boolean(),
})

const answer = <T extends TProperties>(kind: string, results: TSchema, beside: T, question: TSchema) =>
  withFields({
    kind: Type.Literal(kind),
    results,
    ...beside,
    query: { ...question, description: 'The question with every default filled in.' },
    pending: Type.Integer({ description: 'Accepted events that the answer does not count yet.' }),
    elapsed_ms: Type.Integer(),
    warnings,
  })
const averages = Type.Array(Type.Object({ interval: whole, share: orNull(Type.Number()) }))

export const AnyAnswer = Type.Union([
  answer('series', SeriesResults, { approximate: Type.Optional(Type.Literal(true)) }, Series),
  answer('funnel', FunnelResults, {}, Funnel),
  answer('retention', RetentionResults, { averages }, Retention),
  answer('paths', PathsResults, {}, Paths),
  answer('users', UsersResults, {}, Users),
])

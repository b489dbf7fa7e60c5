import { type TSchema, Type } from '@sinclair/typebox'

/** The results of questions. */

const orNull = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])
const whole = Type.Integer()
const complete = Type.Boolean({ description: 'Whether the interval is over.' })
const breakdown = Type.Array(Type.Unknown(), {
  description: 'A value of any JSON type for each field; `["$other"]` for the rest.',
})

export const SeriesPoint = Type.Object({
  at: Type.String({ description: 'The first instant of the bucket in local time, with its offset from UTC.' }),
  value: orNull(Type.Number()),
  complete,
})
export const SeriesLine = Type.Object({
  series: whole,
  breakdown,
  total: orNull(Type.Number()),
  points: Type.Array(SeriesPoint),
})
export const FunnelStep = Type.Object({
  users: whole,
  of_first: Type.Number(),
  of_previous: Type.Number(),
  median_ms: orNull(Type.Number()),
  mean_ms: orNull(Type.Number()),
})
export const FunnelLine = Type.Object({ breakdown, steps: Type.Array(FunnelStep), complete })
export const Cohort = Type.Object({
  cohort: Type.String({ description: 'The local date on which its unit begins.' }),
  size: whole,
  cells: Type.Array(Type.Object({ interval: whole, users: whole, complete })),
})
export const Averages = Type.Array(Type.Object({ interval: whole, share: orNull(Type.Number()) }), {
  description: 'Over the completed cells; null if there are none.',
})
export const PathsResults = Type.Object({
  nodes: Type.Array(Type.Object({ step: whole, event: Type.String(), users: whole })),
  links: Type.Array(Type.Object({ step: whole, from: Type.String(), to: Type.String(), users: whole })),
})
export const UsersPage = Type.Object({
  users: Type.Array(Type.String()),
  count: whole,
  page: whole,
  limit: whole,
  hasMore: Type.Boolean(),
})

import { Kind, type TProperties, Type, TypeRegistry } from '@sinclair/typebox'
import { FORMATS, ROW_FORMATS } from './formats.js'
import { FIRST_DAY, isName, LAST_DAY, MAX_EXPORT, MAX_NAME, MAX_PAGE, MAX_TIMESTAMP } from './limits.js'
import { FIELD_MESSAGE } from './question-schemas.js'
import { Name } from './schemas.js'

const pageNumber = {
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER,
  message: `must be a whole number from 1 to ${Number.MAX_SAFE_INTEGER}`,
  description: 'Which page, from 1.',
}

export const Page = {
  limit: Type.Integer({
    minimum: 1,
    maximum: MAX_PAGE,
    default: 50,
    message: `must be a whole number from 1 to ${MAX_PAGE}`,
    description: 'Maximum number of rows in a page.',
  }),
  page: Type.Integer({ ...pageNumber, default: 1 }),
}

const milliseconds = { minimum: 0, message: 'must be a whole number of milliseconds since 1970' }
const time = (description: string) =>
  Type.Optional(Type.Integer({ ...milliseconds, maximum: Number.MAX_SAFE_INTEGER, description }))

/**
 * The parameters of a read. Unknown ones are refused: a mistyped filter must not return
 * everything.
 */
export const query = <T extends TProperties>(parameters: T) => Type.Object(parameters, { additionalProperties: false })

const eventFilter = {
  event: Type.Optional({ ...Name, description: 'Only events of this name.' }),
  distinct_id: Type.Optional({ ...Name, description: 'Only events of this user.' }),
  from: time('Only events whose `timestamp` is this or later: milliseconds since 1970.'),
  to: time('Only events whose `timestamp` is before this: milliseconds since 1970.'),
  session_id: Type.Optional({ ...Name, description: 'Only events of this session.' }),
}

const visitor = Type.Optional(
  Type.Literal('daily', {
    message: 'must be daily, or absent',
    description:
      'With `daily`, send no `distinct_id`: the service makes one that is the same all day (UTC) for the same address ' +
      'and User-Agent. Later, nobody can tell whose it was. An `insert_id` must be unique in the project, because all ' +
      'these visitors share them. Write and public keys only.',
  }),
)

const timezone = Type.Optional(
  Type.String({
    message: 'must be an IANA time zone, such as Europe/Vienna, or be absent',
    description:
      'The time zone of the browser, such as `Europe/Vienna`, from which the country of the context follows unless ' +
      'something better is known. Counts only with a write or public key.',
  }),
)

/** For an event, and for the calls of a session. Unknown parameters are ignored, like unknown fields of a body. */
export const SendQuery = Type.Object({ visitor, timezone })
/** For a batch of events. */
export const BatchQuery = Type.Object({
  ...SendQuery.properties,
  stored_before: Type.Optional(
    Type.Integer({
      ...milliseconds,
      // Event ids, with which it is compared, have no room for later times.
      maximum: MAX_TIMESTAMP,
      message: `${milliseconds.message}, at most ${MAX_TIMESTAMP}`,
      description:
        'Skips events if an event of the same user with the same `insert_id` was stored before this time (milliseconds since ' +
        '1970), however long ago. `skipped` counts them. Events that were deleted are stored again, once for each such time. ' +
        'Events are refused as too old only if they already were at that time. Secret keys only.',
    }),
  ),
})

export const LiveQuery = query(eventFilter)
/** The headers of a request that resumes a stream. */
export const LiveHeaders = Type.Object({
  'last-event-id': Type.Optional(
    Type.String({
      message: 'must be the id of the last event received from this stream, or be absent',
      description: 'The `id` of the last event received: the stream resumes after it, however old it is.',
    }),
  ),
})
export const EventsQuery = query({
  limit: Page.limit,
  // No default: a page that is requested by its number differs from the first page of a walk.
  page: Type.Optional(Type.Integer({ ...pageNumber, description: 'Which page; 1 if absent.' })),
  cursor: Type.Optional(
    Type.String({
      message: 'must be the `next` of an earlier response',
      description: 'The `next` of an earlier response: resumes after it, in constant time. Use it instead of `page`.',
    }),
  ),
  ...eventFilter,
  order: Type.Optional(
    Type.Union([Type.Literal('asc'), Type.Literal('desc')], {
      message: 'must be asc or desc',
      description:
        'Order of acceptance, `asc`, or newest first, `desc`. If absent, the order of the cursor, else `asc`.',
    }),
  ),
  format: Type.Optional(
    Type.Union(
      FORMATS.map((format) => Type.Literal(format)),
      {
        message: `must be one of ${FORMATS.join(', ')}`,
        description:
          'The format of the response: `json`, the default, with an envelope; `ndjson`, `csv` or `parquet`, rows only. Overrides `Accept`.',
      },
    ),
  ),
})

export const ExportQuery = query({
  format: Type.Optional(
    Type.Union(
      ROW_FORMATS.map((format) => Type.Literal(format)),
      {
        message: `must be one of ${ROW_FORMATS.join(', ')}`,
        description: 'The format of the rows; `ndjson` if absent. Overrides `Accept`.',
      },
    ),
  ),
  cursor: Type.Optional(
    Type.String({
      message: 'must be the `x-next-cursor` of an earlier export, or the `next` of a page in asc order',
      description: 'The `x-next-cursor` of an earlier export. This one starts where that one ended.',
    }),
  ),
  ...eventFilter,
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_EXPORT,
      message: `must be a whole number from 1 to ${MAX_EXPORT}`,
      description: 'Maximum number of rows; all of them if absent.',
    }),
  ),
})

/** Characters of a filter in a URL. Node refuses headers of more than 16 KiB. */
const MAX_FILTER = 8_000

/**
 * A search text may be as long as a name, so that every name can be searched for. An empty one searches for nothing.
 */
TypeRegistry.Set('Search', (_schema, value) => value === '' || isName(value))

const search = (description: string) =>
  Type.Optional(
    Type.Unsafe<string>({
      [Kind]: 'Search',
      type: 'string',
      maxLength: MAX_NAME,
      message: `must be a string of at most ${MAX_NAME} characters`,
      description,
    }),
  )

export const UsersQuery = query({
  ...Page,
  order: Type.Optional(
    Type.Literal('last_seen', {
      message: 'must be last_seen',
      description: 'All users with events or a profile, most recently seen first.',
    }),
  ),
  search: search('Only users with this text, case-insensitively, in their name, an alias or a string property.'),
  where: Type.Optional(
    Type.String({
      maxLength: MAX_FILTER,
      message: `must be a filter as JSON, of at most ${MAX_FILTER} characters`,
      description: 'Only users that match this filter, as JSON, such as `["is","user.plan",["pro"]]`.',
    }),
  ),
})
export const SessionsQuery = query({
  ...Page,
  distinct_id: Type.Optional({ ...Name, description: 'Only sessions of this user.' }),
  state: Type.Optional(
    Type.Union([Type.Literal('active'), Type.Literal('completed')], {
      message: 'must be active or completed',
      description: 'Only sessions in this state.',
    }),
  ),
  from: time('Only sessions whose `started_at` is this or later: milliseconds since 1970.'),
  to: time('Only sessions whose `started_at` is before this: milliseconds since 1970.'),
})
export const PropertiesQuery = query({ event: eventFilter.event })
export const ValuesQuery = query({
  field: Type.String({
    description: 'As in questions, such as `properties.plan`; a name that contains a dot as `["properties","a.b"]`.',
    message: FIELD_MESSAGE,
  }),
  event: eventFilter.event,
  search: search('Only values that contain this text, case-insensitively.'),
  limit: Type.Integer({
    minimum: 1,
    maximum: 1000,
    default: 50,
    message: 'must be a whole number from 1 to 1000',
    description: 'Maximum number of values.',
  }),
})
/** For reads without parameters. */
export const NoQuery = query({})

/** Unknown parameters are ignored, because load balancers and probes send some. */
export const ReadyQuery = Type.Object({
  partial: Type.Optional(
    Type.Union([Type.Literal('true'), Type.Literal('false')], {
      message: 'must be true or false',
      description: 'Whether one lane and one shard of several are enough.',
    }),
  ),
  strict: Type.Optional(
    Type.Union([Type.Literal('true'), Type.Literal('false')], {
      message: 'must be true or false',
      description: 'Whether lost or damaged parts of the store make the service not ready.',
    }),
  ),
})

export const EventParams = Type.Object({ eventId: Type.String() })
export const UserParams = Type.Object({ userId: Type.String() })
export const AliasParams = Type.Object({ userId: Type.String(), alias: Type.String() })
export const SessionParams = Type.Object({ sessionId: Type.String() })

TypeRegistry.Set('Day', (_schema, value) => {
  if (typeof value !== 'string' || !/^\d{4}-\d\d-\d\d$/.test(value) || value < FIRST_DAY || value > LAST_DAY)
    return false
  const ms = Date.parse(value)
  // Some engines take 30 February for 2 March.
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(value)
})

const day = (description: string) =>
  Type.Optional(
    Type.Unsafe<string>({
      [Kind]: 'Day',
      type: 'string',
      format: 'date',
      message: `must be a date such as 2026-11-26, from ${FIRST_DAY} to ${LAST_DAY}`,
      description,
    }),
  )

export const UsageQuery = query({
  from: day('The first day (UTC); default: 30 days before the last one.'),
  to: day('The last day (UTC); default: today.'),
  format: Type.Optional(
    Type.Union([Type.Literal('json'), Type.Literal('csv')], {
      message: 'must be json or csv',
      description: 'Default: json.',
    }),
  ),
})

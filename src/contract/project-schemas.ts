import { Kind, type Static, type TProperties, type TSchema, Type, TypeRegistry } from '@sinclair/typebox'
import { CONTEXT_MODES } from './context.js'
import { type FieldName, splitField } from './filters.js'
import { isName, isTimeZone, UNPRINTABLE } from './limits.js'
import { MAX_PAGE_VIEWS, MAX_PLACES, PAGE_PLACES, type PagePlace } from './page-fields.js'
import {
  FIRST_VIEWS,
  KEEP_PATTERN,
  NAME_QUOTAS,
  NUMBER_FORMATS,
  type ProjectSettings,
  QUOTAS,
  type QuotaName,
  WEEK_STARTS,
} from './project-settings.js'
import { Sessions } from './question-schemas.js'
import type * as responses from './responses.js'
import { apiKey, defineFields, ErasedUsers, milliseconds, Name, optional, withFields } from './schemas.js'

/** The schemas of calls about a project as a whole. */

export const ProjectParams = Type.Object({ project: Name })

const { unreadable_dead_letters, gone_at, purge_error } = ErasedUsers.properties

export const ProjectErased = withFields({
  erased: Type.Object(
    {
      events: Type.Integer(),
      sessions: Type.Integer(),
      profiles: Type.Integer(),
      aliases: Type.Integer(),
      dead_letters: Type.Integer(),
    },
    { description: 'What this call removed.' },
  ),
  complete: Type.Boolean({ description: 'False if the call ended before everything was removed: repeat it.' }),
  unreadable_dead_letters,
  gone_at,
  purge_error,
})
export type ProjectErased = Static<typeof ProjectErased>

export const KeyDescription = withFields({
  key: Type.Object({
    kind: Type.Union([Type.Literal('secret'), Type.Literal('read')]),
    project: Type.String(),
  }),
})

TypeRegistry.Set('TimeZone', (_schema, value) => isTimeZone(value))

/** Characters of a display name. */
const MAX_DISPLAY_NAME = 100

TypeRegistry.Set('DisplayName', (_schema, value) => {
  if (typeof value !== 'string' || value.trim() === '') return false
  return [...value].length <= MAX_DISPLAY_NAME && !UNPRINTABLE.test(value)
})

const CURRENCY = '^[A-Z]{3}$'
const choice = (values: readonly string[]) =>
  Type.Unsafe<never>({
    ...Type.Union(values.map((value) => Type.Literal(value))),
    message: `must be one of ${values.join(', ')}`,
  })
const setting = <T extends TSchema>(schema: T, description: string) =>
  Type.Union([schema, Type.Null()], { message: `${schema.message}, or null for the default`, description })
/** An object with optional fields. The error for an unknown field lists the known ones. */
const partial = <T extends TProperties>(fields: T, description = '') =>
  Type.Partial(Type.Object(fields), {
    additionalProperties: false,
    message: `must be an object with some of ${Object.keys(fields).join(', ')}`,
    description,
  })

const Keep = Type.String({
  pattern: KEEP_PATTERN,
  message: 'must be a number of days, weeks, months or years, such as 90d, 12w, 25m or 2y',
})
const QuotaSchema = Type.Object(
  {
    limit: Type.Integer({
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      message: `must be a whole number from 1 to ${Number.MAX_SAFE_INTEGER}`,
    }),
    mode: Type.Union([Type.Literal('soft'), Type.Literal('hard')], { message: 'must be soft or hard' }),
    locked: optional(
      Type.Literal(true, {
        message: 'must be true',
        description: 'Set by the operator of the service with the command line. No key can change the quota.',
      }),
    ),
  },
  { additionalProperties: false, message: 'must be {"limit": …, "mode": "soft"} or {"limit": …, "mode": "hard"}' },
)
/** See NAME_QUOTAS. */
const NamesQuota = Type.Object(
  { ...QuotaSchema.properties, mode: Type.Literal('soft', { message: 'must be soft: it refuses no events' }) },
  { additionalProperties: false, message: 'must be {"limit": …, "mode": "soft"}' },
)
const QUOTA_MEANS: Record<QuotaName, string> = {
  events_per_day: 'Events accepted on a day (UTC).',
  events_per_month: 'Events accepted in a calendar month (UTC).',
  new_event_names_per_day: 'Names of events that the project did not have before that day (UTC).',
  new_property_names_per_day:
    'Names of properties, at the top level, that the project did not have before that day (UTC), estimated.',
  stored_bytes: 'Bytes that the project has on the disks of ClickHouse, estimated from its share of each part.',
}

/** Maximum number of names in the path to such a property. */
const MAX_PLACE_NAMES = 5

/** Whether a value is a property that a page field can be taken from, written as in questions. */
function isPlace(value: unknown): value is FieldName {
  const parts: unknown = typeof value === 'string' ? splitField(value) : value
  if (!Array.isArray(parts)) return false
  const [source, ...names] = parts
  return source === 'properties' && names.length > 0 && names.length <= MAX_PLACE_NAMES && names.every(isName)
}

const PLACE_MESSAGE =
  'must be a property, such as properties.url, or ["properties", "a.b"] if a name contains a dot; its path has at most ' +
  `${MAX_PLACE_NAMES} names`

TypeRegistry.Set('Place', (_schema, value) => isPlace(value))
const Place = Type.Unsafe<FieldName>({
  [Kind]: 'Place',
  anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' } }],
  message: PLACE_MESSAGE,
})
const Places = Type.Array(Place, {
  maxItems: MAX_PLACES,
  message: `must be a list of at most ${MAX_PLACES} properties`,
})
const PLACES_MEAN: Record<PagePlace, string> = {
  url: 'Properties with the URL of the page.',
  path: 'Properties with its path, for events without a URL.',
  title: 'Properties with its title.',
  referrer: 'Properties with the URL that the visitor came from.',
  source: 'Properties with the source, before `utm_source` in the URL.',
  medium: 'Properties with the medium, before `utm_medium` in the URL.',
  campaign: 'Properties with the campaign, before `utm_campaign` in the URL.',
  term: 'Properties with the term, before `utm_term` in the URL.',
  content: 'Properties with the content, before `utm_content` in the URL.',
}
const SessionsGap = Type.Unsafe<Exclude<ProjectSettings['sessions'], 'id'>>(
  Type.Object(
    {
      gap: Type.String({ message: 'must be a whole number with a unit, such as 30m' }),
      where: Type.Optional(Type.Union([Type.Array(Type.Any()), Type.Null()], { message: 'must be a filter' })),
    },
    { additionalProperties: false, message: 'must be an object such as {"gap": "30m"}' },
  ),
)

const SETTINGS = {
  name: setting(
    Type.Unsafe<string>({
      [Kind]: 'DisplayName',
      type: 'string',
      minLength: 1,
      maxLength: MAX_DISPLAY_NAME,
      message: `must be a string of 1 to ${MAX_DISPLAY_NAME} characters, not only spaces, without control characters`,
    }),
    'A display name; default: the id of the project.',
  ),
  timezone: setting(
    Type.Unsafe<string>({
      [Kind]: 'TimeZone',
      type: 'string',
      message: 'must be an IANA time zone, such as Europe/Vienna',
    }),
    'The time zone of questions that do not name one; default: UTC.',
  ),
  week_start: setting(choice(WEEK_STARTS), 'The first day of weeks; default: monday.'),
  first_view: setting(
    choice(FIRST_VIEWS),
    'The view that the page opens first; default: `web` if the project has page views, or else `overview`.',
  ),
  currency: setting(
    Type.String({ pattern: CURRENCY, message: 'must be an ISO 4217 code, such as EUR' }),
    'The currency of amounts on the page; default: plain numbers.',
  ),
  number_format: setting(choice(NUMBER_FORMATS), 'How the page writes numbers.'),
  context: setting(
    choice(CONTEXT_MODES),
    'How much of the context of events and sessions is stored: `off`, `device` (without the place) or `full`; default: ' +
      'the setting CONTEXT of the service.',
  ),
  sessions: Type.Union([Type.Literal('id'), SessionsGap, Type.Null()], {
    message: `${Sessions.message}, or null for the default`,
    description: 'The definition of sessions for questions without one, written as in a question; default: `id`.',
  }),
  page_views: setting(
    Type.Array(Name, {
      maxItems: MAX_PAGE_VIEWS,
      message: `must be a list of at most ${MAX_PAGE_VIEWS} names of events`,
    }),
    'The names of the events that are page views; default: those that common clients send.',
  ),
  page_fields: setting(
    partial(
      Object.fromEntries(PAGE_PLACES.map((name) => [name, setting(Places, PLACES_MEAN[name])])) as Record<
        PagePlace,
        ReturnType<typeof setting<typeof Places>>
      >,
    ),
    'The properties that each field of a page is taken from: the first one with a text value counts; default: those that ' +
      'common clients send.',
  ),
  keep: setting(
    partial({
      events: setting(Keep, 'Events, by their own time: older ones are refused, hidden and removed.'),
      sessions: setting(Keep, 'Sessions, by the time of their last change.'),
      profiles: setting(Keep, 'Profiles, by the last change, event or session of their user.'),
    }),
    'How long data is kept; default: forever.',
  ),
  quotas: setting(
    partial(
      Object.fromEntries(
        QUOTAS.map((name) => [name, setting(NAME_QUOTAS.includes(name) ? NamesQuota : QuotaSchema, QUOTA_MEANS[name])]),
      ) as Record<QuotaName, ReturnType<typeof setting<typeof QuotaSchema | typeof NamesQuota>>>,
    ),
    'Limits: a soft one warns, a hard one also refuses events; default: none.',
  ),
}

export const SettingsBody = Type.Composite(
  [
    Type.Partial(Type.Object(SETTINGS)),
    Type.Object({
      apiKey,
      dry_run: Type.Optional(
        Type.Union([Type.Boolean(), Type.Null()], {
          message: 'must be true or false',
          description: 'Changes nothing, and adds what would expire.',
        }),
      ),
      revision: Type.Optional(
        Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
          message: 'must be the revision that was read, or absent',
          description: 'The revision that this changes: if another change came first, it is refused.',
        }),
      ),
    }),
  ],
  { additionalProperties: false, message: `must be an object with some of ${Object.keys(SETTINGS).join(', ')}` },
)
export type SettingsBody = Static<typeof SettingsBody>

const Expired = Type.Object(
  defineFields<responses.Expired>({
    count: Type.Integer(),
    from: Type.Union([milliseconds, Type.Null()]),
    to: Type.Union([milliseconds, Type.Null()]),
    bytes: Type.Integer({ description: 'On the disk, estimated; of profiles: 0.' }),
  }),
)

const expired = Type.Optional(
  Type.Object(
    defineFields<NonNullable<responses.ProjectAnswer['expired']>>({
      events: Expired,
      sessions: Expired,
      profiles: Expired,
    }),
    { description: 'Only with `dry_run`: what would expire now.' },
  ),
)

export const ProjectAnswer = withFields({
  project: Type.Unsafe<responses.ProjectAnswer['project']>(
    Type.Object({
      id: Type.String(),
      revision: Type.Integer({ description: 'Counts the changes; 0 before the first.' }),
      updated_at: Type.Integer({ description: 'Epoch ms; 0 before the first change.' }),
      ...(SETTINGS as TProperties),
    }),
  ),
  expired,
})

export const ProjectUsage = withFields(
  defineFields<responses.ProjectUsage>({
    days: Type.Array(
      Type.Object(
        defineFields<responses.UsedOnDay>({
          day: Type.String(),
          events: Type.Integer({ description: 'Accepted events.' }),
          bytes: Type.Integer({ description: 'Their size in bytes, as received.' }),
          stored_bytes: Type.Integer({
            description:
              'Bytes on the disks of ClickHouse, estimated once an hour: the last figure of the day; 0 if there is none.',
          }),
          read_cpu_seconds: Type.Union([Type.Number(), Type.Null()], {
            description:
              'CPU time of ClickHouse for reads; null if it has no `system.query_log`, or its user may not read it.',
          }),
        }),
      ),
      { description: 'Earliest first, without days on which nothing was used.' },
    ),
    stored_bytes: Type.Integer({ description: 'Bytes on the disks of ClickHouse, estimated.' }),
    quotas: Type.Array(
      Type.Object({
        name: Type.String(),
        limit: Type.Integer(),
        mode: Type.Union([Type.Literal('soft'), Type.Literal('hard')]),
        used: Type.Integer(),
      }),
    ),
  }),
)

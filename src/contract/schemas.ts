import { Kind, type Static, type TProperties, type TSchema, Type, TypeRegistry } from '@sinclair/typebox'
import { CONTEXT_TEXTS, type Context, DEVICES } from './context.js'
import {
  isName,
  isTimestamp,
  MAX_BATCH,
  MAX_DELETED_BATCHES,
  MAX_NAME,
  MAX_TIMESTAMP,
  NAME_RULE,
  SECONDS_RANGE,
  TIMESTAMP_RULE,
} from './limits.js'
import * as responses from './responses.js'
import { canLink, isReserved } from './user-names.js'
import { MAX_WARNINGS } from './warning.js'

/** Maximum number of users that one call may erase. */
const MAX_ERASED = 100

TypeRegistry.Set<{ message: string }>('Timestamp', (_schema, value) => isTimestamp(value))
TypeRegistry.Set<{ message: string }>('Name', (_schema, value) => isName(value))

TypeRegistry.Set('UserName', (_schema, value) => isName(value) && !isReserved(value))
TypeRegistry.Set('LinkName', (_schema, value) => isName(value) && canLink(value))

/**
 * For the bodies of calls that delete data or give rights: a mistyped `dry_run` or `events_only` must not be ignored.
 */
export const strict = { additionalProperties: false } as const

export const messages = {
  kind: 'must be one of series, funnel, retention, paths, users',
  object: 'must be an object',
}

const NAME = `A string of 1 to ${MAX_NAME} characters, without unpaired surrogates`
const RESERVED = '$anonymous and names that begin with $group: or $visitor: are reserved'

/** The name of an event or a user. `validation.ts` reports which of its rules a value breaks. */
export const Name = Type.Unsafe<string>({
  [Kind]: 'Name',
  type: 'string',
  minLength: 1,
  maxLength: MAX_NAME,
  message: NAME_RULE,
  description: `${NAME}.`,
})
/** A name that a user can have. */
const UserName = Type.Unsafe<string>({ ...Name, [Kind]: 'UserName', description: `${NAME}; ${RESERVED}.` })
/** A name that can be linked to another name of the same user. */
const LinkName = Type.Unsafe<string>({
  ...Name,
  [Kind]: 'LinkName',
  description: `${NAME}; ${RESERVED}, and placeholders such as null, 0 or anonymous cannot be linked.`,
})
const InsertId = Type.Unsafe<string>({
  ...Name,
  description:
    'Identifies the event: of a user’s events with the same `insert_id`, only the first within 7 days is stored.',
})
const SessionId = Type.Unsafe<string>({ ...Name, description: 'The session that the event belongs to.' })
/** May be absent; null counts as absent. */
export const optional = <T extends TSchema>(schema: T) =>
  Type.Optional(Type.Union([schema, Type.Null()], { message: `${schema.message}, or absent` }))

const contextText = (description: string) => optional(Type.Unsafe<string>({ ...Name, description }))
/** Like `Context`. */
const contextFields = {
  browser: contextText('Its name, such as `Chrome`.'),
  browser_version: contextText('Its version, at most two numbers, such as `131` or `17.5`.'),
  os: contextText('The operating system, such as `Windows`.'),
  os_version: contextText('Its version, at most two numbers, such as `10` or `10.15`.'),
  device: optional(
    Type.Union(
      DEVICES.map((device) => Type.Literal(device)),
      { message: `must be one of ${DEVICES.join(', ')}`, description: 'The kind of device.' },
    ),
  ),
  country: optional(
    Type.String({
      pattern: '^[A-Z]{2}$',
      message: 'must be two capital letters, as in ISO 3166-1',
      description: 'ISO 3166-1, such as `AT`.',
    }),
  ),
  region: contextText('The part of the country, such as `Vienna`.'),
  city: contextText('The city.'),
  language: contextText('The first language of the browser, such as `de-AT`.'),
  bot: optional(Type.Boolean({ message: 'must be true or false', description: 'Whether a bot sent it.' })),
}
const GivenContext = Type.Object(contextFields, {
  title: 'Context',
  additionalProperties: false,
  message: messages.object,
  description: 'The context from an earlier export. It needs a secret key; with any other key it is ignored.',
})
/** Part of an event: the context that the caller gives. */
export const EventContext = Type.Object({ context: optional(GivenContext) }, { message: messages.object })
/** The same part of a batch. */
export const BatchContexts = Type.Object({ events: Type.Array(EventContext) }, { message: messages.object })
const Properties = Type.Object({}, { additionalProperties: true, message: messages.object })
const Timestamp = Type.Unsafe<number>({
  [Kind]: 'Timestamp',
  type: 'number',
  minimum: 0,
  maximum: MAX_TIMESTAMP,
  not: { minimum: SECONDS_RANGE.from, maximum: SECONDS_RANGE.to },
  message: TIMESTAMP_RULE,
  description: `Milliseconds since 1970, from 0 to ${MAX_TIMESTAMP}, but not from ${SECONDS_RANGE.from} to ${SECONDS_RANGE.to}, which looks like seconds.`,
})

/** Checked by the authentication, before anything else. */
export const apiKey = Type.Optional(Type.Unknown({ description: 'The key, unless it is in the header x-api-key.' }))

const Event = Type.Object(
  {
    event: Name,
    distinct_id: Name,
    properties: optional(Properties),
    timestamp: optional(Timestamp),
    insert_id: optional(InsertId),
    session_id: optional(SessionId),
    // Only for the documentation. The routes check it, because whether it counts depends on the key.
    context: Type.Optional(Type.Any({ anyOf: [GivenContext, Type.Null()] })),
  },
  { message: messages.object },
)

/** The names of the fields of a sent event. */
export const EVENT_FIELDS: readonly string[] = Object.keys(Event.properties)

export const TrackBody = Type.Composite([Type.Object({ apiKey }), Event], { message: messages.object })

export const BatchBody = Type.Object(
  {
    apiKey,
    events: Type.Array(Event, {
      minItems: 1,
      maxItems: MAX_BATCH,
      message: `must be an array of 1 to ${MAX_BATCH} events`,
    }),
  },
  { message: messages.object },
)

export const IdentifyBody = Type.Object(
  { apiKey, distinct_id: UserName, properties: optional(Properties) },
  { message: messages.object },
)

export const AliasBody = Type.Object({ apiKey, distinct_id: LinkName, alias: LinkName }, { message: messages.object })

/** Only for the documentation: `parseOperations` checks the operations while it reads their text. */
const operation = (description: string, operands: object | true = true) =>
  Type.Optional(Type.Any({ type: ['object', 'null'], additionalProperties: operands, description }))

const Operations = Type.Object(
  {
    $set: operation('Sets each property.'),
    $add: operation('Adds to each number; a missing one counts as 0.', { type: 'number' }),
    $append: operation('Appends the value to each array; a missing one counts as empty.'),
    $set_once: operation('Sets each property that is missing.'),
    $unset: Type.Optional(
      Type.Any({ type: ['array', 'null'], items: { type: 'string' }, description: 'Removes the named properties.' }),
    ),
    $prepend: operation('Prepends the value to each array; a missing one counts as empty.'),
    $union: operation('Appends to each array the values that it does not contain.', { type: 'array', items: {} }),
    $remove: operation('Removes the value from each array.'),
  },
  { message: messages.object, description: 'At least one; applied in this order, all or none.' },
)

export const ProfileBody = Type.Object(
  { apiKey, distinct_id: UserName, operations: Operations },
  { message: messages.object },
)

/** Only for the documentation: each change is checked separately, so that an invalid one does not affect the others. */
const Change = Type.Any({
  anyOf: [
    {
      type: 'object',
      required: ['distinct_id'],
      description: 'Changes a profile: `operations`, `identified`, or both.',
      properties: {
        distinct_id: { type: 'string', minLength: 1, maxLength: MAX_NAME },
        operations: {
          type: ['object', 'array', 'null'],
          description: 'As `/public/users/profile` takes them; several are applied one after another.',
        },
        clear: { type: ['boolean', 'null'], description: 'Whether all properties are removed first.' },
        identified: { type: ['boolean', 'null'], description: 'Whether the user was identified under this name.' },
        timestamp: {
          type: ['number', 'null'],
          description: 'When the change was made: later changes stay. The time of the call if absent.',
        },
        insert_id: { type: ['string', 'null'], description: 'Identifies the change: it is made once within 7 days.' },
      },
    },
    {
      type: 'object',
      required: ['distinct_id', 'alias'],
      description: 'Makes a name another name of a user.',
      properties: {
        distinct_id: { type: 'string', minLength: 1, maxLength: MAX_NAME },
        alias: { type: 'string', minLength: 1, maxLength: MAX_NAME },
        merge: {
          type: ['boolean', 'null'],
          description: 'Whether the alias may be a user who was identified, or has other names.',
        },
      },
    },
    {
      type: 'object',
      required: ['distinct_id', 'delete'],
      description: 'Deletes a profile.',
      properties: { distinct_id: { type: 'string' }, delete: { const: true } },
    },
  ],
})

export const ChangesBody = Type.Object(
  {
    apiKey,
    changes: Type.Array(Change, {
      minItems: 1,
      maxItems: MAX_BATCH,
      message: `must be an array of 1 to ${MAX_BATCH} changes`,
    }),
  },
  { message: messages.object },
)

export const EraseBody = Type.Object(
  {
    apiKey,
    distinct_ids: Type.Array(UserName, {
      minItems: 1,
      maxItems: MAX_ERASED,
      message: `must be an array of 1 to ${MAX_ERASED} distinct_ids`,
    }),
  },
  { ...strict, message: messages.object },
)

export const SessionBody = Type.Object(
  {
    apiKey,
    distinct_id: Name,
    session_id: Name,
    properties: optional(Properties),
    duration: Type.Optional(
      Type.Unknown({ description: "If a number, the session's duration, in the client's unit." }),
    ),
  },
  { message: messages.object },
)

export const SessionEndBody = Type.Object({ apiKey, distinct_id: Name, session_id: Name }, { message: messages.object })

export const DeleteBatchesBody = Type.Object(
  {
    apiKey,
    batches: Type.Array(
      Type.String({ pattern: '^[0-9a-f]{24}$', message: 'must be an id from the header x-batch-ids of a batch' }),
      {
        minItems: 1,
        maxItems: MAX_DELETED_BATCHES,
        message: `must be an array of 1 to ${MAX_DELETED_BATCHES} ids from the header x-batch-ids of batches`,
      },
    ),
    dry_run: optional(
      Type.Boolean({ description: 'Only counts the events, and deletes nothing.', message: 'must be true or false' }),
    ),
  },
  { ...strict, message: messages.object },
)

export const EditBody = Type.Object({ apiKey, properties: Properties }, { message: messages.object })

/** The other fields of a question depend on its kind, and are checked when it is parsed. */
export const QuestionBody = Type.Object(
  {
    apiKey,
    kind: Type.Unknown({ description: 'One of series, funnel, retention, paths, users.', message: messages.kind }),
  },
  { additionalProperties: true, message: messages.object },
)

const success = { status: Type.Literal(1), error: Type.Null() }

/** The response of a successful call with additional fields. */
export const withFields = <T extends TProperties>(fields: T) => Type.Object({ ...success, ...fields })

export const Done = Type.Object(success)

export const warnings = Type.Optional(
  Type.Array(
    Type.Object({
      path: Type.String({ description: 'A JSON pointer into the request.' }),
      message: Type.String(),
      suggestion: Type.Optional(
        Type.Unknown({ description: 'What was probably meant: the value to put at `path` instead.' }),
      ),
    }),
    {
      maxItems: MAX_WARNINGS,
      description: 'Likely mistakes that are not errors; absent if there are none.',
    },
  ),
)
/** The response of a successful call that may have warnings. */
export const DoneOrWarned = withFields({ warnings })
export const Changed = withFields({
  accepted: Type.Integer(),
  rejected: Type.Array(Type.Object({ index: Type.Integer(), message: Type.String() }), {
    description: 'The refused changes; all others were made.',
  }),
})
export const DeletedBatches = withFields({
  events: Type.Integer({ description: 'How many events were deleted, or would be with `dry_run`.' }),
  with_insert_id: Type.Integer({ description: 'How many of them have an `insert_id`.' }),
})
export const Accepted = withFields({
  accepted: Type.Integer(),
  skipped: Type.Optional(Type.Integer({ description: 'Only with `stored_before`: events that were already stored.' })),
  warnings,
})

/**
 * A schema for each field of T: one that is missing, unknown or of another type does not compile.
 */
type FieldsOf<T> = { [Name in keyof T]: TSchema & { static: T[Name] } }

export const defineFields = <T>(fields: FieldsOf<T>) => fields
export const milliseconds = Type.Number({ description: 'Milliseconds since 1970.' })
export const anyProperties = (description?: string) =>
  Type.Unsafe<responses.Properties>(
    Type.Object({}, { additionalProperties: true, ...(description && { description }) }),
  )

const StoredContext = Type.Optional(
  Type.Unsafe<Context>({
    ...Type.Object({
      ...Object.fromEntries(CONTEXT_TEXTS.map((field) => [field, Type.Optional(Type.String())])),
      bot: Type.Optional(Type.Boolean({ description: 'Absent unless it is a bot.' })),
    }),
    description: 'What the request said about its sender; absent if it said nothing.',
  }),
)
const StoredEvent = Type.Object(
  defineFields<responses.StoredEvent>({
    eventId: Type.String({ format: 'uuid' }),
    event: Type.String(),
    distinct_id: Type.String(),
    properties: anyProperties('Exactly the text that was sent.'),
    timestamp: milliseconds,
    insert_id: Type.Optional(Type.String({ description: 'The id that was sent; absent if there was none.' })),
    session_id: Type.Optional(Type.String({ description: 'The session that was sent; absent if there was none.' })),
    context: StoredContext,
  }),
)
const User = Type.Object(
  defineFields<responses.User>({
    distinct_id: Type.String(),
    properties: anyProperties(),
    created_at: milliseconds,
    updated_at: milliseconds,
  }),
)
export const ListedUser = Type.Object({
  distinct_id: Type.String(),
  properties: anyProperties('Of the profile; none without one.'),
  created_at: Type.Union([milliseconds, Type.Null()], { description: 'Null without a profile.' }),
  updated_at: Type.Union([milliseconds, Type.Null()], { description: 'Null without a profile.' }),
  last_seen: Type.Optional(
    Type.Union([milliseconds, Type.Null()], {
      description: 'The time of the latest event; null without events. Absent in a list of profiles.',
    }),
  ),
})
export type ListedUser = Static<typeof ListedUser>
const Session = Type.Object(
  defineFields<responses.Session>({
    session_id: Type.String(),
    distinct_id: Type.String(),
    state: Type.Union([Type.Literal('active'), Type.Literal('completed')]),
    properties: anyProperties(),
    duration: Type.Number({ description: 'In the client’s unit; in seconds if the client never sent one.' }),
    started_at: milliseconds,
    updated_at: milliseconds,
    ended_at: Type.Union([milliseconds, Type.Null()]),
    context: StoredContext,
  }),
)
export const ErasedUser = Type.Object({
  distinct_id: Type.String(),
  profile: Type.Boolean({ description: 'Whether there was a profile.' }),
  events: Type.Integer(),
  sessions: Type.Integer(),
  dead_letters: Type.Integer(),
})
export type ErasedUser = Static<typeof ErasedUser>
export const numbered = { page: Type.Integer(), limit: Type.Integer(), hasMore: Type.Boolean() }

export const OneEvent = withFields({ event: StoredEvent })
export const EventPage = withFields(
  defineFields<responses.EventPage>({
    events: Type.Array(StoredEvent),
    ...numbered,
    next: Type.Union([Type.String(), Type.Null()]),
    pending: Type.Integer(),
  }),
)
const sampled = Type.Integer({
  description:
    'How many events were sampled: the newest, at most 20 000; for the first list of a large project, at most 1000.',
})
const shareField = (what: string) => Type.Number({ minimum: 0, maximum: 1, description: `${what}, from 0 to 1.` })
const EventName = Type.Object(
  defineFields<responses.EventName>({
    event: Type.String(),
    count: Type.Integer(),
    first_seen: milliseconds,
    last_seen: milliseconds,
  }),
)
const PropertyName = Type.Object(
  defineFields<responses.PropertyName>({
    property: Type.String(),
    share: shareField('Share of the events that have it'),
    types: Type.Array(
      Type.Object({
        type: Type.Union(responses.PROPERTY_TYPES.map((type) => Type.Literal(type))),
        share: shareField('Share of its values that are of this type'),
      }),
    ),
    examples: Type.Array(Type.Unknown(), { maxItems: 5 }),
    properties: Type.Optional(
      Type.Array(Type.Unsafe<responses.PropertyName>(Type.Object({}, { additionalProperties: true })), {
        description: 'The properties within it, if it is an object, in the same form, up to four levels deep.',
      }),
    ),
  }),
)
export const EventNames = withFields(
  defineFields<responses.EventNames>({ events: Type.Array(EventName), pending: Type.Integer() }),
)
export const PropertyNames = withFields(
  defineFields<responses.PropertyNames>({
    properties: Type.Array(PropertyName),
    fields: Type.Array(Type.String(), {
      description: 'The other fields of events: of their page, context and session.',
    }),
    sampled,
    pending: Type.Integer(),
    warnings,
  }),
)
export const FieldValues = withFields(
  defineFields<responses.FieldValues>({
    values: Type.Array(Type.Object({ value: Type.Unknown(), count: Type.Integer() })),
    sampled,
    pending: Type.Integer(),
    warnings,
  }),
)
export const OneUser = withFields({ user: User })
export const UserPage = withFields({ users: Type.Array(ListedUser), ...numbered, warnings })
export const UserAliases = withFields({
  distinct_id: Type.String({ description: 'The user’s own, even if an alias was requested.' }),
  aliases: Type.Array(Type.String(), { maxItems: 1000 }),
  hasMore: Type.Boolean(),
})
export type UserAliases = Static<typeof UserAliases>
export const OneSession = withFields({ session: Session })
export const SessionPage = withFields(
  defineFields<responses.SessionPage>({ sessions: Type.Array(Session), ...numbered }),
)
export const ErasedUsers = withFields({
  erased: Type.Array(ErasedUser),
  unreadable_dead_letters: Type.Integer({
    description: 'Dead letters that name one of them but cannot be read; they are left as they are.',
  }),
  gone_at: Type.Union([milliseconds, Type.Null()], {
    description: 'When the data had left the disk, in milliseconds since 1970; null if it is still there.',
  }),
  purge_error: Type.Union([Type.String(), Type.Null()], {
    description: 'Why the purge currently fails; null if it does not.',
  }),
})
export type ErasedUsers = Static<typeof ErasedUsers>

const ready = Type.Literal('ready')
const readyByNumber = (what: string) =>
  Type.Optional(Type.Record(Type.String(), ready, { description: `Each ${what} by its number, if there are several.` }))
export const Ready = withFields({
  journal: ready,
  store: ready,
  lanes: readyByNumber('lane'),
  shards: readyByNumber('shard'),
})

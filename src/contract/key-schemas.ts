import { type Static, Type } from '@sinclair/typebox'
import { MAX_KEY_LABEL } from './limits.js'
import { Page, query } from './query-schemas.js'
import { apiKey, messages, milliseconds, numbered, optional, strict, withFields } from './schemas.js'

/** The schemas of the calls about the keys of a project, and of its audit log. */

const Kind = Type.Union([Type.Literal('secret'), Type.Literal('public'), Type.Literal('write'), Type.Literal('read')], {
  message: 'must be secret, public, write or read',
})
const fields = {
  label: optional(
    Type.String({
      message: 'must be a string',
      description: `What people call the key: at most ${MAX_KEY_LABEL} characters.`,
    }),
  ),
  origins: optional(
    Type.Array(Type.String({ message: 'must be a string' }), {
      message: 'must be an array of origins',
      description: 'Of a write or public key: only pages of these origins may use it.',
    }),
  ),
  events_only: optional(
    Type.Boolean({
      message: 'must be true or false',
      description: 'Of a write key: whether it may only send events and make session calls.',
    }),
  ),
}

const object = { ...strict, message: messages.object }
export const CreateKeyBody = Type.Object({ apiKey, kind: Kind, ...fields }, object)
export const ChangeKeyBody = Type.Object({ apiKey, ...fields }, object)
export const RotateKeyBody = Type.Object(
  {
    apiKey,
    grace: optional(
      Type.String({
        message: 'must be a duration such as 24h',
        description:
          'How long the old key stays valid, such as `30m`, `24h` or `7d`, or `0`; at most `365d`. Default: `24h`.',
      }),
    ),
  },
  object,
)
export const KeyParams = Type.Object({ keyId: Type.String() })

const day = Type.Union([Type.String(), Type.Null()], { description: 'A day in UTC; null for never.' })
const time = (description: string) => Type.Union([Type.Number(), Type.Null()], { description })
export const ListedKey = Type.Object({
  id: Type.String({ description: 'The first characters of the key, or the name of the setting that has it.' }),
  kind: Kind,
  label: Type.String(),
  origins: Type.Array(Type.String()),
  events_only: Type.Boolean(),
  source: Type.Union([Type.Literal('store'), Type.Literal('environment')], {
    description: 'Keys of the environment are changed in the settings of the service.',
  }),
  state: Type.Union([Type.Literal('valid'), Type.Literal('ending'), Type.Literal('revoked')], {
    description: '`ending`: it was replaced, and works until `revoked_at`.',
  }),
  created_at: time('Milliseconds since 1970; null for a key of the environment.'),
  revoked_at: time('When it stops or stopped working, in milliseconds since 1970.'),
  last_used: day,
  refused: Type.Integer({
    description: 'How many of its requests were refused because the key was not allowed to make them.',
  }),
  last_refused: day,
  current: Type.Boolean({ description: 'Whether this call was made with the key.' }),
})
export type ListedKey = Static<typeof ListedKey>
const Text = Type.String({ description: 'The key itself. No other call returns it.' })

export const Keys = withFields({ keys: Type.Array(ListedKey) })
export const OneKey = withFields({ key: ListedKey })
export const CreatedKey = withFields({ apiKey: Text, key: ListedKey })
export type CreatedKey = Static<typeof CreatedKey>
export const RotatedKey = withFields({ apiKey: Text, key: ListedKey, replaced: ListedKey })
export type RotatedKey = Static<typeof RotatedKey>

/** Entries of a page of the audit log. */
const MAX_ENTRIES = 1000
export const AuditQuery = query({
  limit: { ...Page.limit, maximum: MAX_ENTRIES, message: `must be a whole number from 1 to ${MAX_ENTRIES}` },
  page: Page.page,
})

const textOrNull = Type.Union([Type.String(), Type.Null()])
export const AuditLogEntry = Type.Object({
  at: milliseconds,
  actor: Type.Object(
    {
      type: Type.Union([Type.Literal('key'), Type.Literal('command_line'), Type.Literal('service')]),
      id: textOrNull,
      label: textOrNull,
    },
    {
      description:
        'The key that made the change, with the label that it had then. The service itself makes the first keys.',
    },
  ),
  action: Type.String({
    description:
      '`key_created`, `key_changed`, `key_rotated`, `key_revoked`, `project_changed`, `project_erased`, `users_erased`, ' +
      '`batches_deleted`, `facts_left_out` or `facts_taken_in`; there will be others.',
  }),
  target: Type.Union([Type.Object({ id: Type.String(), label: Type.String() }), Type.Null()], {
    description: 'What was changed, with the label that it had before.',
  }),
  changes: Type.Record(Type.String(), Type.Object({ from: Type.Unknown(), to: Type.Unknown() }), {
    description: 'The old and the new value of each field.',
  }),
})
export type AuditLogEntry = Static<typeof AuditLogEntry>
export const AuditLogPage = withFields({ entries: Type.Array(AuditLogEntry), ...numbered })
export type AuditLogPage = Static<typeof AuditLogPage>

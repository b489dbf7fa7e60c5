import { DAY_MS } from '../contract/durations.js'
import {
  AuditLogPage,
  AuditQuery,
  ChangeKeyBody,
  CreatedKey,
  CreateKeyBody,
  KeyParams,
  Keys,
  OneKey,
  RotatedKey,
  RotateKeyBody,
} from '../contract/key-schemas.js'
import { NoQuery } from '../contract/query-schemas.js'
import { Done } from '../contract/schemas.js'
import { describeCalls, EXAMPLE_TIME } from '../http/openapi/description.js'

const KEY_ID = 'wk_Ab3dE9xY'
const key = {
  id: KEY_ID,
  kind: 'write',
  label: 'Shop',
  origins: ['https://shop.example'],
  events_only: true,
  source: 'store',
  state: 'valid',
  created_at: EXAMPLE_TIME,
  revoked_at: null,
  last_used: '2024-12-10',
  refused: 0,
  last_refused: null,
  current: false,
}
const limits = { label: 'Shop', origins: ['https://shop.example'], events_only: true }
const TEXT = `${KEY_ID}…`
const SHOWN = '`apiKey` is the key itself: store it now, because only its hash is kept.'

export const CALLS = describeCalls('Keys', {
  listKeys: {
    schema: { querystring: NoQuery },
    config: { access: 'manage' },
    summary: 'List the keys of the project, by age',
    description:
      'At most 1000 keys, including revoked ones. A key is identified by its first characters, or by the setting of the service that ' +
      'contains it. Each process stores the use of keys once a minute.',
    response: { schema: Keys, example: { keys: [key] } },
  },
  createKey: {
    schema: { querystring: NoQuery, body: CreateKeyBody },
    summary: 'Create a key',
    description: `${SHOWN} A repeated call creates another key.`,
    example: { kind: 'write', ...limits },
    response: { schema: CreatedKey, example: { apiKey: TEXT, key: { ...key, last_used: null } } },
    errors: ['key_conflict'],
  },
  rotateKey: {
    schema: { params: KeyParams, querystring: NoQuery, body: RotateKeyBody },
    summary: 'Replace a key with a new one of the same kind, label and limits',
    description: `The old key works until \`grace\` has passed, so that clients can switch without a gap. ${SHOWN}`,
    parameters: { keyId: KEY_ID },
    example: { grace: '24h' },
    response: {
      schema: RotatedKey,
      example: {
        apiKey: TEXT,
        key: { ...key, last_used: null },
        replaced: { ...key, state: 'ending', revoked_at: EXAMPLE_TIME + DAY_MS },
      },
    },
    errors: ['not_found', 'key_conflict'],
  },
  changeKey: {
    schema: { params: KeyParams, querystring: NoQuery, body: ChangeKeyBody },
    summary: 'Change the label and the limits of a key',
    description: 'A field that is absent stays as it is. Every process knows the change within seconds.',
    parameters: { keyId: KEY_ID },
    example: limits,
    response: { schema: OneKey, example: { key } },
    errors: ['not_found', 'key_conflict'],
  },
  revokeKey: {
    schema: { params: KeyParams, querystring: NoQuery },
    summary: 'Revoke a key',
    description: 'Every process refuses it within 10 s. The last secret key of a project can only be rotated.',
    parameters: { keyId: KEY_ID },
    response: { schema: Done },
    errors: ['not_found', 'key_conflict'],
  },
  readAuditLog: {
    schema: { querystring: AuditQuery },
    config: { access: 'manage' },
    summary: 'Read who changed what in the project, newest first',
    description:
      'Changes of keys and settings, erasures of users and of the whole project, and deletions of batches, whether by the API, ' +
      'the page or the command line; there will be others. Entries are kept for a year.',
    parameters: { limit: 10, page: 1 },
    response: {
      schema: AuditLogPage,
      example: {
        entries: [
          {
            at: EXAMPLE_TIME,
            actor: { type: 'key', id: 'sk_Qm4tR7vZ', label: 'Laptop' },
            action: 'key_changed',
            target: { id: KEY_ID, label: 'Shop' },
            changes: { events_only: { from: false, to: true } },
          },
        ],
        page: 1,
        limit: 10,
        hasMore: false,
      },
    },
  },
})

import { AuditLog, CreatedKey, Keys, OneKey, RotatedKey } from '../../contract/key-schemas.js'
import { Done } from '../../contract/schemas.js'
import type { Call } from './call.js'

const KEY_ID = 'wk_Ab3dE9xY'
const DAY_MS = 1_733_788_800_000

const success = { status: 1, error: null }
const key = {
  id: KEY_ID,
  kind: 'write',
  label: 'Shop',
  origins: ['https://shop.example'],
  events_only: true,
  source: 'store',
  state: 'valid',
  created_at: DAY_MS,
  revoked_at: null,
  last_used: '2024-12-10',
  refused: 0,
  last_refused: null,
  current: false,
}
const limits = { label: 'Shop', origins: ['https://shop.example'], events_only: true }
const TEXT = `${KEY_ID}…`
const SHOWN = '`apiKey` is the key itself: store it now, because only its hash is kept.'

/** The calls about the keys of a project, by method and path. */
export const KEY_CALLS: Record<string, Call> = {
  'GET /public/keys': {
    id: 'listKeys',
    tag: 'Keys',
    summary: 'List the keys of the project, by age',
    description:
      'Revoked ones included, at most 1000 keys. A key is named by its first characters, or by the setting of the service that ' +
      'has it. Each process stores the use of keys once a minute.',
    access: 'manage',
    response: { schema: Keys, example: { ...success, keys: [key] } },
    errors: ['invalid_request'],
  },
  'POST /public/keys': {
    id: 'createKey',
    tag: 'Keys',
    summary: 'Create a key',
    description: `${SHOWN} A repeated call creates another key.`,
    access: 'manage',
    example: { kind: 'write', ...limits },
    response: {
      schema: CreatedKey,
      example: { ...success, apiKey: TEXT, key: { ...key, last_used: null } },
    },
    errors: ['key_conflict'],
  },
  'POST /public/keys/:keyId/rotate': {
    id: 'rotateKey',
    tag: 'Keys',
    summary: 'Replace a key with a new one of the same kind, label and limits',
    description: `The old key works until \`grace\` has passed, so that clients can switch without a gap. ${SHOWN}`,
    access: 'manage',
    parameters: { keyId: KEY_ID },
    example: { grace: '24h' },
    response: {
      schema: RotatedKey,
      example: {
        ...success,
        apiKey: TEXT,
        key: { ...key, last_used: null },
        replaced: { ...key, state: 'ending', revoked_at: DAY_MS + 86_400_000 },
      },
    },
    errors: ['not_found', 'key_conflict'],
  },
  'PATCH /public/keys/:keyId': {
    id: 'changeKey',
    tag: 'Keys',
    summary: 'Change the label and the limits of a key',
    description: 'A field that is absent stays as it is. Every process knows the change within seconds.',
    access: 'manage',
    parameters: { keyId: KEY_ID },
    example: limits,
    response: { schema: OneKey, example: { ...success, key } },
    errors: ['not_found', 'key_conflict'],
  },
  'DELETE /public/keys/:keyId': {
    id: 'revokeKey',
    tag: 'Keys',
    summary: 'Revoke a key',
    description: 'Every process refuses it within 10 s. The last secret key of a project can only be rotated.',
    access: 'manage',
    parameters: { keyId: KEY_ID },
    response: { schema: Done, example: success },
    errors: ['invalid_request', 'not_found', 'key_conflict'],
  },
  'GET /public/audit': {
    id: 'readAuditLog',
    tag: 'Keys',
    summary: 'Read who changed what in the project, newest first',
    description:
      'Changes of keys, whether by the API, the page or the command line; there will be others. Entries are kept for a year.',
    access: 'manage',
    parameters: { limit: 10, page: 1 },
    response: {
      schema: AuditLog,
      example: {
        ...success,
        entries: [
          {
            at: DAY_MS,
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
    errors: ['invalid_request'],
  },
}

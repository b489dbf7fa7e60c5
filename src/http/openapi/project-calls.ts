import { ForgottenIds, RememberedIds } from '../../contract/id-schemas.js'
import { KeyDescription, ProjectAnswer, ProjectErased, ProjectUsage } from '../../contract/project-schemas.js'
import { DEFAULT_SETTINGS } from '../../contract/project-settings.js'
import type { Call } from './call.js'

const settings = { ...DEFAULT_SETTINGS, name: 'Shop', timezone: 'Europe/Vienna', currency: 'EUR' }
const example = {
  status: 1,
  error: null,
  project: { id: 'shop', ...settings, revision: 3, updated_at: 1_733_788_800_000 },
}

/** The calls about a project as a whole, by method and path. */
export const PROJECT_CALLS: Record<string, Call> = {
  'GET /public/key': {
    id: 'describeKey',
    tag: 'Operation',
    summary: 'Find out whether a key is accepted',
    description:
      'The kind of the key, and its project. It reads and changes nothing. Commands call it first, to find out whether the ' +
      'service is there and accepts their key.',
    access: 'read',
    response: {
      schema: KeyDescription,
      example: { status: 1, error: null, key: { kind: 'secret', project: 'default' } },
    },
    errors: ['invalid_request'],
  },
  'GET /public/project': {
    id: 'readProject',
    tag: 'Operation',
    summary: 'Read the settings of the project',
    description: 'Every setting of the key’s project, defaults included.',
    access: 'read',
    response: { schema: ProjectAnswer, example },
    errors: ['invalid_request'],
  },
  'PATCH /public/project': {
    id: 'changeProject',
    tag: 'Operation',
    summary: 'Change settings of the project',
    description:
      'What is absent stays, and null sets the default, also within `page_fields`, `keep` and `quotas`. Every process knows a change within ' +
      'some 5 s. A shorter `keep` hides what is older immediately and removes it from the disk within a day: it cannot be ' +
      'brought back. `dry_run` changes nothing, and counts what would expire.',
    access: 'manage',
    example: { timezone: 'Europe/Vienna', keep: { events: '25m' } },
    response: { schema: ProjectAnswer, example },
    errors: ['invalid_request', 'revision_conflict'],
  },
  'GET /public/usage': {
    id: 'readUsage',
    tag: 'Operation',
    summary: 'Read what the project has used, by day',
    description:
      'Events and bytes as they were accepted, and the time that the store worked on reads; as JSON with the quotas, or as CSV. ' +
      'What other processes counted in the last seconds is missing.',
    access: 'read',
    response: {
      schema: ProjectUsage,
      example: {
        status: 1,
        error: null,
        days: [{ day: '2026-11-25', events: 120_000, bytes: 24_000_000, read_seconds: 3.2 }],
        stored_bytes: 9_000_000,
        quotas: [{ name: 'events_per_month', limit: 10_000_000, mode: 'soft', used: 2_400_000 }],
      },
    },
    errors: ['invalid_request'],
  },
  'GET /public/ids': {
    id: 'countIds',
    tag: 'Operation',
    summary: 'Find out how many insert_ids of the project are remembered',
    description:
      'By kind of key and lane. If more arrived than `MAX_INSERT_IDS`, the oldest were forgotten before their seven days: all ' +
      'ids sent since `since` are remembered.',
    access: 'manage',
    response: {
      schema: RememberedIds,
      example: {
        status: 1,
        error: null,
        ids: [
          { kind: 'page', lane: 0, ids: 4_200_000, since: 1_733_788_800_000 },
          { kind: 'secret', lane: 0, ids: 12_000, since: null },
        ],
      },
    },
    errors: ['invalid_request'],
  },
  'DELETE /public/ids': {
    id: 'forgetIds',
    tag: 'Operation',
    summary: 'Forget the insert_ids of the project',
    description:
      'All, or those that came with one `kind` of key. An event that is sent again afterwards is stored again. It works while the ' +
      'journal is full, and frees what the ids took before it responds.',
    access: 'manage',
    response: { schema: ForgottenIds, example: { status: 1, error: null, forgotten: 4_200_000 } },
    errors: ['invalid_request'],
  },
  'DELETE /public/projects/:project': {
    id: 'eraseProject',
    tag: 'Users',
    summary: 'Erase everything of the key’s project except its keys and its usage',
    description:
      'Events, sessions, profiles, aliases, dead letters, saved questions, boards and, once `complete`, the settings. A call works for some 20 s; while `complete` is ' +
      'false, repeat it. `gone_at` and `purge_error` are as for erased users.',
    access: 'manage',
    parameters: { project: 'default' },
    response: {
      schema: ProjectErased,
      example: {
        status: 1,
        error: null,
        erased: { events: 20_000, sessions: 0, profiles: 420, aliases: 420, dead_letters: 0 },
        complete: true,
        unreadable_dead_letters: 0,
        gone_at: 1_733_788_800_000,
        purge_error: null,
      },
    },
    errors: ['invalid_request', 'overloaded'],
  },
}

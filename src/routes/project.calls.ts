import type { Static } from '@sinclair/typebox'
import { ProjectAnswer, ProjectErased, ProjectParams, ProjectUsage, SettingsBody } from '../contract/project-schemas.js'
import { DEFAULT_SETTINGS } from '../contract/project-settings.js'
import { NoQuery, UsageQuery } from '../contract/query-schemas.js'
import { describeCalls, EXAMPLE_TIME } from '../http/openapi/description.js'

const settings = { ...DEFAULT_SETTINGS, name: 'Shop', timezone: 'Europe/Vienna', currency: 'EUR' }
const example = {
  project: { id: 'shop', ...settings, revision: 3, updated_at: EXAMPLE_TIME },
}

export const CALLS = describeCalls('Operation', {
  readProject: {
    schema: { querystring: NoQuery, response: { 200: ProjectAnswer } },
    summary: 'Read the settings of the project',
    description: 'Every setting of the key’s project, defaults included.',
    response: { example },
  },
  changeProject: {
    schema: { querystring: NoQuery, body: SettingsBody, response: { 200: ProjectAnswer } },
    summary: 'Change settings of the project',
    description:
      'Absent fields stay as they are, and null restores the default, also within `page_fields`, `keep` and `quotas`. Every process knows a change within ' +
      '10 s. A shorter `keep` hides older data immediately and removes it from the disk within a day; it cannot be ' +
      'brought back. `dry_run` changes nothing, and counts what would expire. A `locked` quota was set by the operator of ' +
      'the service, and no key can change it.',
    example: { timezone: 'Europe/Vienna', keep: { events: '25m' } },
    response: { example },
    errors: ['revision_conflict', 'quota_locked'],
  },
  readUsage: {
    schema: { querystring: UsageQuery },
    summary: 'Read what the project has used, by day',
    description:
      'Events and bytes as they were accepted, bytes on the disks, and the CPU time of reads; as JSON with the quotas, or as CSV. ' +
      'The counts of other processes from the last seconds, and reads of the last minute, are missing.',
    response: {
      schema: ProjectUsage,
      example: {
        days: [
          { day: '2026-11-25', events: 120_000, bytes: 24_000_000, stored_bytes: 9_000_000, read_cpu_seconds: 3.2 },
        ],
        stored_bytes: 9_000_000,
        quotas: [{ name: 'events_per_month', limit: 10_000_000, mode: 'soft', used: 2_400_000 }],
      },
    },
  },
  eraseProject: {
    schema: { params: ProjectParams, querystring: NoQuery },
    audit: ({ params, projectId }: { params: Static<typeof ProjectParams>; projectId: string }) =>
      params.project === projectId ? { action: 'project_erased', changes: {} } : null,
    tag: 'Users',
    summary: 'Erase all data of the key’s project except its keys, its usage and locked quotas',
    description:
      'Events, sessions, profiles, aliases, dead letters, saved questions, boards and, once `complete`, the settings except for `locked` quotas. What the project has used today and this month still counts toward its quotas. A call works for some 20 s; while `complete` is ' +
      'false, repeat it. `gone_at` and `purge_error` are as for erased users.',
    parameters: { project: 'default' },
    response: {
      schema: ProjectErased,
      example: {
        erased: { events: 20_000, sessions: 0, profiles: 420, aliases: 420, dead_letters: 0 },
        complete: true,
        unreadable_dead_letters: 0,
        gone_at: EXAMPLE_TIME,
        purge_error: null,
      },
    },
    errors: ['overloaded'],
  },
})

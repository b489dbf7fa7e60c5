/** What a team can set for its project. Pure: defaults, changes, and the time from which data is kept. */

import type { ContextMode } from './context.js'

export const WEEK_STARTS = ['monday', 'sunday'] as const
/** The views that the page can open first. */
export const FIRST_VIEWS = ['overview', 'web', 'explore', 'boards', 'users', 'live'] as const
/** How the page writes numbers, each an example of itself. */
export const NUMBER_FORMATS = ['1,234.5', '1.234,5', '1 234,5', '1234.5'] as const

/** What ages: events by their own time, sessions by their last change, profiles by when their user was last seen. */
export const KEPT = ['events', 'sessions', 'profiles'] as const
export type Kept = (typeof KEPT)[number]

export const QUOTAS = [
  'events_per_day',
  'events_per_month',
  'new_event_names_per_day',
  'new_property_names_per_day',
  'stored_bytes',
] as const
export type QuotaName = (typeof QUOTAS)[number]

/** Names are counted after their events are stored, so these quotas cannot refuse any: they are never hard. */
export const NAME_QUOTAS: readonly QuotaName[] = ['new_event_names_per_day', 'new_property_names_per_day']

export interface Quota {
  limit: number
  /** `soft` only warns; `hard` also refuses events */
  mode: 'soft' | 'hard'
}

export interface ProjectSettings {
  /** shown instead of the project's id; null: the id */
  name: string | null
  /** IANA; the default of questions and the page */
  timezone: string
  week_start: (typeof WEEK_STARTS)[number]
  first_view: (typeof FIRST_VIEWS)[number]
  /** ISO 4217; null: amounts of money are plain numbers */
  currency: string | null
  number_format: (typeof NUMBER_FORMATS)[number]
  /** how much of the context of events and sessions is stored; null: as the service is set */
  context: ContextMode | null
  /** how long data is kept, such as `25m`; null: forever */
  keep: Record<Kept, string | null>
  quotas: Record<QuotaName, Quota | null>
}

export const DEFAULT_SETTINGS: ProjectSettings = {
  name: null,
  timezone: 'UTC',
  week_start: 'monday',
  first_view: 'overview',
  currency: null,
  number_format: '1,234.5',
  context: null,
  keep: { events: null, sessions: null, profiles: null },
  quotas: {
    events_per_day: null,
    events_per_month: null,
    new_event_names_per_day: null,
    new_property_names_per_day: null,
    stored_bytes: null,
  },
}

/** A change of settings: what is absent stays, and null sets a default. */
export type SettingsChange = {
  [Field in Exclude<keyof ProjectSettings, 'keep' | 'quotas'>]?: ProjectSettings[Field] | null | undefined
} & {
  keep?: Partial<ProjectSettings['keep']> | null | undefined
  quotas?: Partial<ProjectSettings['quotas']> | null | undefined
}

/** @returns the settings after a change */
export function changeSettings(settings: ProjectSettings, change: SettingsChange): ProjectSettings {
  const next: Record<string, unknown> = { ...settings }
  for (const [field, fallback] of Object.entries(DEFAULT_SETTINGS)) {
    const value = change[field as keyof SettingsChange]
    if (value === undefined) continue
    if (value === null) next[field] = fallback
    else if (field === 'keep' || field === 'quotas')
      next[field] = { ...settings[field], ...withoutUndefined(Object(value)) }
    else next[field] = value
  }
  return next as unknown as ProjectSettings
}

function withoutUndefined(value: object): object {
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined))
}

/** What questions get from their project unless they say otherwise. */
export type QuestionDefaults = Pick<ProjectSettings, 'timezone' | 'week_start'>

/** Adds the project's defaults to a question that counts. */
export function fillQuestion(question: object, defaults: Partial<QuestionDefaults>): object {
  const { timezone, week_start } = question as { timezone?: unknown; week_start?: unknown }
  return { ...question, timezone: timezone ?? defaults.timezone, week_start: week_start ?? defaults.week_start }
}

/** The fields that differ from their defaults, as they are stored and shown in lists. */
export function listSet(settings: ProjectSettings): SettingsChange {
  const isDefault = (value: unknown, fallback: unknown) => JSON.stringify(value) === JSON.stringify(fallback)
  const differing = (values: object, fallbacks: object) => {
    const all = Object.entries(values)
    return Object.fromEntries(
      all.filter(([field, value]) => !isDefault(value, (fallbacks as Record<string, unknown>)[field])),
    )
  }
  const set = differing(settings, DEFAULT_SETTINGS) as SettingsChange
  if (set.keep) set.keep = differing(set.keep, DEFAULT_SETTINGS.keep)
  if (set.quotas) set.quotas = differing(set.quotas, DEFAULT_SETTINGS.quotas)
  return set
}

const DAY_MS = 86_400_000
const KEEP = /^([1-9]\d{0,4})([dwmy])$/
export const KEEP_PATTERN = KEEP.source

/**
 * The earliest time that is kept: by days and weeks of 24 hours, or by months and years of the UTC calendar. A month
 * without that day counts back to its last one.
 * @param keep such as `90d`, `12w`, `25m`, `2y`
 * @param now epoch ms
 * @returns epoch ms; never negative
 */
export function keptSince(keep: string, now: number): number {
  const [, digits = '', unit = ''] = KEEP.exec(keep) ?? []
  const count = Number(digits)
  if (unit === 'd' || unit === 'w') return Math.max(0, now - count * (unit === 'w' ? 7 : 1) * DAY_MS)
  const months = unit === 'y' ? 12 * count : count
  const time = new Date(now)
  const day = time.getUTCDate()
  time.setUTCDate(1)
  time.setUTCMonth(time.getUTCMonth() - months)
  const lastDay = new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + 1, 0)).getUTCDate()
  time.setUTCDate(Math.min(day, lastDay))
  return Math.max(0, time.getTime())
}

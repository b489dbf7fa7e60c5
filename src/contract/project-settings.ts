/** The settings of a project. Pure: defaults, changes, and the time since which data is kept. */

import type { ContextMode } from './context.js'
import { DAY_MS } from './durations.js'
import { PAGE_FIELDS, PAGE_VIEWS, type PageSettings } from './page-fields.js'
import type { SessionsDefinition } from './questions.js'
import { isSameJson } from './same-json.js'

export const WEEK_STARTS = ['monday', 'sunday'] as const
/** The views that the page can open first. */
export const FIRST_VIEWS = ['overview', 'web', 'explore', 'boards', 'users', 'live'] as const
/** How the page writes numbers; each format is an example of itself. */
export const NUMBER_FORMATS = ['1,234.5', '1.234,5', '1 234,5', '1234.5'] as const

/**
 * Data that expires: events by their own time, sessions by their last change, profiles by when their user was last
 * seen.
 */
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

/** Names are counted after their events are stored, so these quotas cannot refuse events and are never hard. */
export const NAME_QUOTAS: readonly QuotaName[] = ['new_event_names_per_day', 'new_property_names_per_day']

export interface Quota {
  limit: number
  /** `soft` only warns; `hard` also refuses events */
  mode: 'soft' | 'hard'
  /** set by the operator with the command line; keys of the project cannot change it */
  locked?: true | null | undefined
}

export interface ProjectSettings extends PageSettings {
  /** shown instead of the project's id; null: the id */
  name: string | null
  /** IANA zone; the default of questions and the page */
  timezone: string
  week_start: (typeof WEEK_STARTS)[number]
  /** null: `web` if the project has page views, or else `overview` */
  first_view: (typeof FIRST_VIEWS)[number] | null
  /** ISO 4217; null: amounts of money are plain numbers */
  currency: string | null
  number_format: (typeof NUMBER_FORMATS)[number]
  /** how much of the context of events and sessions is stored; null: the service's setting */
  context: ContextMode | null
  /** the definition of sessions for questions without one */
  sessions: SessionsDefinition
  /** how long data is kept, such as `25m`; null: forever */
  keep: Record<Kept, string | null>
  quotas: Record<QuotaName, Quota | null>
}

export const DEFAULT_SETTINGS: ProjectSettings = {
  name: null,
  timezone: 'UTC',
  week_start: 'monday',
  first_view: null,
  currency: null,
  number_format: '1,234.5',
  context: null,
  sessions: 'id',
  page_views: PAGE_VIEWS,
  page_fields: PAGE_FIELDS,
  keep: { events: null, sessions: null, profiles: null },
  quotas: {
    events_per_day: null,
    events_per_month: null,
    new_event_names_per_day: null,
    new_property_names_per_day: null,
    stored_bytes: null,
  },
}

/** Settings whose fields are changed one by one. */
const GROUPS = ['page_fields', 'keep', 'quotas'] as const
type Group = (typeof GROUPS)[number]

type Change<Fields> = { [Field in keyof Fields]?: Fields[Field] | null | undefined }
/** A change of settings: absent fields stay as they are, and null restores a default. */
export type SettingsChange = Change<Omit<ProjectSettings, Group>> & {
  [Name in Group]?: Change<ProjectSettings[Name]> | null | undefined
}

/** @returns the settings after a change */
export function changeSettings(settings: ProjectSettings, change: SettingsChange): ProjectSettings {
  return replaceFields(settings, change, DEFAULT_SETTINGS, (name, value) => {
    if (!isGroup(name)) return value
    const replace = name === 'quotas' ? (_: string, quota: unknown) => tidyQuota(quota as Quota) : undefined
    return replaceFields(settings[name], Object(value), DEFAULT_SETTINGS[name], replace)
  })
}

/** The same quota is always written in the same way. */
function tidyQuota({ limit, mode, locked }: Quota): Quota {
  return { limit, mode, ...(locked && { locked }) }
}

/** The quotas that a change sets, and that are locked before or after it. */
export function listLockedChanges(
  { quotas: before }: ProjectSettings,
  { quotas: after }: ProjectSettings,
): QuotaName[] {
  return QUOTAS.filter((name) => {
    const isLocked = before[name]?.locked || after[name]?.locked
    return isLocked && !isSameJson(before[name], after[name])
  })
}

/** The change after which a project has its defaults, except for locked quotas. */
export function changeToDefaults({ quotas }: ProjectSettings): SettingsChange {
  const everything = Object.fromEntries(Object.keys(DEFAULT_SETTINGS).map((field) => [field, null]))
  const unlocked = QUOTAS.filter((name) => !quotas[name]?.locked)
  return { ...everything, quotas: Object.fromEntries(unlocked.map((name) => [name, null])) }
}

/** @param replace computes the new value of a field from the given one */
function replaceFields<T extends object>(
  before: T,
  change: Record<string, unknown>,
  defaults: T,
  replace: (name: string, value: unknown) => unknown = (_, value) => value,
): T {
  const next = Object.entries(defaults).map(([name, fallback]) => {
    const value = change[name]
    if (value === undefined) return [name, before[name as keyof T]]
    return [name, value === null ? fallback : replace(name, value)]
  })
  return Object.fromEntries(next) as T
}

function isGroup(name: string): name is Group {
  return (GROUPS as readonly string[]).includes(name)
}

/** The times since which data is kept, epoch ms; absent: all data is kept. */
export type KeptTimes = Partial<Record<Kept, number>>

/** @param now epoch ms */
export function listKeptTimes(keep: ProjectSettings['keep'], now: number): KeptTimes {
  return Object.fromEntries(KEPT.flatMap((kind) => (keep[kind] === null ? [] : [[kind, keptSince(keep[kind], now)]])))
}

/** All settings by name; those of a group are listed one by one, such as `keep.events`. */
export function listSettings(settings: ProjectSettings): [name: string, value: unknown][] {
  return Object.entries(settings).flatMap(([name, value]): [string, unknown][] => {
    if (!isGroup(name)) return [[name, value]]
    return Object.entries(settings[name]).map(([field, one]) => [`${name}.${field}`, one])
  })
}

/** The settings that are defaults of questions. */
export const QUESTION_DEFAULTS = ['timezone', 'week_start', 'sessions'] as const satisfies (keyof ProjectSettings)[]
export type QuestionDefaults = Pick<ProjectSettings, (typeof QUESTION_DEFAULTS)[number]>

/** Adds the project's defaults to a question that counts. */
export function fillQuestion(question: object, defaults: Partial<QuestionDefaults>): object {
  const given = question as Record<string, unknown>
  const filled = QUESTION_DEFAULTS.map((field) => [field, given[field] ?? defaults[field]])
  return { ...question, ...Object.fromEntries(filled) }
}

/** The fields that differ from their defaults, as they are stored and shown in lists. */
export function listSet(settings: ProjectSettings): SettingsChange {
  const differing = (values: object, fallbacks: object) => {
    const all = Object.entries(values)
    return Object.fromEntries(
      all.filter(([field, value]) => !isSameJson(value, (fallbacks as Record<string, unknown>)[field])),
    )
  }
  const set: Record<string, unknown> = differing(settings, DEFAULT_SETTINGS)
  for (const name of GROUPS) if (set[name]) set[name] = differing(Object(set[name]), DEFAULT_SETTINGS[name])
  return set
}

const KEEP = /^([1-9]\d{0,4})([dwmy])$/
export const KEEP_PATTERN = KEEP.source
/** The shortest time that a setting can keep data, ms. */
export const SHORTEST_KEEP_MS = DAY_MS

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

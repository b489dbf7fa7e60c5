import { formatExactJson } from '../../../contract/exact-json.js'
import type { PagePlace } from '../../../contract/page-fields.js'
import {
  KEEP_PATTERN,
  type Kept,
  type ProjectSettings,
  type Quota,
  type QuotaName,
} from '../../../contract/project-settings.js'
import { formatBytes, formatCount, formatNumber, formatWindow } from '../../lib/format.js'
import type { FieldLabels } from '../../ui/notice.js'

/** The settings of the section “Project”. */
export type OwnSetting = Exclude<keyof ProjectSettings, 'page_fields' | 'keep' | 'quotas' | PageSetting>
/** The settings of the section “Visits and pages”, apart from the fields of pages. */
export type PageSetting = 'sessions' | 'page_views'

export const SETTING_NAMES: Record<OwnSetting, string> = {
  name: 'Display name',
  timezone: 'Time zone',
  week_start: 'Weeks begin on',
  first_view: 'First view',
  currency: 'Currency',
  number_format: 'Number format',
  context: 'Data about visitors',
}

export const VISIT_NAMES: Record<PageSetting, string> = {
  sessions: 'End a visit after a pause of',
  page_views: 'Page views',
}

export const PAGE_FIELD_NAMES: Record<PagePlace, string> = {
  url: 'URL',
  path: 'Path, if there is no URL',
  title: 'Title',
  referrer: 'Referrer',
  source: 'Source',
  medium: 'Medium',
  campaign: 'Campaign',
  term: 'Term',
  content: 'Content',
}

export const KEPT_NAMES: Record<Kept, string> = { events: 'Events', sessions: 'Sessions', profiles: 'Profiles' }

export const QUOTA_NAMES: Record<QuotaName, string> = {
  events_per_day: 'Events per day',
  events_per_month: 'Events per month',
  new_event_names_per_day: 'New event names per day',
  new_property_names_per_day: 'New property names per day',
  stored_bytes: 'Data on the disk',
}

/** The labels of all settings. */
export const SETTING_LABELS: FieldLabels = {
  ...SETTING_NAMES,
  ...VISIT_NAMES,
  ...within('page_fields', PAGE_FIELD_NAMES),
  ...within('keep', KEPT_NAMES),
  ...within('quotas', QUOTA_NAMES),
}

function within(group: keyof ProjectSettings, names: Record<string, string>): FieldLabels {
  return Object.fromEntries(Object.entries(names).map(([field, name]) => [`${group}/${field}`, name]))
}

/** The units of an age, in words. */
export const AGE_UNITS = [
  ['d', 'day'],
  ['w', 'week'],
  ['m', 'month'],
  ['y', 'year'],
] as const
export type AgeUnit = (typeof AGE_UNITS)[number][0]

/** An age such as `25m` in its parts; null for forever. */
export function parseAge(age: string | null): { count: number; unit: AgeUnit } | null {
  const [, count, unit] = (age !== null && new RegExp(KEEP_PATTERN).exec(age)) || []
  return unit === undefined ? null : { count: Number(count), unit: unit as AgeUnit }
}

/** Formats an age, such as `25 months`. */
export function formatAge(age: string | null): string {
  const parsed = parseAge(age)
  const unit = AGE_UNITS.find(([unit]) => unit === parsed?.unit)
  return parsed && unit ? formatCount(parsed.count, unit[1]) : 'forever'
}

export function isQuota(value: unknown): value is Quota {
  return typeof value === 'object' && value !== null && 'limit' in value && 'mode' in value
}

/** Formats a quota without its unit, such as `1,000 (hard)`. */
export function formatQuota({ limit, mode, locked }: Quota): string {
  return `${formatNumber(limit)} (${mode}${locked ? ', locked' : ''})`
}

/** Formats the definition of a session. */
export function formatSessions(sessions: ProjectSettings['sessions']): string {
  if (sessions === 'id') return 'session ids'
  return `pauses of ${formatWindow(sessions.gap)}${sessions.where ? ` and ${formatExactJson(sessions.where)}` : ''}`
}

/** Formats an amount that a quota limits. */
export function formatAmount(name: string, amount: number): string {
  return name === 'stored_bytes' ? formatBytes(amount) : formatNumber(amount)
}

/** For names in the middle of a sentence. */
export function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1)
}

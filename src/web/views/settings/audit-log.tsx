import { useState } from 'preact/hooks'
import type { FieldName } from '../../../contract/filters.js'
import type { AuditLogEntry } from '../../../contract/key-schemas.js'
import { PAGE_PLACES } from '../../../contract/page-fields.js'
import { KEPT, type ProjectSettings, QUOTAS } from '../../../contract/project-settings.js'
import { readAuditLog } from '../../api/keys.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import { useRowKeys } from '../../hooks/use-row-keys.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { formatField } from '../../lib/fields.js'
import { formatCount, formatDuration, formatTime } from '../../lib/format.js'
import * as cardStyles from '../../ui/card.module.css'
import { Failure, Loading } from '../../ui/notice.js'
import { Pagination } from '../../ui/pagination.js'
import * as textStyles from '../../ui/text.module.css'
import * as styles from './audit-log.module.css'
import { nameKey } from './key-text.js'
import {
  formatAge,
  formatQuota,
  formatSessions,
  isQuota,
  lowerFirst,
  QUOTA_NAMES,
  SETTING_NAMES,
} from './setting-text.js'

const LIMIT = 20

const FIELDS: Record<string, string> = {
  label: 'the label',
  origins: 'the sites',
  events_only: 'events only',
  ...Object.fromEntries(Object.entries(SETTING_NAMES).map(([field, name]) => [field, `the ${lowerFirst(name)}`])),
  sessions: 'what a visit is',
  page_views: 'the page views',
  ...Object.fromEntries(PAGE_PLACES.map((name) => [`page_fields.${name}`, `where the page’s ${name} comes from`])),
  ...Object.fromEntries(KEPT.map((kind) => [`keep.${kind}`, `how long ${kind} are kept`])),
  ...Object.fromEntries(QUOTAS.map((name) => [`quotas.${name}`, `the quota of ${lowerFirst(QUOTA_NAMES[name])}`])),
}

/** Who changed what in the project. @param changes how many changes this page has made, each of which reloads it */
export function AuditLog({ changes }: { changes: number }) {
  const [page, setPage] = useState(1)
  const { value, error, isLoading, reload } = useLoaded(`${page} ${changes}`, (signal) =>
    readAuditLog(page, LIMIT, signal),
  )
  const rowKeys = useRowKeys((value?.entries ?? []).map(({ at, action, target }) => `${at} ${action} ${target?.id}`))
  return (
    <section aria-label="Changes" aria-busy={isLoading}>
      <h2>Changes</h2>
      <p class={textStyles.hint}>
        Who changed settings and keys, or removed data, through this page, the API or the command line. Kept for a year.
      </p>
      {error && <Failure error={error} onRetry={reload} />}
      {!value && isLoading && <Loading what="the changes" />}
      {value?.entries.length === 0 && <p class={textStyles.hint}>None yet.</p>}
      {value && value.entries.length > 0 && (
        <ul class={`${cardStyles.card} ${styles.entries}`}>
          {value.entries.map((entry, i) => (
            <li key={rowKeys[i]}>
              <bdi>{describeChange(entry)}</bdi>
              <p class={textStyles.hint}>
                <bdi>{nameActor(entry)}</bdi> ·{' '}
                <time dateTime={new Date(entry.at).toISOString()}>{formatTime(entry.at)}</time>
              </p>
            </li>
          ))}
        </ul>
      )}
      <Pagination page={page} hasMore={value?.hasMore ?? false} isLoading={isLoading} onChange={setPage} />
    </section>
  )
}

function nameActor({ actor: { type, id, label } }: AuditLogEntry): string {
  if (id !== null) return nameKey({ id, label: label ?? '' })
  return type === 'service' ? 'The service, at its first start' : 'Command line'
}

/** A change as a sentence without its subject. */
function describeChange({ action, target, changes }: AuditLogEntry): string {
  const name = target ? `${target.label === '' ? '' : `“${escapeInvisible(target.label)}” `}${target.id}` : ''
  if (action === 'key_created') return `Created the ${formatValue(changes.kind?.to)} key ${name}`
  if (action === 'key_rotated') {
    const ms = changes.grace_ms?.to
    return `Rotated ${name}, ${typeof ms === 'number' && ms > 0 ? `which works for another ${formatDuration(ms)}` : 'which ended it'}`
  }
  if (action === 'key_revoked') return `Revoked ${name}`
  if (action === 'project_erased') return 'Erased all data of the project'
  if (action === 'users_erased') return `Erased ${formatCount(Number(changes.users?.to), 'user')}`
  if (action === 'batches_deleted')
    return `Deleted the events of ${formatCount(Number(changes.batches?.to), 'batch', 'batches')}`
  if (action === 'facts_left_out') return 'Excluded the project from the facts'
  if (action === 'facts_taken_in') return 'Included the project in the facts again'
  if (action !== 'key_changed' && action !== 'project_changed') return `${action} ${name}`
  const fields = Object.entries(changes).map(([field, { from, to }]) => {
    const format = FORMATS[field.split('.')[0] ?? ''] ?? formatValue
    return `${FIELDS[field] ?? field} from ${format(from)} to ${format(to)}`
  })
  return `Changed ${action === 'key_changed' ? `${name}: ` : ''}${fields.join(', ')}`
}

/** Formats for the values of some settings; others are shown unchanged. */
const FORMATS: Record<string, (value: unknown) => string> = {
  keep: formatKept,
  sessions: (value) => escapeInvisible(formatSessions(value as ProjectSettings['sessions'])),
  page_fields: (value) => escapeInvisible((value as FieldName[]).map(formatField).join(', ')) || 'nothing',
}

function formatKept(age: unknown): string {
  return formatAge(typeof age === 'string' ? age : null)
}

function formatValue(value: unknown): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.map(formatValue).join(', ')
  if (isQuota(value)) return formatQuota(value)
  return typeof value === 'string' && value !== '' ? escapeInvisible(value) : 'none'
}

import type { ComponentChildren } from 'preact'
import type { Warning } from '../../contract/warning.js'
import { CallError } from '../api/call.js'
import { escapeInvisible } from '../lib/escape-invisible.js'
import { Button } from './button.js'
import * as styles from './notice.module.css'

/** The labels of form fields, by their paths in the request, such as `keep/events`. */
export type FieldLabels = Readonly<Record<string, string>>

interface FailureProps {
  error: Error
  onRetry?: (() => void) | undefined
  /** of the form whose request failed */
  labels?: FieldLabels | undefined
}

/** An error, or the validation errors that it consists of. */
export function Failure({ error, onRetry, labels = {} }: FailureProps) {
  const details = error instanceof CallError ? error.details : []
  return (
    <div class={`${styles.notice} ${styles.failure}`} role="alert">
      {/* The message of an error with details quotes the first. */}
      {details.length === 0 && <p>{error.message}</p>}
      {details.map(({ path, message }) => (
        <p key={path}>
          {findLabel(path, labels) ?? <code>{path || 'The body'}</code>} {message}.
        </p>
      ))}
      {onRetry && <Button onClick={onRetry}>Try again</Button>}
    </div>
  )
}

/** The label of a field, or of a field around it. @param path JSON pointer, such as `/page_views/2` */
function findLabel(path: string, labels: FieldLabels): ComponentChildren {
  const names = path.split('/').slice(1)
  const length = names.findLastIndex((_, i) => labels[names.slice(0, i + 1).join('/')] !== undefined) + 1
  if (length === 0) return undefined
  const [item] = names.slice(length)
  const place = item !== undefined && /^\d+$/.test(item) ? `, number ${Number(item) + 1},` : ''
  return (
    <>
      <strong>{labels[names.slice(0, length).join('/')]}</strong>
      {place}
    </>
  )
}

interface WarningsProps {
  warnings?: readonly Warning[] | undefined
  /** applies a warning's suggestion */
  onAccept?: (warning: Warning) => void
}

/** Warnings about likely mistakes in a question, if any. */
export function Warnings({ warnings = [], onAccept }: WarningsProps) {
  if (warnings.length === 0) return null
  return (
    <div class={`${styles.notice} ${styles.warnings}`} role="status" aria-label="Warnings">
      {warnings.map((warning) => (
        <p key={warning.path}>
          <bdi>{escapeInvisible(warning.message)}</bdi>{' '}
          {onAccept && warning.suggestion !== undefined && (
            <Button look="inline" onClick={() => onAccept(warning)}>
              Use “<bdi>{escapeInvisible(formatSuggestion(warning.suggestion))}</bdi>”
            </Button>
          )}
        </p>
      ))}
    </div>
  )
}

/** The name of an event or property, or a value. */
function formatSuggestion(suggestion: unknown): string {
  if (typeof suggestion === 'string') return suggestion.replace(/^properties\./, '')
  return Array.isArray(suggestion) ? suggestion.slice(1).join('.') : JSON.stringify(suggestion)
}

/** Explains an empty list or page. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class={styles.notice}>
      <h2>{title}</h2>
      {children}
    </div>
  )
}

/** Shown while something loads; announced to screen readers. */
export function Loading({ what }: { what: string }) {
  return (
    <p class={styles.loading} role="status" data-loading>
      Loading {what}…
    </p>
  )
}

/** Shown when a chunk of the page no longer exists, for example after an upgrade. Reloading fetches the new page. */
export function PartMissing() {
  const error = new Error('Part of the page could not be loaded. If Tallyhouse has just been updated, reload the page.')
  return <Failure error={error} onRetry={() => location.reload()} />
}

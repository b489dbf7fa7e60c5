import { splitField } from '../contract/filters.js'
import type { CONTEXT_NAMES } from '../contract/page-fields.js'
import type { FieldName, SessionEvents } from '../contract/questions.js'
import type { Statement } from './statement.js'

/** A field of a row as SQL, and its type in comparisons. */
export type FieldSql =
  /** a text */
  | { type: 'text'; sql: string }
  /** a number */
  | { type: 'number'; sql: string }
  /**
   * the token of any JSON value, empty without a value. `isScalar`: never of an array or object; `number`: the number,
   * or null, which is faster than parsing the token; a scalar token is a number only if `number` is given. `flag`: a
   * condition that holds if the token is `true`; otherwise there is no token
   */
  | { type: 'json'; sql: string; isScalar?: boolean; number?: string; flag?: string }

/** The type of a field's column, in rows of events and of sessions. */
export function getFieldType(name: FieldName): FieldSql['type'] {
  const [source] = splitField(name)
  if (source === 'timestamp') return 'number'
  return source === 'event' || source === 'distinct_id' ? 'text' : 'json'
}

/** Whether a field is a token of a text, of a boolean, of a number as `formatNumber` writes it, or of nothing. */
export function isScalarField(name: FieldName): boolean {
  const [source = '', ...path] = splitField(name)
  return source === 'page' || source === 'context' || (source === 'session' && isScalarOfSession(path))
}

/** Like `isScalarField`, for the path after `session`. */
export function isScalarOfSession([name = '', of = '']: readonly string[]): boolean {
  return ['first', 'last', 'entry', 'exit'].includes(name)
    ? of === 'page' || of === 'context'
    : ['id', 'bounced', ...SESSION_NUMBERS].includes(name)
}

/** The fields of a session that are numbers. */
export const SESSION_NUMBERS = ['start', 'seconds', 'events', 'pages'] as const

/** Rows of events, or of sessions as if they were events. Each field that is asked for becomes a column. */
export interface FieldRows {
  readonly statement: Statement
  /** @throws StatementTooLargeError if there are too many different properties */
  field(name: FieldName): FieldSql
  /** SQL for whether the session of the row has such an event: 0 or 1 */
  sessionHas(events: SessionEvents): string
  /** The column of the user, the same for all aliases. */
  user(): string
  /** The column of the user's hash, which is read faster than the name. */
  userHash(): string
}

/**
 * A column of events or facts: `day` is the UTC day, `id` the event's id as a UInt128, `session` the hash of
 * `session_id` (0 without one), and `json` the text of the properties.
 */
export type EventColumn =
  | ('event' | 'distinct_id' | 'timestamp' | 'day' | 'id' | 'session_id' | 'session' | 'json')
  | (typeof CONTEXT_NAMES)[number]

/** The sessions of a question, to join to rows of events. Each field that is asked for becomes a column. */
export interface SessionTable {
  /** A field of the session; no value without one. @param path what follows `session` */
  field(path: string[]): FieldSql
  /** The column that says whether a session has such an event. */
  has(events: SessionEvents): string
  /** SQL for the key of the session of an event row; 0 without a session. */
  key(rows: FieldRows): string
  /** The columns that `key` needs from the table of events. */
  readonly keyColumns: EventColumn[]
  /** The columns of the fields. */
  readonly names: string[]
  /** Operand of FROM. Columns: `session_key`, `session_start` and those of the fields. */
  sql(): string
}

import type { FieldName, SessionEvents } from '../contract/questions.js'
import type { Statement } from './statement.js'

/** A field of a row as SQL, and its type in comparisons. */
export type FieldSql =
  /** a text */
  | { type: 'text'; sql: string }
  /** a number */
  | { type: 'number'; sql: string }
  /** a token of any JSON value */
  | { type: 'json'; sql: string }

/** Rows of events, or of sessions as if they were events. Each field that is asked for becomes a column. */
export interface FieldRows {
  readonly statement: Statement
  /** @throws StatementTooLargeError if there are too many different properties */
  field(name: FieldName): FieldSql
  /** SQL for whether the session of the row has such an event: 0 or 1 */
  sessionHas(events: SessionEvents): string
  /** The column of the user, the same for all aliases. */
  user(): string
}

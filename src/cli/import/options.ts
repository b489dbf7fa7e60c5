import type { Target } from '../target.js'
import type { CellTypeName } from './cell-types.js'
import type { Unacknowledged } from './find-stored.js'
import type { InputFormat } from './formats.js'
import type { SourceOptions } from './native-rows.js'

/** Options of an import that describe its input. */
export interface InputOptions extends SourceOptions {
  /** undefined to detect it from the first character of the input */
  format: InputFormat | undefined
  delimiter: string
  /** types of CSV columns, by column */
  types: Record<string, CellTypeName>
}

/** Options of an import from the command line. */
export interface ImportOptions extends InputOptions {
  target: Target
  /** batches in flight at a time */
  parallel: number
  /** what to do with batches whose acknowledgement was lost and whose idempotency keys have expired */
  unacknowledged: Unacknowledged
  /** paths; undefined for the default ones */
  stateFile: string | undefined
  rejectsFile: string | undefined
}

import type { Target } from '../target.js'
import type { CellTypeName } from './cell-types.js'
import type { Unacknowledged } from './find-stored.js'
import type { InputFormat } from './formats.js'
import type { SourceOptions } from './native-rows.js'

/** What the options of an import say about its input. */
export interface InputOptions extends SourceOptions {
  /** undefined: the first character of the input decides */
  format: InputFormat | undefined
  delimiter: string
  /** of the columns of CSV that the command names */
  types: Record<string, CellTypeName>
}

/** The options of an import, as the command line gives them. */
export interface ImportOptions extends InputOptions {
  target: Target
  /** batches in flight at a time */
  parallel: number
  /** what to do with batches whose acknowledgement was lost, and whose idempotency keys have expired */
  unacknowledged: Unacknowledged
  /** paths; undefined for the default ones */
  stateFile: string | undefined
  rejectsFile: string | undefined
}

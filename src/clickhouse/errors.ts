import { StoreError } from './client.js'

/**
 * ClickHouse's words for data that it cannot read (src/Common/ErrorCodes.cpp). They come before anything of the block
 * is written, so the block may be cut. Every other failure leaves open what was written: the same block goes again.
 */
const DATA_ERRORS = new Set([
  6, // CANNOT_PARSE_TEXT
  25, // CANNOT_PARSE_ESCAPE_SEQUENCE
  26, // CANNOT_PARSE_QUOTED_STRING
  27, // CANNOT_PARSE_INPUT_ASSERTION_FAILED
  28, // CANNOT_PRINT_FLOAT_OR_DOUBLE_NUMBER
  33, // CANNOT_READ_ALL_DATA
  53, // TYPE_MISMATCH
  69, // ARGUMENT_OUT_OF_BOUND
  70, // CANNOT_CONVERT_TYPE
  72, // CANNOT_PARSE_NUMBER
  117, // INCORRECT_DATA
  130, // CANNOT_READ_ARRAY_FROM_TEXT
  131, // TOO_LARGE_STRING_SIZE
  306, // TOO_DEEP_RECURSION
  349, // CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN
])

/** Whether ClickHouse has refused the data themselves, and so stored nothing of them. */
export function isDataError(error: unknown): error is StoreError {
  return error instanceof StoreError && DATA_ERRORS.has(error.code)
}

/** MEMORY_LIMIT_EXCEEDED: of a query, of a user or of the whole server. */
const OUT_OF_MEMORY = 241

/** Whether ClickHouse had no memory for a block, of which something may be stored: a part for each month it has events of. */
export function isMemoryError(error: unknown): error is StoreError {
  return error instanceof StoreError && error.code === OUT_OF_MEMORY
}

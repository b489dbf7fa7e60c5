import { ApiError } from '../contract/errors.js'

/** ClickHouse error codes (src/Common/ErrorCodes.cpp) that we depend on. No other file has one. */
const CODES = {
  CANNOT_PARSE_TEXT: 6,
  CANNOT_PARSE_ESCAPE_SEQUENCE: 25,
  CANNOT_PARSE_QUOTED_STRING: 26,
  CANNOT_PARSE_INPUT_ASSERTION_FAILED: 27,
  CANNOT_PRINT_FLOAT_OR_DOUBLE_NUMBER: 28,
  ATTEMPT_TO_READ_AFTER_EOF: 32,
  CANNOT_READ_ALL_DATA: 33,
  BAD_ARGUMENTS: 36,
  CANNOT_PARSE_DATE: 38,
  TOO_LARGE_SIZE_COMPRESSED: 39,
  CHECKSUM_DOESNT_MATCH: 40,
  CANNOT_PARSE_DATETIME: 41,
  UNKNOWN_IDENTIFIER: 47,
  TYPE_MISMATCH: 53,
  UNKNOWN_TABLE: 60,
  SYNTAX_ERROR: 62,
  ARGUMENT_OUT_OF_BOUND: 69,
  CANNOT_CONVERT_TYPE: 70,
  CANNOT_PARSE_NUMBER: 72,
  CANNOT_READ_FROM_FILE_DESCRIPTOR: 74,
  CANNOT_WRITE_TO_FILE_DESCRIPTOR: 75,
  CANNOT_OPEN_FILE: 76,
  UNKNOWN_DATABASE: 81,
  CANNOT_SEEK_THROUGH_FILE: 87,
  UNKNOWN_COMPRESSION_METHOD: 89,
  SIZES_OF_MARKS_FILES_ARE_INCONSISTENT: 91,
  FILE_DOESNT_EXIST: 107,
  INCORRECT_DATA: 117,
  TOO_LARGE_ARRAY_SIZE: 128,
  CANNOT_READ_ARRAY_FROM_TEXT: 130,
  TOO_LARGE_STRING_SIZE: 131,
  ILLEGAL_DIVISION: 153,
  TIMEOUT_EXCEEDED: 159,
  TOO_SLOW: 160,
  READONLY: 164,
  TOO_DEEP_AST: 167,
  TOO_BIG_AST: 168,
  UNKNOWN_USER: 192,
  WRONG_PASSWORD: 193,
  REQUIRED_PASSWORD: 194,
  TOO_MANY_SIMULTANEOUS_QUERIES: 202,
  AMBIGUOUS_IDENTIFIER: 207,
  SOCKET_TIMEOUT: 209,
  NETWORK_ERROR: 210,
  NO_FILE_IN_DATA_PART: 226,
  UNEXPECTED_FILE_IN_DATA_PART: 227,
  BAD_SIZE_OF_FILE_IN_DATA_PART: 228,
  TOO_MANY_UNEXPECTED_DATA_PARTS: 231,
  ABORTED: 236,
  MEMORY_LIMIT_EXCEEDED: 241,
  TABLE_IS_READ_ONLY: 242,
  NOT_ENOUGH_SPACE: 243,
  CORRUPTED_DATA: 246,
  TOO_MANY_PARTS: 252,
  INFINITE_LOOP: 269,
  CANNOT_DECOMPRESS: 271,
  ALL_CONNECTION_TRIES_FAILED: 279,
  TOO_DEEP_RECURSION: 306,
  TOO_FEW_LIVE_REPLICAS: 285,
  UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE: 286,
  REPLICA_IS_NOT_IN_QUORUM: 289,
  UNKNOWN_STATUS_OF_INSERT: 319,
  CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN: 349,
  CANNOT_PARSE_UUID: 376,
  CANNOT_ASSIGN_OPTIMIZE: 388,
  QUERY_WAS_CANCELLED: 394,
  FUNCTION_THROW_IF_VALUE_IS_NON_ZERO: 395,
  TOO_MANY_ROWS: 158,
  TOO_MANY_ROWS_OR_BYTES: 396,
  SEEK_POSITION_OUT_OF_BOUND: 361,
  DECIMAL_OVERFLOW: 407,
  CANNOT_COMPILE_REGEXP: 427,
  UNKNOWN_CODEC: 432,
  CANNOT_PARSE_BOOL: 467,
  VIOLATED_CONSTRAINT: 469,
  ACCESS_DENIED: 497,
  AUTHENTICATION_FAILED: 516,
  CANNOT_PARSE_IPV4: 675,
  CANNOT_PARSE_IPV6: 676,
  UNKNOWN_ELEMENT_OF_ENUM: 691,
  POTENTIALLY_BROKEN_DATA_PART: 740,
  KEEPER_EXCEPTION: 999,
} as const

export type StoreErrorName = keyof typeof CODES

/**
 * ClickHouse could not read the data. It notices before it writes any of the block, so the block may be bisected. After
 * any other error it is unknown what was written, and the same block must be retried.
 */
const DATA_ERRORS = toCodes([
  'CANNOT_PARSE_TEXT',
  'CANNOT_PARSE_ESCAPE_SEQUENCE',
  'CANNOT_PARSE_QUOTED_STRING',
  'CANNOT_PARSE_INPUT_ASSERTION_FAILED',
  'CANNOT_PRINT_FLOAT_OR_DOUBLE_NUMBER',
  'CANNOT_READ_ALL_DATA',
  'TYPE_MISMATCH',
  'ARGUMENT_OUT_OF_BOUND',
  'CANNOT_CONVERT_TYPE',
  'CANNOT_PARSE_NUMBER',
  'INCORRECT_DATA',
  'CANNOT_READ_ARRAY_FROM_TEXT',
  'TOO_LARGE_STRING_SIZE',
  'TOO_DEEP_RECURSION',
  'CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN',
  // Errors from constraints and computed columns that an operator has added to our tables (tested with 26.7).
  'VIOLATED_CONSTRAINT',
  'CANNOT_PARSE_DATE',
  'CANNOT_PARSE_DATETIME',
  'CANNOT_PARSE_UUID',
  'CANNOT_PARSE_BOOL',
  'CANNOT_PARSE_IPV4',
  'CANNOT_PARSE_IPV6',
  'ILLEGAL_DIVISION',
  'DECIMAL_OVERFLOW',
  'UNKNOWN_ELEMENT_OF_ENUM',
  'FUNCTION_THROW_IF_VALUE_IS_NON_ZERO',
  'CANNOT_COMPILE_REGEXP',
])

/**
 * ClickHouse could not read its own files. This holds only if the message names a part, because the same codes are used
 * for truncated input and broken connections.
 */
const DAMAGE_ERRORS = toCodes([
  'ATTEMPT_TO_READ_AFTER_EOF',
  'CANNOT_READ_ALL_DATA',
  'TOO_LARGE_SIZE_COMPRESSED',
  'CHECKSUM_DOESNT_MATCH',
  'CANNOT_READ_FROM_FILE_DESCRIPTOR',
  'CANNOT_OPEN_FILE',
  'CANNOT_SEEK_THROUGH_FILE',
  'UNKNOWN_COMPRESSION_METHOD',
  'SIZES_OF_MARKS_FILES_ARE_INCONSISTENT',
  'FILE_DOESNT_EXIST',
  'TOO_LARGE_ARRAY_SIZE',
  'TOO_LARGE_STRING_SIZE',
  'NO_FILE_IN_DATA_PART',
  'UNEXPECTED_FILE_IN_DATA_PART',
  'BAD_SIZE_OF_FILE_IN_DATA_PART',
  'CORRUPTED_DATA',
  'CANNOT_DECOMPRESS',
  'SEEK_POSITION_OUT_OF_BOUND',
  'UNKNOWN_CODEC',
  'POTENTIALLY_BROKEN_DATA_PART',
])

/** A wrong user, a wrong password or missing rights: only an operator can help. */
const LOGIN_ERRORS = toCodes([
  'UNKNOWN_USER',
  'WRONG_PASSWORD',
  'REQUIRED_PASSWORD',
  'ACCESS_DENIED',
  'AUTHENTICATION_FAILED',
])

/**
 * Errors whose message only names settings, sizes, servers and our own tables, and so may be logged. The message of any
 * other error may quote data, as parse errors do.
 */
const LOGGABLE = new Set([
  ...LOGIN_ERRORS,
  ...toCodes([
    'UNKNOWN_TABLE',
    'UNKNOWN_DATABASE',
    'TIMEOUT_EXCEEDED',
    'TOO_SLOW',
    'READONLY',
    'TOO_MANY_SIMULTANEOUS_QUERIES',
    'SOCKET_TIMEOUT',
    'NETWORK_ERROR',
    'ALL_CONNECTION_TRIES_FAILED',
    'MEMORY_LIMIT_EXCEEDED',
    'TABLE_IS_READ_ONLY',
    'NOT_ENOUGH_SPACE',
    'TOO_MANY_PARTS',
    'TOO_MANY_UNEXPECTED_DATA_PARTS',
    'TOO_FEW_LIVE_REPLICAS',
    'UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE',
    'REPLICA_IS_NOT_IN_QUORUM',
    'UNKNOWN_STATUS_OF_INSERT',
    'CANNOT_ASSIGN_OPTIMIZE',
    'QUERY_WAS_CANCELLED',
    // Its message is our own.
    'FUNCTION_THROW_IF_VALUE_IS_NON_ZERO',
    'KEEPER_EXCEPTION',
  ]),
])

/** Maximum bytes of an error message to read: ClickHouse repeats the value that it could not parse. */
export const MAX_ERROR_BYTES = 64 * 1024

/** ClickHouse answered a query with an error. Its message and its stack can be logged: they quote no data. */
export class StoreError extends Error {
  override readonly name = 'StoreError'
  /** the error code, see `CODES` */
  readonly code: number
  /**
   * ClickHouse's own message, which may quote data: for dead letters and for operators at a terminal, never for the log
   */
  readonly words: string

  /** @param words see above @param type the error's name */
  constructor(code: number, words: string, type?: string) {
    // A message about a damaged part names files without quoting their contents.
    const isLoggable = LOGGABLE.has(code) || (DAMAGE_ERRORS.has(code) && NAMED_PART.test(words))
    super(`ClickHouse error ${code}${isLoggable ? `: ${words}` : type ? ` (${type})` : ''}`)
    this.code = code
    this.words = words
  }

  /** the code and the message, for dead letters */
  get reason(): string {
    return `ClickHouse error ${this.code}: ${this.words}`
  }
}

/** ClickHouse did not respond: connection refused or broken, or a timeout. Whether it did the work is unknown. */
export class StoreUnreachableError extends Error {
  override readonly name: string = 'StoreUnreachableError'
}

/**
 * Detects responses that are not from ClickHouse, such as a proxy's own page with status 200 while ClickHouse is down:
 * nothing was stored then.
 * @param headers headers of a successful response
 */
export function assertIsFromClickHouse(headers: object): void {
  if (Object.keys(headers).some((name) => name.startsWith('x-clickhouse-'))) return
  throw new Error(
    'the response is not from ClickHouse, because it has no header X-ClickHouse-…: check CLICKHOUSE_URL, ' +
      'and that every proxy in front of ClickHouse passes its headers',
  )
}

/**
 * Rejects a response whose body ends when the connection closes: if it was truncated, missing rows would go unnoticed.
 * @param headers headers of a response
 */
export function assertHasEnd(headers: Record<string, unknown>): void {
  if (headers['transfer-encoding'] !== undefined || headers['content-length'] !== undefined) return
  throw new Error('the response has neither a length nor chunks; a proxy in front of ClickHouse must use HTTP/1.1')
}

/** ClickHouse did not respond within the time set for the query. */
export class StoreTimeoutError extends StoreUnreachableError {
  override readonly name = 'StoreTimeoutError'
}

/** All slots for reads, or those of the project, are in use; no query was sent. */
export class NoSlotError extends Error {
  override readonly name = 'NoSlotError'
}

/** A statement with its parameters exceeds the limits of any request to ClickHouse. */
export class StatementTooLargeError extends Error {
  override readonly name = 'StatementTooLargeError'
}

/** One of several shards did not respond. The message names it, and may be shown to callers. */
export class ShardUnreachableError extends StoreUnreachableError {
  override readonly name = 'ShardUnreachableError'

  /** @param shard its number, and its host:port */
  constructor(shard: { number: number; name: string }, cause: unknown) {
    super(`Shard ${shard.number} (${shard.name}) of the store is unavailable. Try again in a moment.`, { cause })
  }
}

/** The configured shards cannot form one store. The message says what to do; a retry does not help. */
export class ShardsError extends Error {
  override readonly name = 'ShardsError'
}

/** A part that ClickHouse could not read. */
export interface UnreadablePart {
  /** null if the error does not name it */
  table: string | null
  part: string
}

/** The name of a part in the path of one of its files, or as it appears in ClickHouse's messages. */
const PART_NAME = '((?:patch-[0-9a-f]+-)?[0-9A-Za-z]+(?:_\\d+){3,4})'
const NAMED_PART = new RegExp(`(?:\\b(?:reading|data) part |/)${PART_NAME}(?=[/\\s:.,')]|$)`)
const NAMED_TABLE = / in table (?:[^\s.]+\.)?([\w-]+)/

/** The system was short of memory or open files (ENOMEM, ENFILE, EMFILE): the file is not damaged. */
const SHORTAGE = /\berrno: (?:12|23|24)\b/

/** The damaged part that ClickHouse could not read; null for any other error. */
export function findUnreadablePart(error: unknown): UnreadablePart | null {
  if (!(error instanceof StoreError) || !DAMAGE_ERRORS.has(error.code) || SHORTAGE.test(error.words)) return null
  const part = NAMED_PART.exec(error.words)?.[1]
  return part === undefined ? null : { part, table: NAMED_TABLE.exec(error.words)?.[1] ?? null }
}

/** Matches an error's number, message and name. A server that asks others repeats all three; the last is the cause. */
const SENT = /(?:Code|Error): (\d+).*Exception: (.+?)\(((?=[A-Z0-9_]*[A-Z]{3})[A-Z0-9_]+)\)/s

/**
 * Reads the text of an error that ClickHouse or a proxy sent.
 * @param code the number in the headers, if there is one: the text may be truncated before the name
 */
export function readError(text: string, code?: string | string[]): Error {
  const [, number, message = '', type] = SENT.exec(text) ?? []
  if (number !== undefined) return new StoreError(Number(number), message, type)
  return code === undefined ? new Error(text) : new StoreError(Number(code), text)
}

/** Whether ClickHouse answered with one of these errors. */
export function isStoreError(error: unknown, ...names: StoreErrorName[]): error is StoreError {
  return error instanceof StoreError && names.some((name) => CODES[name] === error.code)
}

/** Waits for a query, and returns `otherwise` if the user of the connection lacks the right to it. */
export async function orIfDenied<T>(query: Promise<T>, otherwise: T): Promise<T> {
  try {
    return await query
  } catch (error) {
    if (isStoreError(error, 'ACCESS_DENIED')) return otherwise
    throw error
  }
}

/** Whether ClickHouse rejected the data itself, and so stored nothing of the block. */
export function isDataError(error: unknown): error is StoreError {
  return error instanceof StoreError && DATA_ERRORS.has(error.code) && findUnreadablePart(error) === null
}

/**
 * Whether ClickHouse ran out of memory: for a query, a user or the whole server. Some of the block may be stored,
 * because each month of its events becomes a separate part.
 */
export function isMemoryError(error: unknown): error is StoreError {
  return isStoreError(error, 'MEMORY_LIMIT_EXCEEDED')
}

/** Whether the server as a whole ran out of memory, rather than this query, so the same query may soon succeed. */
export function isServerOutOfMemory(error: unknown): error is StoreError {
  return isMemoryError(error) && !error.words.includes('Query memory limit exceeded')
}

/** Whether a query exceeded its time limit, ours or the server's own, so that a smaller one may succeed. */
export function isTimeout(error: unknown): boolean {
  return error instanceof StoreTimeoutError || isStoreError(error, 'TIMEOUT_EXCEEDED')
}

/** Whether a query exceeded any limit, so that a smaller one may succeed. */
export function isTooLarge(error: unknown): boolean {
  if (findUnreadablePart(error)) return false
  if (isTimeout(error) || isMemoryError(error) || error instanceof StatementTooLargeError) return true
  return isStoreError(
    error,
    'TOO_SLOW',
    'TOO_LARGE_ARRAY_SIZE',
    'TOO_DEEP_AST',
    'TOO_BIG_AST',
    'TOO_MANY_ROWS_OR_BYTES',
  )
}

/**
 * Whether retrying cannot help: ClickHouse refuses the login, or the error is neither about ClickHouse nor about a
 * journal that is unavailable or full.
 */
export function isFatal(error: unknown): boolean {
  if (error instanceof StoreError) return LOGIN_ERRORS.has(error.code)
  if (error instanceof ApiError) return error.status !== 503
  return !(error instanceof StoreUnreachableError)
}

/** Whether the server could not read from another one, or is shutting down. */
export function isShardLost(error: unknown): error is StoreError {
  if (findUnreadablePart(error)) return false
  return isStoreError(
    error,
    'ALL_CONNECTION_TRIES_FAILED',
    'NETWORK_ERROR',
    'SOCKET_TIMEOUT',
    'ATTEMPT_TO_READ_AFTER_EOF',
    'ABORTED',
  )
}

/**
 * Whether a failure says nothing about the statement itself, so that the same one may soon succeed: ClickHouse was
 * stopped or busy, or others took its memory or disk.
 */
export function isPassing(error: unknown): boolean {
  if (isTimeout(error)) return false
  if (error instanceof StoreUnreachableError || isServerOutOfMemory(error) || isShardLost(error)) return true
  return isStoreError(
    error,
    'QUERY_WAS_CANCELLED',
    'TOO_MANY_SIMULTANEOUS_QUERIES',
    'NOT_ENOUGH_SPACE',
    // without space, if ClickHouse was not short of it when the statement began
    'CANNOT_WRITE_TO_FILE_DESCRIPTOR',
    'TOO_MANY_PARTS',
    'TABLE_IS_READ_ONLY',
  )
}

/** Failures that an operator can act on; all other errors of ClickHouse are `store`. */
export type StoreFailure = 'unreachable' | 'too_many_parts' | 'memory' | 'disk' | 'store'

/** The kind of failure for metrics; null if the error is not about ClickHouse. */
export function classifyStoreFailure(error: unknown): StoreFailure | null {
  if (error instanceof StoreUnreachableError) return 'unreachable'
  if (!(error instanceof StoreError)) return null
  switch (error.code) {
    case CODES.MEMORY_LIMIT_EXCEEDED:
      return 'memory'
    case CODES.NOT_ENOUGH_SPACE:
      return 'disk'
    case CODES.TOO_MANY_PARTS:
      return 'too_many_parts'
    default:
      return 'store'
  }
}

function toCodes(names: StoreErrorName[]): Set<number> {
  return new Set(names.map((name) => CODES[name]))
}

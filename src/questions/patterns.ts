import { isStoreError } from '../clickhouse/errors.js'
import { type ClickHouseSettings, QueryParameters } from '../clickhouse/parameters.js'
import { ApiError, invalidFields } from '../contract/errors.js'
import { parsePattern } from './pattern-syntax.js'
import type { Query } from './statement.js'

/** A regular expression in a question. */
export interface Pattern {
  /** a JSON pointer */
  path: string
  pattern: string
}

/** Runs a query that tests patterns. */
type Run = (query: Pick<Query, 'sql' | 'parameters'>) => Promise<unknown>

/** Maximum number of invalid patterns in an error. */
const MAX_INVALID = 10

/**
 * Makes `.` exclude line breaks. Also keeps ClickHouse from dropping a lone backslash and treating the rest as plain
 * text.
 */
const FLAGS = '(?-s)'

/**
 * Maximum size of all patterns of a question, with repetitions expanded. ClickHouse cannot end a query while it tests a
 * text, and RE2 takes up to 5 ns per character and instruction of a pattern with many repetitions. It compiles no
 * pattern larger than eight times this.
 */
const MAX_SIZE = 50_000
/** Maximum size of the patterns in a project's definition of sessions, which a question has in addition to its own. */
const MAX_PROJECT_SIZE = 5_000

/** Instructions times bytes that ClickHouse tests before it checks whether a query must end: a few seconds. */
const BLOCK_WORK = 2 ** 30
const MAX_BLOCK_BYTES = 2 ** 20
const MIN_BLOCK_BYTES = 16 * 1024
/** Assumed minimum bytes of a text, and minimum rows of a block. */
const ROW_BYTES = 64
const MIN_ROWS = 128
/** ClickHouse's default block size. */
const MAX_ROWS = 65_409

/** The regular expressions of all filters of a question, or of one filter. @param path where it is in the request */
export function findPatterns(value: unknown, path = ''): Pattern[] {
  if (typeof value !== 'object' || value === null) return []
  if (Array.isArray(value) && value[0] === 'matches' && value.length === 3) {
    return [value[2]].flat().flatMap((pattern: unknown, i, { length }) => {
      return typeof pattern === 'string' ? [{ path: length > 1 ? `${path}/2/${i}` : `${path}/2`, pattern }] : []
    })
  }
  return Object.entries(value).flatMap(([name, member]) => findPatterns(member, `${path}/${name}`))
}

/**
 * Joins patterns into as few as possible, one of which matches if any of `patterns` does. ClickHouse compiles a
 * constant once, and RE2 tests all alternatives in one pass over the text.
 */
export function joinPatterns(patterns: readonly string[]): string[] {
  if (patterns.length <= 1) return patterns.map((pattern) => FLAGS + pattern)
  const parts = new Set<string>()
  // Invalid UTF-8 changes how RE2 reads a whole pattern.
  const odd = new Set<string>()
  const alone = new Set<string>()
  for (const pattern of patterns) {
    const { part } = parsePattern(pattern)
    if (part === null) alone.add(pattern)
    else (part.isWellFormed() ? parts : odd).add(`(?:${part})`)
  }
  return [[...parts].join('|'), [...odd].join('|'), ...alone].filter((text) => text !== '').map((text) => FLAGS + text)
}

/**
 * Settings that keep a query with these patterns interruptible.
 * @throws ApiError `query_too_large` if the patterns are too large
 */
export function choosePatternSettings(patterns: readonly Pattern[]): ClickHouseSettings {
  const size = measure(patterns, MAX_SIZE + MAX_PROJECT_SIZE)
  if (size === null) throw toPatternsTooLargeError()
  const bytes = Math.floor(BLOCK_WORK / Math.max(1, size))
  if (bytes >= MAX_BLOCK_BYTES) return {}
  const rows = Math.min(MAX_ROWS, Math.max(MIN_ROWS, Math.floor(bytes / ROW_BYTES)))
  return {
    max_block_size: String(rows),
    preferred_block_size_bytes: String(Math.max(MIN_BLOCK_BYTES, bytes)),
  }
}

/** Whether a project's definition of sessions can have these patterns. */
export function fitsProject(patterns: readonly Pattern[]): boolean {
  return measure(patterns, MAX_PROJECT_SIZE) !== null
}

/** @returns null if the patterns are larger than `most` in total */
function measure(patterns: readonly Pattern[], most: number): number | null {
  let size = 0
  for (const { pattern } of patterns) {
    size += parsePattern(pattern).size
    // Stop early, because a body may have a megabyte of patterns.
    if (size > most) return null
  }
  return size
}

/**
 * @param run runs a query
 * @throws ApiError that names the patterns that RE2 rejects, and what `run` throws
 */
export async function checkPatterns(patterns: readonly Pattern[], run: Run): Promise<void> {
  const invalid = await findInvalid(patterns, run)
  const message = 'must be an RE2 regular expression, without look-around and back references'
  const details = invalid.slice(0, MAX_INVALID).map(({ path }) => ({ path, message }))
  if (details.length > 0) throw invalidFields(details)
}

/** Bisects the patterns to find invalid ones: there may be many patterns, and most are valid. */
async function findInvalid(patterns: readonly Pattern[], run: Run): Promise<readonly Pattern[]> {
  if (patterns.length === 0) return []
  const fields = new QueryParameters()
  const array = fields.array(patterns.map(({ pattern }) => joinPatterns([pattern])[0] ?? ''))
  const sql = `SELECT arrayMap(pattern -> match('', pattern), ${array}) AS matches`
  const areValid = await run({ sql, parameters: fields.parameters }).then(
    () => true,
    (error) => {
      if (isStoreError(error, 'CANNOT_COMPILE_REGEXP', 'BAD_ARGUMENTS')) return false
      throw error
    },
  )
  if (areValid) return []
  if (patterns.length === 1) return patterns
  const half = Math.ceil(patterns.length / 2)
  const found = await findInvalid(patterns.slice(0, half), run)
  if (found.length >= MAX_INVALID) return found
  return [...found, ...(await findInvalid(patterns.slice(half), run))]
}

/** @param cause ClickHouse's error if it could not compile them although each is valid */
export function toPatternsTooLargeError(cause?: unknown): ApiError {
  const message =
    'The regular expressions of the question are too large once repetitions such as {1,500} are written out. ' +
    'Use fewer of them, or smaller repetitions.'
  return new ApiError('query_too_large', message, { cause })
}

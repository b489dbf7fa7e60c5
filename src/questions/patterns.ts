import type { ClickHouseSettings } from '@clickhouse/client'
import { ApiError } from '../contract/errors.js'
import type { Question } from '../contract/questions.js'
import { parsePattern } from './pattern-syntax.js'

/** A regular expression in a question, and where. */
export interface Pattern {
  /** a JSON pointer */
  path: string
  pattern: string
}

/**
 * `.` does not match line breaks, as it would in ClickHouse, which also takes a lone backslash for a plain text without
 * it.
 */
const FLAGS = '(?-s)'

/**
 * Maximum size of all patterns of a question, with their repetitions written out. ClickHouse cannot end a query while
 * it tests one text, and RE2 takes up to 5 ns for each character of it and each instruction of a pattern with many
 * repetitions. It compiles none that is larger than eight times this.
 */
const MAX_SIZE = 50_000

/**
 * What ClickHouse tests between two looks at whether a query must end: instructions times bytes, for a second or a few.
 */
const BLOCK_WORK = 2 ** 30
const MAX_BLOCK_BYTES = 2 ** 20
const MIN_BLOCK_BYTES = 16 * 1024
/** Bytes that a text has at least, and the least rows of a block. */
const ROW_BYTES = 64
const MIN_ROWS = 128
/** ClickHouse's own. */
const MAX_ROWS = 65_409

/** The regular expressions of all filters of a question. */
export function findPatterns(question: Question): Pattern[] {
  return collectPatterns(question, '')
}

/**
 * As few regular expressions as possible, one of which matches if one of `patterns` does. ClickHouse compiles a
 * constant once, and RE2 tests all its alternatives in one pass over the text.
 */
export function joinPatterns(patterns: readonly string[]): string[] {
  if (patterns.length <= 1) return patterns.map((pattern) => FLAGS + pattern)
  const parts = new Set<string>()
  // Bytes that are no UTF-8 change how RE2 reads a whole pattern.
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
 * Settings with which a query that tests these patterns can be ended at any time.
 * @throws ApiError `query_too_large` if they are too large
 */
export function choosePatternSettings(patterns: readonly Pattern[]): ClickHouseSettings {
  let size = 0
  for (const { pattern } of patterns) {
    size += parsePattern(pattern).size
    // At the first that is too much: a body may have a megabyte of them.
    if (size > MAX_SIZE) throw toPatternsTooLargeError()
  }
  const bytes = Math.floor(BLOCK_WORK / Math.max(1, size))
  if (bytes >= MAX_BLOCK_BYTES) return {}
  const rows = Math.min(MAX_ROWS, Math.max(MIN_ROWS, Math.floor(bytes / ROW_BYTES)))
  return {
    max_block_size: String(rows),
    preferred_block_size_bytes: String(Math.max(MIN_BLOCK_BYTES, bytes)),
  }
}

/** @param cause of ClickHouse, which could not compile them although each is valid */
export function toPatternsTooLargeError(cause?: unknown): ApiError {
  const message =
    'The regular expressions of the question are too large once repetitions such as {1,500} are written out. ' +
    'Use fewer of them, or smaller repetitions.'
  return new ApiError('query_too_large', message, { cause })
}

function collectPatterns(value: unknown, path: string): Pattern[] {
  if (typeof value !== 'object' || value === null) return []
  if (Array.isArray(value) && value[0] === 'matches' && value.length === 3) {
    return [value[2]].flat().flatMap((pattern: unknown, i, { length }) => {
      return typeof pattern === 'string' ? [{ path: length > 1 ? `${path}/2/${i}` : `${path}/2`, pattern }] : []
    })
  }
  return Object.entries(value).flatMap(([name, member]) => collectPatterns(member, `${path}/${name}`))
}

import type { ParseArgsConfig } from 'node:util'
import { toMilliseconds } from '../vendors/time.js'
import { parseOptions, UsageError } from './command.js'

/** Options of commands that read a service's events. */
const EVENT_OPTIONS = {
  url: { type: 'string' },
  'key-file': { type: 'string' },
  event: { type: 'string' },
  'distinct-id': { type: 'string' },
  from: { type: 'string' },
  to: { type: 'string' },
} as const

/**
 * Parses the options of a command that reads events.
 * @param more the command's own options
 * @throws UsageError
 */
export function parseEventOptions<const More extends NonNullable<ParseArgsConfig['options']>>(
  args: string[],
  more: More,
) {
  return parseOptions({ args, options: { ...EVENT_OPTIONS, ...more } }).values
}

/**
 * Parses a time to milliseconds since 1970. Digits are milliseconds, as in the API's query; no ISO time consists of
 * digits only.
 * @throws UsageError
 */
export function readTime(name: string, text: string | undefined): string | undefined {
  if (text === undefined || /^\d+$/.test(text)) return text
  const ms = toMilliseconds(text, 'iso')
  if (ms === null || ms < 0)
    throw new UsageError(`${name} must be milliseconds since 1970, or like 2024-01-31T12:00:00Z.`)
  return String(ms)
}

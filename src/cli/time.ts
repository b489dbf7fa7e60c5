import { toMilliseconds } from '../vendors/time.js'
import { UsageError } from './command.js'

/**
 * A time among the options, in milliseconds since 1970. Digits are milliseconds, as in the API's query; no ISO time
 * consists of digits only.
 * @throws UsageError
 */
export function readTime(name: string, text: string | undefined): string | undefined {
  if (text === undefined || /^\d+$/.test(text)) return text
  const ms = toMilliseconds(text, 'iso')
  if (ms === null || ms < 0)
    throw new UsageError(`${name} must be milliseconds since 1970, or like 2024-01-31T12:00:00Z.`)
  return String(ms)
}

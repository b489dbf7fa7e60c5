import type { ParseArgsConfig } from 'node:util'
import { parseOptions } from './command.js'

/** Of commands that read the events of a service, or those of them that are chosen. */
const EVENT_OPTIONS = {
  url: { type: 'string' },
  'key-file': { type: 'string' },
  event: { type: 'string' },
  'distinct-id': { type: 'string' },
  from: { type: 'string' },
  to: { type: 'string' },
} as const

/**
 * The options of such a command.
 * @param more the others that it has
 * @throws UsageError
 */
export function parseEventOptions<const More extends NonNullable<ParseArgsConfig['options']>>(
  args: string[],
  more: More,
) {
  return parseOptions({ args, options: { ...EVENT_OPTIONS, ...more } }).values
}

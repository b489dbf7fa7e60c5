import type { ParseArgsConfig } from 'node:util'
import type { Connection } from '../client/connection.js'
import type { Warning } from '../contract/warning.js'
import { toMilliseconds } from '../vendors/time.js'
import { replaceControls } from './columns.js'
import { type CommandIo, parseOptions, UsageError } from './command.js'
import { TARGET_OPTIONS } from './target.js'

/** Options of commands that read a service's events. */
const EVENT_OPTIONS = {
  ...TARGET_OPTIONS,
  event: { type: 'string' },
  'distinct-id': { type: 'string' },
  'session-id': { type: 'string' },
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

/** Prints warnings of a response. */
export function printWarnings(warnings: readonly Warning[] = [], { stderr }: Pick<CommandIo, 'stderr'>): void {
  for (const { message } of warnings) stderr.write(`Warning: ${replaceControls(message)}\n`)
}

/** Warns if no event has a name. Never rejects: the command's own call reports the service's error. */
export async function warnOfUnknownEvent(
  connection: Connection,
  event: string,
  io: Pick<CommandIo, 'stderr' | 'signal'>,
): Promise<void> {
  const path = `/public/schema/properties?${new URLSearchParams({ event })}`
  const names = await connection.call({ method: 'GET', path }, { signal: io.signal }).catch(() => null)
  printWarnings(names?.value.warnings as Warning[] | undefined, io)
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
    throw new UsageError(`${name} must be milliseconds since 1970, or a time such as 2024-01-31T12:00:00Z.`)
  return String(ms)
}

import type { Writable } from 'node:stream'
import { type BaseLogger, type LevelWithSilent, type Logger, pino, stdSerializers } from 'pino'

/** The log of a part. A part that needs fewer levels uses `Pick`. */
export type Log = Pick<BaseLogger, 'fatal' | 'error' | 'warn' | 'info' | 'debug'>

/**
 * The log of the process: JSON lines on stdout, or readable lines on a terminal. Only the message,
 * stack and code of an error are logged, because libraries attach more. For example, ioredis attaches
 * the whole command with its data.
 */
export async function openLog(level: LevelWithSilent): Promise<Logger> {
  const { isTTY } = process.stdout
  return isTTY ? await openTerminalLog(level) : pino({ level, serializers: { err: describeError } })
}

/** Logs one line per entry, with only the innermost frame of an error's stack. */
export async function openTerminalLog(level: LevelWithSilent, destination?: Writable): Promise<Logger> {
  const { default: pretty } = await import('pino-pretty')
  const lines = pretty({ sync: true, ignore: 'pid,hostname', singleLine: true, destination: destination ?? 1 })
  // pino-pretty would spread a field named `err` over several lines.
  const log = ({ err, ...rest }: Record<string, unknown>) => (err === undefined ? rest : { ...rest, ...inShort(err) })
  return pino({ level, formatters: { log } }, lines)
}

function inShort(error: unknown): object {
  const { type, message, stack = '' } = describeError(error)
  const [, at] = /\n {4}at (.*)/.exec(stack) ?? []
  return { reason: `${type}: ${message}`, at }
}

interface ErrorDescription {
  type: string
  message: string
  stack?: string
  code?: unknown
}

/** Includes the messages and stacks of its causes. */
export function describeError(error: unknown): ErrorDescription {
  if (!(error instanceof Error)) return { message: 'a value that is not an Error was thrown', type: typeof error }
  const { type, message, stack } = stdSerializers.err(error)
  return { type, message, stack, ...('code' in error && { code: error.code }) }
}

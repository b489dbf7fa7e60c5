import type { Writable } from 'node:stream'
import { type BaseLogger, type LevelWithSilent, type Logger, pino, stdSerializers } from 'pino'

/** What a part logs to. A part says with `Pick` where it needs less. */
export type Log = Pick<BaseLogger, 'fatal' | 'error' | 'warn' | 'info' | 'debug'>

/**
 * The log of the process, as JSON lines on stdout; on a terminal, as lines for people. Of an error only its words are
 * taken: libraries hang more on it, ioredis the whole command with the data in it.
 */
export async function openLog(level: LevelWithSilent): Promise<Logger> {
  const { isTTY } = process.stdout
  return isTTY ? await openTerminalLog(level) : pino({ level, serializers: { err: describeError } })
}

/** A line for each entry, errors included: of their trace it has the place alone. */
export async function openTerminalLog(level: LevelWithSilent, destination?: Writable): Promise<Logger> {
  const { default: pretty } = await import('pino-pretty')
  const lines = pretty({ sync: true, ignore: 'pid,hostname', singleLine: true, destination: destination ?? 1 })
  // Under the name `err` it would be spread over lines.
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

/** With the messages and traces of its causes. */
export function describeError(error: unknown): ErrorDescription {
  if (!(error instanceof Error)) return { message: 'something that is no error was thrown', type: typeof error }
  const { type, message, stack } = stdSerializers.err(error)
  return { type, message, stack, ...('code' in error && { code: error.code }) }
}

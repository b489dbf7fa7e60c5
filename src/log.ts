import { type Logger, pino, stdSerializers } from 'pino'
import type { Config } from './config.js'

/**
 * The log of the process, as JSON lines on stdout; on a terminal, as lines for people. Of an error only its words are
 * taken: libraries hang more on it, ioredis the whole command with the data in it.
 */
export async function openLog(level: Config['LOG_LEVEL']): Promise<Logger> {
  const options = { level, serializers: { err: describeError } }
  if (!process.stdout.isTTY) return pino(options)
  const { default: pretty } = await import('pino-pretty')
  return pino(options, pretty({ sync: true, ignore: 'pid,hostname' }))
}

/** With the messages and traces of its causes. */
export function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: 'something that is no error was thrown', type: typeof error }
  const { type, message, stack } = stdSerializers.err(error)
  return { type, message, stack, ...('code' in error && { code: error.code }) }
}

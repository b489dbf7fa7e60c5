import type { CommandIo } from './command.js'

/**
 * How long the reader of the output may take for the rest after an interruption. A reader that has stalled must not
 * block the exit.
 */
const STOP_LIMIT_MS = 2_000

/** Standard output could not be written. The process says why and sets its exit code (cli.ts), so a command need not. */
export class OutputError extends Error {
  override readonly name = 'OutputError'
  /** whether the reader of the output, such as `head`, has closed it; only then may a command end with 0 */
  readonly isClosed: boolean

  constructor(cause: NodeJS.ErrnoException) {
    super('Standard output could not be written.', { cause })
    this.isClosed = isClosedPipe(cause)
  }
}

export function isClosedPipe({ code }: NodeJS.ErrnoException): boolean {
  return code === 'EPIPE'
}

/** Writes to standard output; resolves when the bytes are accepted. */
export type WriteOutput = (bytes: string | Uint8Array) => Promise<void>

/**
 * Opens standard output for a command that has more to write than fits in memory, or writes until it is stopped.
 * @returns rejects with an OutputError, or with the reason of `signal` if the reader takes nothing after an interruption
 */
export function openOutput({ stdout, signal }: Pick<CommandIo, 'stdout' | 'signal'>): WriteOutput {
  // The callback of the write reports the error. It is emitted as well, and later, so the listener stays.
  stdout.on('error', ignore)
  return (bytes) =>
    new Promise((resolve, reject) => {
      let stopping: NodeJS.Timeout | undefined
      const stop = () => {
        stopping = setTimeout(() => reject(signal.reason), STOP_LIMIT_MS)
      }
      signal.addEventListener('abort', stop)
      if (signal.aborted) stop()
      stdout.write(bytes, (error) => {
        signal.removeEventListener('abort', stop)
        clearTimeout(stopping)
        if (error) reject(new OutputError(error))
        else resolve()
      })
    })
}

function ignore(): void {}

/**
 * Writes a stream to standard output, until it ends or its reader, such as `head`, has seen enough.
 * @throws OutputError if the output cannot be written; the error of the stream
 */
export async function writeAll(
  chunks: AsyncIterable<string | Uint8Array>,
  io: Pick<CommandIo, 'stdout' | 'signal'>,
): Promise<void> {
  const write = openOutput(io)
  try {
    for await (const chunk of chunks) await write(chunk)
  } catch (error) {
    if (!(error instanceof OutputError && error.isClosed)) throw error
  }
}

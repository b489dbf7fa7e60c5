import type { Readable, Writable } from 'node:stream'

/** What a command may touch of its process. */
export interface CommandIo {
  env: NodeJS.ProcessEnv
  stdin: Readable
  stdout: Writable & { isTTY?: boolean; columns?: number }
  /** progress and messages; `stdout` holds results only */
  stderr: Writable & { isTTY?: boolean; columns?: number }
  /** aborted by the first Ctrl-C or SIGTERM: the command finishes what would otherwise be lost, and ends */
  signal: AbortSignal
}

export interface Command {
  /** one line for the list of commands */
  summary: string
  /** the whole help text, without a line end */
  usage: string
  /**
   * @returns the exit code: 0 where all was done, 1 where something was not
   * @throws UsageError where the arguments cannot be understood
   */
  run(args: string[], io: CommandIo): Promise<number>
}

/** The arguments cannot be understood; the message says what to write instead. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

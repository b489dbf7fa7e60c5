import cluster from 'node:cluster'
import type { Log } from '../lib/log.js'
import { onParentEnd } from '../lib/on-parent-end.js'

/** A shutdown that takes longer is abandoned. Nothing that was acknowledged is lost, because it is in the journal. */
export const CLOSE_LIMIT_MS = 4_500

/**
 * Ends the process: with exit code 0 on a signal, with 1 after a fatal error or a failed shutdown.
 */
export class Lifetime {
  readonly #log: Log
  #close: (() => Promise<unknown>) | null = null
  #isEnding = false

  constructor(log: Log) {
    this.#log = log
  }

  /** From now on, SIGTERM and SIGINT run `close` before the process exits. */
  endWith(close: () => Promise<unknown>): void {
    this.#close = close
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => this.#end(0))
    this.#endWithParent()
  }

  /**
   * `npm start` passes `--parent=PID`: the service ends with that process, however it ends. npm
   * forwards signals, but cannot forward the SIGKILL that kills npm itself.
   */
  #endWithParent(): void {
    const argument = process.argv.find((text) => text.startsWith('--parent='))
    const parent = Number(argument?.slice('--parent='.length))
    // A worker inherits the arguments, but its parent is the primary, with which it exits anyway.
    if (!parent || cluster.isWorker) return
    onParentEnd(parent, () => {
      this.#log.warn({ parent }, 'the process that started the service has ended; shutting down')
      void this.#end(0)
    })
  }

  fail(error: unknown): void {
    this.#log.fatal({ err: error }, 'fatal error; the service shuts down')
    void this.#end(1)
  }

  async #end(code: number): Promise<void> {
    // Ctrl-C under npm sends the signal twice.
    if (this.#isEnding) return
    this.#isEnding = true
    setTimeout(() => this.#abandon(), CLOSE_LIMIT_MS).unref()
    try {
      await this.#close?.()
    } catch (error) {
      this.#log.error({ err: error }, 'the shutdown failed')
      process.exit(1)
    }
    process.exit(code)
  }

  #abandon(): never {
    const seconds = CLOSE_LIMIT_MS / 1_000
    this.#log.warn(`the shutdown took longer than ${seconds} s and was abandoned; nothing acknowledged is lost`)
    process.exit(1)
  }
}

import { setTimeout as wait } from 'node:timers/promises'
import type { Log } from '../lib/log.js'

/** More are not taken on: the next who asks begins it again. */
const MAX_WAITING = 100
/** Who opens a page asks for several lists at once, and they come first, ms. */
const CALM_MS = 250

/** Work behind the calls, one piece after the other, once no more has come for a while. */
export class Backlog {
  readonly #log: Pick<Log, 'info'>
  readonly #waiting: (() => Promise<void>)[] = []
  #running: Promise<void> | undefined
  #addedAt = 0
  #hurry = new AbortController()

  constructor(log: Pick<Log, 'info'>) {
    this.#log = log
  }

  /**
   * Runs a piece of work in its turn. A failure is logged, and nothing else.
   * @returns whether it will be run: not if too many wait
   */
  add(run: () => Promise<void>): boolean {
    if (this.#waiting.length >= MAX_WAITING) return false
    this.#waiting.push(run)
    this.#addedAt = performance.now()
    this.#running ??= this.#run()
    return true
  }

  /** Resolves when nothing is left to do, and begins it at once. */
  async settled(): Promise<void> {
    this.#hurry.abort()
    while (this.#running) await this.#running
    this.#hurry = new AbortController()
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      await this.#calm()
      try {
        await this.#waiting.shift()?.()
      } catch (error) {
        this.#log.info({ err: error }, 'names to ask about could not be read anew')
      }
    }
    this.#running = undefined
  }

  async #calm(): Promise<void> {
    const { signal } = this.#hurry
    for (;;) {
      const left = this.#addedAt + CALM_MS - performance.now()
      if (left <= 0 || signal.aborted) return
      await wait(left, undefined, { signal, ref: false }).catch(() => undefined)
    }
  }
}

import { setTimeout as wait } from 'node:timers/promises'
import type { Log } from '../lib/log.js'

/** Pieces of work that may wait; further ones are dropped, and the next request starts them again. */
const MAX_WAITING = 100
/**
 * How long no work must have been added before it runs, ms: a page requests several lists at once, and they come first.
 */
const CALM_MS = 250

/** Runs work in the background, one piece after another, once no more has been added for CALM_MS. */
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
   * Adds a piece of work. If it fails, that is only logged.
   * @returns whether it will run: false if too many wait
   */
  add(run: () => Promise<void>): boolean {
    if (this.#waiting.length >= MAX_WAITING) return false
    this.#waiting.push(run)
    this.#addedAt = performance.now()
    this.#running ??= this.#run()
    return true
  }

  /** Runs all waiting work at once; resolves when none is left. */
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
        this.#log.info({ err: error }, 'a list of names could not be refreshed; the next request for it tries again')
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

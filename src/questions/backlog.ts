import { setTimeout as wait } from 'node:timers/promises'
import type { Log } from '../lib/log.js'

/** Maximum number of waiting tasks; more are dropped, and the next request adds them again. */
const MAX_WAITING = 100
/** How long no task may have been added before the next one runs, ms: a page requests several lists together first. */
const CALM_MS = 250

/** Runs tasks in the background, one after another, once none has been added for CALM_MS. */
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
   * Adds a task. If it fails, that is only logged.
   * @returns whether it will run: false if too many wait
   */
  add(run: () => Promise<void>): boolean {
    if (this.#waiting.length >= MAX_WAITING) return false
    this.#waiting.push(run)
    this.#addedAt = performance.now()
    this.#running ??= this.#run()
    return true
  }

  /** Runs all waiting tasks without delay; resolves when none is left. */
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

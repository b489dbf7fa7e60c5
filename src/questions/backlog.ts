import type { Log } from '../lib/log.js'
import { OwnerQueue } from '../lib/owner-queue.js'
import { pause } from '../lib/pause.js'

/** Maximum number of a project's waiting tasks; more are dropped, and the next request adds them again. */
const MAX_WAITING = 100
/** The waiting tasks run once none was added for this long, ms: a page requests several lists at the same time. */
const CALM_MS = 250
/** Maximum wait of the first task, ms, because tasks may keep arriving. */
const MAX_CALM_MS = 2_000

/**
 * Runs tasks in the background, one after another, as soon as no task was added for CALM_MS, and at the latest
 * MAX_CALM_MS after the first one. Projects take turns.
 */
export class Backlog {
  readonly #log: Pick<Log, 'info'>
  readonly #waiting = new OwnerQueue<() => Promise<void>>()
  #running: Promise<void> | undefined
  #addedAt = 0
  /** when the first task was added since the queue was empty */
  #filledAt = 0
  #hurry = new AbortController()

  constructor(log: Pick<Log, 'info'>) {
    this.#log = log
  }

  /**
   * Adds a task. A failure of the task is only logged.
   * @returns whether it will run: false if too many of the project wait
   */
  add(projectId: string, run: () => Promise<void>): boolean {
    if (this.#waiting.count(projectId) >= MAX_WAITING) return false
    this.#addedAt = performance.now()
    if (this.#waiting.isEmpty) this.#filledAt = this.#addedAt
    this.#waiting.add(projectId, run)
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
    while (!this.#waiting.isEmpty) {
      await this.#calm()
      try {
        await this.#waiting.next()?.()
      } catch (error) {
        this.#log.info({ err: error }, 'a list of names could not be refreshed; the next request for it tries again')
      }
    }
    this.#running = undefined
  }

  async #calm(): Promise<void> {
    const { signal } = this.#hurry
    for (;;) {
      const left = Math.min(this.#addedAt + CALM_MS, this.#filledAt + MAX_CALM_MS) - performance.now()
      if (left <= 0 || signal.aborted) return
      await pause(left, signal)
    }
  }
}

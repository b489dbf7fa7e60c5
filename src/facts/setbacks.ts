import { type Backoff, backoffMs } from '../lib/backoff.js'

/** Pauses after the failures of a project. */
const BACKOFF: Backoff = { firstMs: 1_000, maxMs: 5 * 60_000 }

/**
 * The projects whose last attempt failed. They are tried again one by one, less and less often, so that a project that
 * always fails does not hold up the others.
 */
export class Setbacks {
  readonly #backoff: Backoff
  readonly #failed = new Map<string, { failures: number; retryAt: number }>()

  constructor(backoff = BACKOFF) {
    this.#backoff = backoff
  }

  /** Notes that an attempt failed. @param projects several if any of them may be the cause */
  note(projects: readonly string[]): void {
    const isCause = projects.length === 1
    for (const project of projects) {
      const failures = this.count(project) + Number(isCause)
      const pauseMs = isCause ? backoffMs(this.#backoff, failures) : 0
      this.#failed.set(project, { failures, retryAt: performance.now() + pauseMs })
    }
  }

  /** Forgets projects; all of them by default. */
  clear(projects: Iterable<string> = [...this.#failed.keys()]): void {
    for (const project of projects) this.#failed.delete(project)
  }

  /** Whether a project's last attempt failed, so that the next attempt must not include other projects. */
  has(project: string): boolean {
    return this.#failed.has(project)
  }

  /** Whether it is too early for the next attempt. */
  isPaused(project: string): boolean {
    return (this.#failed.get(project)?.retryAt ?? Number.NEGATIVE_INFINITY) > performance.now()
  }

  /** The projects of `isPaused`. */
  get paused(): string[] {
    return [...this.#failed.keys()].filter((project) => this.isPaused(project))
  }

  /** The number of consecutive failures that a project has caused. */
  count(project: string): number {
    return this.#failed.get(project)?.failures ?? 0
  }
}

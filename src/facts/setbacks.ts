import { type Backoff, backoffMs } from '../lib/backoff.js'

/** Pauses after the failures of a project. */
const BACKOFF: Backoff = { firstMs: 1_000, maxMs: 5 * 60_000 }
/** A project that has failed this often is stuck. */
const MAX_FAILURES = 10

/**
 * The projects whose last attempt failed. They are tried again one by one, less and less often, so that a project that
 * always fails does not hold up the others.
 */
export class Setbacks {
  readonly #backoff: Backoff
  readonly #failed = new Map<string, { failures: number; retryAt: number; isStuck: boolean }>()

  constructor(backoff = BACKOFF) {
    this.#backoff = backoff
  }

  /**
   * Notes that an attempt failed.
   * @param projects several if any of them may be the cause
   * @param isLasting whether waiting cannot help
   */
  note(projects: readonly string[], { isLasting }: { isLasting: boolean }): void {
    const isCause = projects.length === 1
    for (const project of projects) {
      const failures = (this.#failed.get(project)?.failures ?? 0) + Number(isCause)
      const pauseMs = isCause ? backoffMs(this.#backoff, failures) : 0
      const isStuck = this.isStuck(project) || (isLasting && failures >= MAX_FAILURES)
      this.#failed.set(project, { failures, retryAt: performance.now() + pauseMs, isStuck })
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

  /** Whether a project has caused so many failures in a row that further attempts are not expected to succeed. */
  isStuck(project: string): boolean {
    return this.#failed.get(project)?.isStuck ?? false
  }
}

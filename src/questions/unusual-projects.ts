/** How long a project is assumed to have unusual data, ms. Editing or deleting events may have removed it. */
const KEPT_MS = 60 * 60_000
/** Maximum number of remembered projects. */
const MAX_PROJECTS = 10_000

/**
 * Remembers the projects in which a question found unusual data, such as texts that need repair. Questions of these
 * projects allow for such data in the first attempt; those of others first run as if there were none, and fail if there
 * is. So forgetting a project only costs time.
 */
export class UnusualProjects {
  /** by project: until when it is remembered, epoch ms; the latest last */
  readonly #until = new Map<string, number>()
  readonly #keptMs: number

  /** @param keptMs how long a project is remembered, ms */
  constructor(keptMs = KEPT_MS) {
    this.#keptMs = keptMs
  }

  /** @param now epoch ms */
  has(projectId: string, now: number): boolean {
    return (this.#until.get(projectId) ?? Number.NEGATIVE_INFINITY) > now
  }

  /** @param now epoch ms */
  add(projectId: string, now: number): void {
    this.#until.delete(projectId)
    this.#until.set(projectId, now + this.#keptMs)
    if (this.#until.size <= MAX_PROJECTS) return
    const [oldest] = this.#until.keys()
    if (oldest !== undefined) this.#until.delete(oldest)
  }
}

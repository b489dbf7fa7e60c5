/** How long a project is taken to have texts that need repair, ms: editing or deleting its events may have ended that. */
const KEPT_MS = 60 * 60_000
/** Of how many projects that is known at a time. */
const MAX_PROJECTS = 10_000

/**
 * The projects whose questions met texts that need repair. They are asked with repair at once; all others without it
 * first, which fails where a text needs it. So a project that is forgotten costs time, and nothing else.
 */
export class RepairedProjects {
  /** epoch ms until which a project is known; the one that was found last is the last */
  readonly #until = new Map<string, number>()

  /** @param now epoch ms */
  has(projectId: string, now: number): boolean {
    return (this.#until.get(projectId) ?? Number.NEGATIVE_INFINITY) > now
  }

  /** @param now epoch ms */
  add(projectId: string, now: number): void {
    this.#until.delete(projectId)
    this.#until.set(projectId, now + KEPT_MS)
    if (this.#until.size <= MAX_PROJECTS) return
    const [oldest] = this.#until.keys()
    if (oldest !== undefined) this.#until.delete(oldest)
  }
}

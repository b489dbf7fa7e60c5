/**
 * How long a project is assumed to have texts that need repair, ms. Editing or deleting events may have removed them.
 */
const KEPT_MS = 60 * 60_000
/** Maximum number of remembered projects. */
const MAX_PROJECTS = 10_000

/**
 * Remembers the projects in which a question found texts that need repair. Their questions run with repair from the
 * start; all others first run without it, which fails if a text needs it. So forgetting a project only costs time.
 */
export class RepairedProjects {
  /** by project: until when it is remembered, epoch ms; the latest last */
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

import { RecentValues } from '../lib/recent-values.js'

/** How long a project is assumed to have unusual data, ms. Editing or deleting events may have removed it. */
const KEPT_MS = 60 * 60_000
/** How many projects are remembered at least, if that many are asked about. */
const PROJECTS = 5_000

/**
 * Remembers the projects in which a question found unusual data, such as texts that need repair. Questions of these
 * projects allow for such data in the first attempt; those of others first run as if there were none, and fail if there
 * is. So forgetting a project only costs time.
 */
export class UnusualProjects {
  /** by project: until when it is remembered, epoch ms */
  readonly #until = new RecentValues<number>(PROJECTS)
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
    this.#until.set(projectId, now + this.#keptMs)
  }
}

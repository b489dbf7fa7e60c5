import { ApiError } from '../contract/errors.js'
import type { Journal, Progress } from '../journal/journal.js'
import type { Position } from '../model/position.js'

/** How long a read waits for everything accepted before it to be stored, ms. The API reference promises this. */
export const READ_BARRIER_MS = 5_000
/** Interval at which waiting reads poll the journal, ms. */
const POLL_MS = 100
/** How long cached results about a project's events may still count expired ones, ms. */
const AGING_STEP_MS = 10_000

export interface ReadPoint {
  /** everything up to here is stored */
  stored: Position
  /** the project's accepted events that are not stored yet; 0 if the wait succeeded */
  pending: number
  /** changes with each deletion of the project's events; with another text, cached results about them are outdated */
  deletions: string
  /** the last position that was accepted before the wait, if everything of the project up to there is stored */
  appended?: Position | undefined
  /** whether the project's events expire */
  isAging?: boolean
}

/** How far the service has accepted and stored what was sent. */
export interface Reach {
  /** the greatest position accepted so far; everything accepted later has a greater one */
  accepted: Position
  /** everything up to here is stored */
  stored: Position
}

/** @param where if there are several lanes, the names of the lanes that lag and of their shards */
export function toNotCaughtUpError(where = ''): ApiError {
  const message = `The store has not caught up${where && ` with ${where}`} yet. Try again in a moment.`
  return new ApiError('unavailable', message)
}

/** Read-your-writes: a read that waits here sees everything that was accepted before it began. */
export class ReadBarrier {
  readonly #journal: Journal
  readonly #limitMs: number
  readonly #closing: AbortSignal
  readonly #where: string

  /**
   * @param closing ends every wait like a timeout
   * @param where the lane for error messages, if there are several
   */
  constructor(journal: Journal, closing: AbortSignal, limitMs = READ_BARRIER_MS, where = '') {
    this.#where = where
    this.#journal = journal
    this.#closing = closing
    this.#limitMs = limitMs
  }

  /**
   * Waits, for at most 5 s, until everything of the project that was accepted before the call is stored. Waiting data
   * of other projects does not matter.
   */
  async waitForProject(projectId: string): Promise<ReadPoint> {
    const { stored, pending, isComplete, first, ...progress } = await this.#waitForProject(projectId)
    const deletions = formatDeletions(this.#journal, progress)
    return isComplete ? { stored, pending: 0, deletions, appended: first } : { stored, pending, deletions }
  }

  /**
   * Like `waitForProject`, for a caller that needs everything.
   * @returns the position up to which everything is stored
   * @throws ApiError `unavailable` after 5 s
   */
  async requireProject(projectId: string): Promise<Position> {
    const { stored, isComplete } = await this.#waitForProject(projectId)
    if (isComplete) return stored
    throw toNotCaughtUpError(this.#where)
  }

  /**
   * Waits until everything up to `position` is stored.
   * @throws ApiError `unavailable` after 5 s
   */
  async waitFor(position: Position): Promise<void> {
    await this.#waitFor(position, await this.#journal.progress())
  }

  /**
   * Like `waitFor`, for everything that was accepted before the call.
   * @returns the position up to which everything is stored
   */
  async waitForAll(): Promise<Position> {
    const now = await this.#journal.progress()
    return await this.#waitFor(now.appended, now)
  }

  async #waitForProject(projectId: string): Promise<Progress & { isComplete: boolean; first: Position }> {
    const now = await this.#journal.progress(projectId)
    const isEnough = ({ stored, isStored }: Progress) => isStored || stored >= now.appended
    const progress = await this.#until(isEnough, now, projectId)
    return { ...progress, isComplete: isEnough(progress), first: now.appended }
  }

  /** Returns the current progress without waiting or waking the writer. */
  async reach(): Promise<Reach> {
    const { appended, stored } = await this.#journal.progress()
    return { accepted: appended, stored }
  }

  async #waitFor(position: Position, now: Progress): Promise<Position> {
    const { stored } = await this.#until(({ stored }) => stored >= position, now)
    if (stored >= position) return stored
    throw toNotCaughtUpError(this.#where)
  }

  /**
   * @param now the current progress, which is not read again if there is no need to wait
   * @returns the progress that is enough, or the latest one after 5 s
   */
  async #until(isEnough: (progress: Progress) => boolean, now: Progress, projectId?: string): Promise<Progress> {
    const deadline = Date.now() + this.#limitMs
    for (let progress = now; ; progress = await this.#journal.progress(projectId)) {
      if (isEnough(progress) || Date.now() >= deadline || this.#closing.aborted) return progress
      const changed = untilStored([this.#journal], deadline)
      this.#journal.wakeWriter()
      await changed
    }
  }
}

/** The deletions that a journal knows of, as in ReadPoint. In another era, it may have lost the last ones. */
export function formatDeletions({ era }: Pick<Journal, 'era'>, { deletions }: Pick<Progress, 'deletions'>): string {
  return `${era}:${deletions}`
}

/**
 * Resolves when one of the journals reports that something was stored; at the latest after POLL_MS or at the deadline
 * (epoch ms), because such reports are only hints.
 */
export function untilStored(journals: readonly Pick<Journal, 'listen'>[], deadline: number): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      for (const stop of stops) stop()
      resolve()
    }
    const timer = setTimeout(done, Math.min(POLL_MS, deadline - Date.now()))
    const stops = journals.map((journal) => journal.listen({ onStored: done }))
  })
}

/** The barrier that reads wait at: a ReadBarrier, or a LevelBarrier over several lanes. */
export type Barrier = Pick<ReadBarrier, 'waitForProject' | 'requireProject' | 'waitForAll' | 'reach'>

/**
 * A barrier for projects whose events expire. It reports other deletions every few seconds, so that cached results about
 * their events are computed again.
 * @param keptSince the time since which a project's events are kept, epoch ms; absent: all are
 */
export function withAging(barrier: Barrier, keptSince: (projectId: string) => number | undefined): Barrier {
  return {
    requireProject: (projectId) => barrier.requireProject(projectId),
    waitForAll: () => barrier.waitForAll(),
    reach: () => barrier.reach(),
    async waitForProject(projectId) {
      const point = await barrier.waitForProject(projectId)
      const since = keptSince(projectId)
      if (since === undefined) return point
      return { ...point, deletions: `${point.deletions}+${Math.ceil(since / AGING_STEP_MS)}`, isAging: true }
    },
  }
}

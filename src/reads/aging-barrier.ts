import type { Barrier } from './read-barrier.js'

/** How long what is remembered of a project's events may still count those that expired, ms. */
const STEP_MS = 10_000

/**
 * A barrier for projects whose events expire. Every few seconds, it counts one more deletion, so that whatever is
 * remembered of their events is made anew.
 * @param keptSince from when on a project's events are kept, epoch ms; absent: all are
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
      return { ...point, deletions: point.deletions + Math.ceil(since / STEP_MS), isAging: true }
    },
  }
}

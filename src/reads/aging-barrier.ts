import type { Barrier } from './read-barrier.js'

/** How long cached results about a project's events may still count expired ones, ms. */
const STEP_MS = 10_000

/**
 * A barrier for projects whose events expire. It reports one more deletion every few seconds, so that cached results
 * about their events are computed again. @param keptSince the time since which a project's events are kept, epoch ms;
 * absent: all are
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

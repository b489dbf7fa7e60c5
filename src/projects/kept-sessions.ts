import { SHORTEST_KEEP_MS } from '../contract/project-settings.js'
import type { Session } from '../model/session.js'
import type { States } from '../states/state-store.js'
import type { Projects } from './projects.js'

/**
 * Hides expired sessions from calls. An expired session does not exist, even while the journal or the store still has
 * it: a call with its id begins a new one. Until the settings are known, calls can only use sessions that no setting
 * lets expire; any other one is `unavailable`.
 * @param now epoch ms; default: the clock
 */
export function hideExpiredSessions(
  sessions: States<Session>,
  projects: Pick<Projects, 'kept' | 'requireKnown'>,
  now: () => number = Date.now,
): States<Session> {
  const keep = (projectId: string, session: Session | null) => {
    if (session === null) return null
    if (session.updatedAt < now() - SHORTEST_KEEP_MS) projects.requireKnown()
    const { sessions: since } = projects.kept(projectId)
    return since !== undefined && session.updatedAt < since ? null : session
  }
  return {
    get: async (projectId, id) => keep(projectId, await sessions.get(projectId, id)),
    change: (projectId, id, change, repetition) =>
      sessions.change(projectId, id, (session) => change(keep(projectId, session)), repetition),
  }
}

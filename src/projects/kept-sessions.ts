import type { Session } from '../model/session.js'
import type { States } from '../states/state-store.js'
import type { KeptSince } from './late-events.js'

/**
 * Hides expired sessions from calls. An expired session does not exist, even while the journal or the store still has
 * it: a call with its id begins a new one.
 * @param keptSince the time since which a project's sessions are kept, epoch ms; undefined: all are
 */
export function hideExpiredSessions(sessions: States<Session>, keptSince: KeptSince): States<Session> {
  const keep = (projectId: string, session: Session | null) => {
    const since = session === null ? undefined : keptSince(projectId)
    return session && since !== undefined && session.updatedAt < since ? null : session
  }
  return {
    get: async (projectId, id) => keep(projectId, await sessions.get(projectId, id)),
    change: (projectId, id, change, repetition) =>
      sessions.change(projectId, id, (session) => change(keep(projectId, session)), repetition),
  }
}

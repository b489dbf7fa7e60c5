import type { CatchUp } from './catch-up.js'
import type { Journal } from './journal/journal.js'
import type { Session } from './session.js'
import type { States } from './state.js'
import type { ClickHouse } from './store/clickhouse.js'
import { deleteEventsOfUser, hasEventsOfUser } from './store/events.js'
import { sessionIdsOfUser } from './store/sessions.js'

export interface TracesOptions {
  journal: Journal
  clickhouse: ClickHouse
  sessions: States<Session>
  catchUp: CatchUp
}

/** Sessions that are deleted side by side. */
const AT_ONCE = 100

/** Deletes a user's events and sessions, those still on their way included; the profile is not among them. */
export function deleteTracesOfUser({ journal, clickhouse, sessions, catchUp }: TracesOptions) {
  /** @returns whether there was anything */
  return async (projectId: string, distinctId: string): Promise<boolean> => {
    await catchUp.reachAll()
    const sessionIds = await sessionIdsOfUser(clickhouse, projectId, distinctId)
    for (let start = 0; start < sessionIds.length; start += AT_ONCE) {
      const some = sessionIds.slice(start, start + AT_ONCE)
      const ofThisUser = (session: Session | null) => (session?.distinctId === distinctId ? null : session)
      await Promise.all(some.map((sessionId) => sessions.change(projectId, sessionId, ofThisUser)))
    }
    const hadEvents = await hasEventsOfUser(clickhouse, projectId, distinctId)
    if (hadEvents) {
      await deleteEventsOfUser(clickhouse, projectId, distinctId)
      await journal.noteDeletion(projectId)
    }
    return hadEvents || sessionIds.length > 0
  }
}

import type { ClickHouse } from '../clickhouse/client.js'
import type { Journal } from '../journal/journal.js'
import type { Profile } from '../model/profile.js'
import type { Session } from '../model/session.js'
import type { ReadBarrier } from '../pipeline/read-barrier.js'
import type { StateStore } from '../pipeline/state-store.js'
import { eraseFromDeadLetters } from '../store/erased-letters.js'
import { countEventsOfUsers, deleteEventsOfUsers } from '../store/events.js'
import { sessionsOfUsers } from '../store/sessions.js'

export interface ErasureOptions {
  journal: Journal
  clickhouse: ClickHouse
  profiles: StateStore<Profile>
  sessions: StateStore<Session>
  barrier: ReadBarrier
}

/** What a user had. */
export interface Erased {
  distinctId: string
  profile: boolean
  events: number
  sessions: number
  /** letters that held something of the user, replayed ones included */
  deadLetters: number
}

export interface ErasedUsers {
  /** in the order of the request */
  users: Erased[]
  /** letters that name one of the users, but cannot be read; they are left as they are */
  unreadableLetters: number
}

/** Values that are changed side by side. */
const AT_ONCE = 100

/**
 * Deletes users with everything that the service has of them: no later response contains what was accepted before the
 * call. The Purge takes it off the disk.
 */
export class Erasure {
  readonly #parts: ErasureOptions

  constructor(parts: ErasureOptions) {
    this.#parts = parts
  }

  /**
   * The profiles go last: a retry of an interrupted erasure finds the users again.
   * @param distinctIds each once
   * @throws ApiError `unavailable` if the store does not have everything yet; then nothing was deleted
   */
  async erase(projectId: string, distinctIds: string[]): Promise<ErasedUsers> {
    const { clickhouse, barrier } = this.#parts
    // From here on the journal holds nothing of them that is older than the call: it is in the store, or a dead letter.
    await barrier.waitForAll()
    const sessions = await this.#deleteSessions(projectId, distinctIds)
    const events = await this.#deleteEvents(projectId, distinctIds)
    const letters = await eraseFromDeadLetters(clickhouse, projectId, new Set(distinctIds))
    const profiles = await this.#deleteProfiles(projectId, distinctIds)
    const users = distinctIds.map((distinctId) => ({
      distinctId,
      profile: profiles.has(distinctId),
      events: events.get(distinctId) ?? 0,
      sessions: sessions.get(distinctId) ?? 0,
      deadLetters: letters.erased.get(distinctId) ?? 0,
    }))
    return { users, unreadableLetters: letters.unreadable }
  }

  async #deleteSessions(projectId: string, distinctIds: string[]): Promise<Map<string, number>> {
    const { clickhouse, sessions } = this.#parts
    const deleted = new Map<string, number>()
    const found = await sessionsOfUsers(clickhouse, projectId, distinctIds)
    await inTurns(found, async ({ sessionId, distinctId }) => {
      // It may have another owner by now, who has nothing to do with this.
      const ofThisUser = (session: Session | null) => (session?.distinctId === distinctId ? null : session)
      await sessions.change(projectId, sessionId, ofThisUser)
      deleted.set(distinctId, (deleted.get(distinctId) ?? 0) + 1)
    })
    return deleted
  }

  async #deleteEvents(projectId: string, distinctIds: string[]): Promise<Map<string, number>> {
    const { clickhouse, journal } = this.#parts
    const counts = await countEventsOfUsers(clickhouse, projectId, distinctIds)
    if (counts.size > 0) {
      await deleteEventsOfUsers(clickhouse, projectId, [...counts.keys()])
      await journal.noteDeletion(projectId)
    }
    return counts
  }

  async #deleteProfiles(projectId: string, distinctIds: string[]): Promise<Set<string>> {
    const deleted = new Set<string>()
    await inTurns(distinctIds, async (distinctId) => {
      await this.#parts.profiles.change(projectId, distinctId, (profile) => {
        if (profile) deleted.add(distinctId)
        else deleted.delete(distinctId)
        return null
      })
    })
    return deleted
  }
}

async function inTurns<T>(values: T[], change: (value: T) => Promise<void>): Promise<void> {
  for (let start = 0; start < values.length; start += AT_ONCE) {
    await Promise.all(values.slice(start, start + AT_ONCE).map(change))
  }
}

import type { Shards } from '../../clickhouse/shards.js'
import type { Journal } from '../../journal/journal.js'
import { inTurns } from '../../lib/in-turns.js'
import type { Profile } from '../../model/profile.js'
import type { Session } from '../../model/session.js'
import type { ReadBarrier } from '../../reads/read-barrier.js'
import type { StateStore } from '../../states/state-store.js'
import { eraseFromDeadLetters } from '../../store/erased-letters.js'
import { countEventsOfUsers, deleteEventsOfUsers } from '../../store/events.js'
import { sessionsOfUsers } from '../../store/sessions.js'
import type { Aliases } from '../aliases/aliases.js'

export interface ErasureOptions {
  aliases: Aliases
  /** counts a deletion of the project's events, visible to all processes */
  noteDeletion: Journal['noteDeletion']
  shards: Shards
  profiles: Pick<StateStore<Profile>, 'change'>
  sessions: Pick<StateStore<Session>, 'change'>
  /** of all lanes */
  barrier: Pick<ReadBarrier, 'waitForAll'>
}

/** What a user had. */
export interface Erased {
  distinctId: string
  profile: boolean
  events: number
  sessions: number
  /** letters that held something of the user, replayed ones included */
  deadLetters: number
  aliases: number
}

export interface ErasedUsers {
  /** in the order of the request */
  users: Erased[]
  /** letters that name one of the users, but cannot be read; they are left as they are */
  unreadableLetters: number
}

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
   * Visits every shard, as a user's events are on all of them. The profiles go last: a retry of an interrupted erasure
   * finds the users again.
   * @param distinctIds each once
   * @throws ApiError `unavailable` if the store does not have everything yet, or a lane is down; then nothing was deleted
   * @throws ShardUnreachableError if a shard is down; a retry completes what was done then
   */
  async erase(projectId: string, distinctIds: string[]): Promise<ErasedUsers> {
    const { barrier, aliases } = this.#parts
    const shards = shardsOfErasure(this.#parts.shards, projectId)
    // From here on no journal holds anything of them that is older than the call: it is in the store, or a dead letter.
    await barrier.waitForAll()
    const namesOf = await this.#namesOf(projectId, distinctIds)
    const names = [...new Set([...namesOf.values()].flat(2))]
    const sessions = new Map<string, number>()
    // Before all that a letter which is replayed meanwhile may store.
    const letters = await eraseFromDeadLetters(shards, projectId, new Set(names), async (states) => {
      for (const { kind, name, distinctId } of states) {
        if (kind === 'sessions') await this.#deleteSession(projectId, { sessionId: name, distinctId }, sessions)
      }
    })
    const stored = await sessionsOfUsers(shards, projectId, names)
    await inTurns(stored, (session) => this.#deleteSession(projectId, session, sessions))
    const events = await this.#deleteEvents(shards, projectId, names)
    const profiles = await this.#deleteProfiles(projectId, names)
    // Last, as they lead a retry to the other names.
    for (const levels of new Set(namesOf.values())) await aliases.remove(projectId, levels)
    const users = distinctIds.map((distinctId) => {
      const own = namesOf.get(distinctId)?.flat() ?? [distinctId]
      const sum = (counts: Map<string, number>) => own.reduce((all, name) => all + (counts.get(name) ?? 0), 0)
      return {
        distinctId,
        profile: own.some((name) => profiles.has(name)),
        events: sum(events),
        sessions: sum(sessions),
        deadLetters: sum(letters.erased),
        aliases: own.length - 1,
      }
    })
    return { users, unreadableLetters: letters.unreadable }
  }

  /** All names of each user, level by level; the same object for names of one user. */
  async #namesOf(projectId: string, distinctIds: string[]): Promise<Map<string, string[][]>> {
    const { aliases } = this.#parts
    const userOf = new Map<string, string>()
    await inTurns(distinctIds, async (distinctId) => {
      userOf.set(distinctId, await aliases.resolve(projectId, distinctId))
    })
    const found = await aliases.namesOf(projectId, [...new Set(userOf.values())])
    return new Map([...userOf].map(([distinctId, user]) => [distinctId, found.get(user) ?? [[user]]]))
  }

  /** @param deleted by user: the number of sessions */
  async #deleteSession(
    projectId: string,
    { sessionId, distinctId }: { sessionId: string; distinctId: string },
    deleted: Map<string, number>,
  ): Promise<void> {
    let isThere = false
    const remove = (session: Session | null) => {
      // It may have another owner by now, who has nothing to do with this.
      isThere = session?.distinctId === distinctId
      return isThere ? null : session
    }
    await this.#parts.sessions.change(projectId, sessionId, remove, { keyClass: 'secret' })
    if (isThere) deleted.set(distinctId, (deleted.get(distinctId) ?? 0) + 1)
  }

  /** Counts on every shard before it deletes on any, so that one that is down is found first. */
  async #deleteEvents(shards: Shards, projectId: string, distinctIds: string[]): Promise<Map<string, number>> {
    const { noteDeletion } = this.#parts
    const counts = await shards.each(({ number }) => countEventsOfUsers(shards.only(number), projectId, distinctIds))
    const total = sumOf(counts)
    if (total.size === 0) return total
    try {
      await shards.each(async ({ number, clickhouse }) => {
        const users = [...(counts[number]?.keys() ?? [])]
        if (users.length > 0) await deleteEventsOfUsers(clickhouse, projectId, users)
      })
    } finally {
      // Also where one of several shards has failed: the events of the others are gone.
      await noteDeletion(projectId)
    }
    return total
  }

  async #deleteProfiles(projectId: string, distinctIds: string[]): Promise<Set<string>> {
    const deleted = new Set<string>()
    await inTurns(distinctIds, async (distinctId) => {
      const remove = (profile: Profile | null) => {
        if (profile) deleted.add(distinctId)
        else deleted.delete(distinctId)
        return null
      }
      await this.#parts.profiles.change(projectId, distinctId, remove, { keyClass: 'secret' })
    })
    return deleted
  }
}

/** An erasure searches much, and yields to everybody. It has slots of its own: exports of its project do not stop it. */
export function shardsOfErasure(shards: Shards, projectId: string): Shards {
  return shards.for(`erase ${projectId}`)
}

function sumOf(counts: Map<string, number>[]): Map<string, number> {
  const total = new Map<string, number>()
  for (const count of counts) for (const [name, n] of count) total.set(name, (total.get(name) ?? 0) + n)
  return total
}

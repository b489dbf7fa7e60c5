import { nameShare } from '../../clickhouse/client.js'
import type { Shards } from '../../clickhouse/shards.js'
import type { EntryKind, Journal } from '../../journal/journal.js'
import { forEachInBatches } from '../../lib/for-each-in-batches.js'
import type { Profile } from '../../model/profile.js'
import type { Session } from '../../model/session.js'
import type { ReadBarrier } from '../../reads/read-barrier.js'
import type { StateStore } from '../../states/state-store.js'
import { type ErasedState, eraseFromDeadLetters, findAliasesInDeadLetters } from '../../store/dead-letter-erasure.js'
import { countEventsOfUsers, deleteEventsOfUsers } from '../../store/events.js'
import { removeSessionFacts } from '../../store/session-facts.js'
import { findUserSessions } from '../../store/sessions.js'
import type { Aliases, Chain } from '../aliases/aliases.js'
import { deleteProfiles } from '../delete-profile.js'

export interface ErasureOptions {
  aliases: Aliases
  /** counts a deletion of the project's events, visible to all processes */
  noteDeletion: Journal['noteDeletion']
  shards: Shards
  profiles: Pick<StateStore<Profile>, 'change'>
  sessions: Pick<StateStore<Session>, 'change'>
  /** waits for all lanes */
  barrier: Pick<ReadBarrier, 'requireProject'>
}

/** The amount of a user's data that was erased. */
export interface Erased {
  distinctId: string
  profile: boolean
  events: number
  sessions: number
  /** dead letters that held data of the user, including replayed ones */
  deadLetters: number
  aliases: number
}

export interface ErasedUsers {
  /** users in the order of the request */
  users: Erased[]
  /** dead letters that name one of the users but cannot be read; they are left unchanged */
  unreadableDeadLetters: number
}

/**
 * Deletes users with all their data: no later response contains anything that was accepted before the
 * call. The Purge removes it from the disk.
 */
export class Erasure {
  readonly #parts: ErasureOptions

  constructor(parts: ErasureOptions) {
    this.#parts = parts
  }

  /**
   * Visits every shard, because a user's events are on all of them. Profiles are deleted last, so that a retry of an
   * interrupted erasure still finds the users.
   * @param distinctIds each once
   * @throws ApiError `unavailable` if the store does not have everything yet, or a lane is down; ShardUnreachableError
   *   if a shard is down. A retry completes what was done then
   */
  async erase(projectId: string, distinctIds: string[]): Promise<ErasedUsers> {
    const { barrier, aliases } = this.#parts
    const shards = reserveErasureSlots(this.#parts.shards, projectId)
    const namesByUser = await this.#findNames(shards, projectId, distinctIds)
    const names = [...new Set([...namesByUser.values()].flat(2))]
    const allNames = new Set(names)
    const sessions = new Map<string, number>()
    // Erase from dead letters first, so that one which is replayed concurrently cannot restore the data.
    const onSessions = async (states: readonly ErasedState[]) => {
      for (const { kind, name, distinctId } of states) {
        if (kind === 'sessions') await this.#deleteSession(projectId, { sessionId: name, distinctId }, sessions)
      }
    }
    const isData = (kind: EntryKind) => kind !== 'aliases'
    const deadLetters = await eraseFromDeadLetters(shards, projectId, allNames, onSessions, isData)
    const stored = await findUserSessions(shards, projectId, names)
    await forEachInBatches(stored, (session) => this.#deleteSession(projectId, session, sessions))
    if (stored.length > 0) {
      // Later calls may start sessions with these ids again.
      const ids = stored.map(({ sessionId }) => sessionId)
      await barrier.requireProject(projectId)
      await shards.each(({ clickhouse }) => removeSessionFacts(clickhouse, projectId, { ids }))
    }
    const events = await this.#deleteEvents(shards, projectId, names)
    const profiles = await deleteProfiles(this.#parts.profiles, projectId, names)
    // Remove the aliases last, because a retry finds the other names by them.
    const levels: string[][] = []
    const withAliases: string[] = []
    for (const own of new Set(namesByUser.values())) {
      for (const [depth, level] of own.entries()) levels[depth] = [...(levels[depth] ?? []), ...level]
      if (own.length > 1) withAliases.push(...(own[0] ?? []))
    }
    await aliases.remove(projectId, levels, barrier)
    const onAliases = async (states: readonly ErasedState[]) => {
      for (const { name, distinctId } of states) {
        // It was made in the meantime.
        if (!allNames.has(name)) await aliases.remove(projectId, [[distinctId], [name]], barrier)
      }
    }
    // Last, because a retry after a failure above finds names by these. A replay cannot restore them: the deletions are
    // newer.
    const links = await eraseFromDeadLetters(shards, projectId, allNames, onAliases, (kind) => kind === 'aliases')
    // Until their aliases were gone, a change sent under one may have made a user's profile again.
    await deleteProfiles(this.#parts.profiles, projectId, withAliases)
    const users = distinctIds.map((distinctId) => {
      const own = namesByUser.get(distinctId)?.flat() ?? [distinctId]
      const sum = (counts: Map<string, number>) => own.reduce((all, name) => all + (counts.get(name) ?? 0), 0)
      return {
        distinctId,
        profile: own.some((name) => profiles.has(name)),
        events: sum(events),
        sessions: sum(sessions),
        deadLetters: sum(deadLetters.erased) + sum(links.erased),
        aliases: own.length - 1,
      }
    })
    return { users, unreadableDeadLetters: deadLetters.unreadable + links.unreadable }
  }

  /** All names of each user, level by level; the same object for names of one user. */
  async #findNames(shards: Shards, projectId: string, distinctIds: string[]): Promise<Map<string, string[][]>> {
    const { aliases, barrier } = this.#parts
    const chains = new Map<string, Chain>()
    await forEachInBatches(distinctIds, async (distinctId) => {
      chains.set(distinctId, await aliases.find(projectId, distinctId))
    })
    // From here on, no journal holds their data from before the call: it is in the store or in a dead letter. Wait after
    // following the names, so that the store has the links that were followed.
    await barrier.requireProject(projectId)
    const found = await aliases.findNames(projectId, [...new Set([...chains.values()].map(({ user }) => user))])
    const names = new Map<string, string[][]>()
    for (const [distinctId, chain] of chains) {
      const levels = found.get(chain.user) ?? [[chain.user]]
      addChain(levels, distinctId, chain)
      names.set(distinctId, levels)
    }
    await this.#addNamesInDeadLetters(shards, projectId, found)
    return names
  }

  /**
   * Adds the names that the store does not connect with their users, because aliases are in dead letters.
   * @param levelsByUser gets the names
   */
  async #addNamesInDeadLetters(shards: Shards, projectId: string, levelsByUser: Map<string, string[][]>) {
    const { aliases } = this.#parts
    if (!(await aliases.hasAny(projectId))) return
    const known = new Set<string>()
    for (;;) {
      const added = [...levelsByUser.values()].flat(2).filter((name) => !known.has(name))
      if (added.length === 0) return
      for (const name of added) known.add(name)
      const inDeadLetters = await findAliasesInDeadLetters(shards, projectId, new Set(added))
      const stored = await aliases.findAliases(projectId, added)
      const found = new Set([...inDeadLetters, ...stored.map(({ alias }) => alias)])
      const unknown = [...found].filter((name) => !known.has(name))
      await forEachInBatches(unknown, async (name) => {
        const chain = await aliases.find(projectId, name)
        // It may belong to another user by now.
        const levels = levelsByUser.get(chain.user)
        if (levels) addChain(levels, name, chain)
      })
    }
  }

  /** @param deleted by user: the number of sessions */
  async #deleteSession(
    projectId: string,
    { sessionId, distinctId }: { sessionId: string; distinctId: string },
    deleted: Map<string, number>,
  ): Promise<void> {
    let isThere = false
    const remove = (session: Session | null) => {
      // The session may belong to another user by now, who is not being erased.
      isThere = session?.distinctId === distinctId
      return isThere ? null : session
    }
    await this.#parts.sessions.change(projectId, sessionId, remove, { keyClass: 'secret' })
    if (isThere) deleted.set(distinctId, (deleted.get(distinctId) ?? 0) + 1)
  }

  /** Counts on every shard before it deletes on any, so that a shard that is down is detected first. */
  async #deleteEvents(shards: Shards, projectId: string, distinctIds: string[]): Promise<Map<string, number>> {
    const { noteDeletion } = this.#parts
    const counts = await shards.each(({ number }) => countEventsOfUsers(shards.only(number), projectId, distinctIds))
    try {
      // Also without events, so that a repeated erasure removes whatever facts may have kept.
      await shards.each(({ clickhouse }) => deleteEventsOfUsers(clickhouse, projectId, distinctIds))
    } finally {
      // Do this even if a shard has failed, because the events of the others are gone.
      await noteDeletion(projectId)
    }
    return sumCounts(counts)
  }
}

/**
 * Adds the names between a name and its user: the store lacks aliases that are in a dead letter, or were taken back a
 * moment ago.
 */
function addChain(levels: string[][], name: string, chain: Chain): void {
  const { user, links } = chain
  const at = links.get(name)
  if (name === user || !at || levels.some((level) => level.includes(name))) return
  addChain(levels, at.distinctId, chain)
  const depth = levels.findIndex((level) => level.includes(at.distinctId)) + 1
  levels[depth] = [...(levels[depth] ?? []), name]
}

/**
 * An erasure reads a lot, and yields to other queries. It has separate slots, so exports of its project do not block
 * it.
 */
export function reserveErasureSlots(shards: Shards, projectId: string): Shards {
  return shards.for(nameShare('erase', projectId))
}

function sumCounts(counts: Map<string, number>[]): Map<string, number> {
  const total = new Map<string, number>()
  for (const count of counts) for (const [name, n] of count) total.set(name, (total.get(name) ?? 0) + n)
  return total
}

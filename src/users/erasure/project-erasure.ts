import type { Shards } from '../../clickhouse/shards.js'
import { forEachInBatches } from '../../lib/for-each-in-batches.js'
import type { StateKind } from '../../model/state-key.js'
import { eraseProjectFromDeadLetters } from '../../store/dead-letter-erasure.js'
import { deleteEventsBefore } from '../../store/events.js'
import { eraseSaved } from '../../store/saved.js'
import { removeSessionFacts } from '../../store/session-facts.js'
import { listProjectNames } from '../../store/versioned-table.js'
import { type ErasureOptions, reserveErasureSlots } from './erasure.js'

/** The data that one call has removed from a project. */
export interface ErasedProject {
  events: number
  sessions: number
  profiles: number
  aliases: number
  /** dead letters that held data of the project, including replayed ones */
  deadLetters: number
  /** dead letters that cannot be read, and may hold data of the project */
  unreadableDeadLetters: number
  /** whether everything accepted before the call is gone; if not, repeat the call to remove the rest */
  isComplete: boolean
}

/** How long a call spends removing states, ms. */
const CALL_MS = 20_000
/** Names of states that are read at a time. */
const PAGE = 10_000

/**
 * Deletes a project with all its data except its keys: no response after a complete call contains anything that
 * was accepted before it. Its insert_ids are forgotten as well: an event that is sent again is a new one.
 */
export class ProjectErasure {
  readonly #parts: ErasureOptions & { ids: { forget(projectId: string): Promise<void> } }
  readonly #callMs: number

  constructor(parts: ErasureOptions & { ids: { forget(projectId: string): Promise<void> } }, callMs = CALL_MS) {
    this.#parts = parts
    this.#callMs = callMs
  }

  /**
   * Everything but states is deleted in bulk. States are deleted one by one, because the journals may have newer ones
   * than the store.
   * @throws ApiError `unavailable` if the store does not have everything yet, or a lane is down; then nothing was
   *   deleted
   * @throws ShardUnreachableError if a shard is down; a retry completes what was done then
   */
  async erase(projectId: string): Promise<ErasedProject> {
    const { barrier } = this.#parts
    const shards = reserveErasureSlots(this.#parts.shards, projectId)
    // From here on, no journal holds data from before the call, except for states that the store also has.
    await barrier.requireProject(projectId)
    // Erase from dead letters before the events, because one that is replayed concurrently stores some.
    const deadLetters = await eraseProjectFromDeadLetters(shards, projectId, async (states) => {
      for (const { kind, name } of states) await this.#deleteStates(kind, projectId, [name])
    })
    const events = await this.#deleteEvents(shards, projectId)
    await eraseSaved(shards, projectId)
    const removed = { sessions: 0, profiles: 0, aliases: 0 }
    // Each call removes some states, no matter how long the rest took.
    const deadline = performance.now() + this.#callMs
    for (const kind of ['sessions', 'profiles', 'aliases'] as const) {
      for await (const names of this.#pages(shards, kind, projectId)) {
        if (performance.now() > deadline) return { ...removed, ...summary(events, deadLetters), isComplete: false }
        removed[kind] += await this.#deleteStates(kind, projectId, names)
      }
    }
    // Later calls may start sessions with these ids again.
    await barrier.requireProject(projectId)
    await shards.each(({ clickhouse }) => removeSessionFacts(clickhouse, projectId, { ids: null }))
    await this.#parts.ids.forget(projectId)
    return { ...removed, ...summary(events, deadLetters), isComplete: true }
  }

  async #deleteEvents(shards: Shards, projectId: string): Promise<number> {
    const { noteDeletion } = this.#parts
    try {
      return await shards.count((clickhouse) => deleteEventsBefore(clickhouse, projectId, null))
    } finally {
      // Do this even if a shard has failed, because the events of the others are gone.
      await noteDeletion(projectId)
    }
  }

  async *#pages(shards: Shards, kind: StateKind, projectId: string): AsyncGenerator<string[], void, undefined> {
    for (let after = ''; ; ) {
      const names = await listProjectNames(shards, kind, { projectId, after, limit: PAGE })
      const last = names.at(-1)
      if (last === undefined) return
      yield names
      after = last
    }
  }

  /** @returns how many there were; a user with other names does not count as an alias */
  async #deleteStates(kind: StateKind, projectId: string, names: string[]): Promise<number> {
    const { sessions, profiles, aliases, barrier } = this.#parts
    if (kind === 'aliases') return await aliases.removeAny(projectId, names, barrier)
    const states = kind === 'sessions' ? sessions : profiles
    await forEachInBatches(names, (name) => states.change(projectId, name, () => null, { keyClass: 'secret' }))
    return names.length
  }
}

function summary(events: number, deadLetters: { erased: number; unreadable: number }) {
  return { events, deadLetters: deadLetters.erased, unreadableDeadLetters: deadLetters.unreadable }
}

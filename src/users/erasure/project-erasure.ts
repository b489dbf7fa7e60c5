import type { Shards } from '../../clickhouse/shards.js'
import { inTurns } from '../../lib/in-turns.js'
import type { StateKind } from '../../model/state-key.js'
import { eraseProjectFromDeadLetters } from '../../store/erased-letters.js'
import { deleteEventsOfProject } from '../../store/events.js'
import { eraseSaved } from '../../store/saved.js'
import { namesOfProject } from '../../store/versioned.js'
import { type ErasureOptions, shardsOfErasure } from './erasure.js'

/** What one call has removed of a project. */
export interface ErasedProject {
  events: number
  sessions: number
  profiles: number
  aliases: number
  /** letters that held something of the project, replayed ones included */
  deadLetters: number
  /** letters that cannot be read, and may hold something of the project */
  unreadableLetters: number
  /** whether nothing is left of what was accepted before the call; if not, repeat the call to remove the rest */
  isComplete: boolean
}

/** How long a call removes states, ms. */
const CALL_MS = 20_000
/** Names of states that are read at a time. */
const PAGE = 10_000

/**
 * Deletes a project with everything that the service has of it, except its keys: no response after a call that is complete
 * contains what was accepted before it. The ids of its events are forgotten as well: one that is sent once more is new.
 */
export class ProjectErasure {
  readonly #parts: ErasureOptions & { ids: { forget(projectId: string): Promise<void> } }
  readonly #callMs: number

  constructor(parts: ErasureOptions & { ids: { forget(projectId: string): Promise<void> } }, callMs = CALL_MS) {
    this.#parts = parts
    this.#callMs = callMs
  }

  /**
   * Everything but states goes at once. Those have to go one by one, as the journals may have newer ones than the store.
   * @throws ApiError `unavailable` if the store does not have everything yet, or a lane is down; then nothing was deleted
   * @throws ShardUnreachableError if a shard is down; a retry completes what was done then
   */
  async erase(projectId: string): Promise<ErasedProject> {
    const { barrier } = this.#parts
    const shards = shardsOfErasure(this.#parts.shards, projectId)
    // From here on no journal holds anything of it that is older than the call, but states that the store has, too.
    await barrier.waitForAll()
    // Before the events: a letter that is replayed meanwhile stores some.
    const letters = await eraseProjectFromDeadLetters(shards, projectId, async (states) => {
      for (const { kind, name } of states) await this.#deleteStates(kind, projectId, [name])
    })
    const events = await this.#deleteEvents(shards, projectId)
    await eraseSaved(shards, projectId)
    const removed = { sessions: 0, profiles: 0, aliases: 0 }
    // Whatever the rest took, each call removes some states.
    const deadline = performance.now() + this.#callMs
    for (const kind of ['sessions', 'profiles', 'aliases'] as const) {
      for await (const names of this.#pages(shards, kind, projectId)) {
        if (performance.now() > deadline) return { ...removed, ...summary(events, letters), isComplete: false }
        removed[kind] += await this.#deleteStates(kind, projectId, names)
      }
    }
    await this.#parts.ids.forget(projectId)
    return { ...removed, ...summary(events, letters), isComplete: true }
  }

  async #deleteEvents(shards: Shards, projectId: string): Promise<number> {
    const { noteDeletion } = this.#parts
    try {
      const counts = await shards.each(({ clickhouse }) => deleteEventsOfProject(clickhouse, projectId))
      return counts.reduce((sum, count) => sum + count, 0)
    } finally {
      // Also where one of several shards has failed: the events of the others are gone.
      await noteDeletion(projectId)
    }
  }

  async *#pages(shards: Shards, kind: StateKind, projectId: string): AsyncGenerator<string[], void, undefined> {
    for (let after = ''; ; ) {
      const names = await namesOfProject(shards, kind, { projectId, after, limit: PAGE })
      const last = names.at(-1)
      if (last === undefined) return
      yield names
      after = last
    }
  }

  /** @returns how many there were; a user that has other names is no alias */
  async #deleteStates(kind: StateKind, projectId: string, names: string[]): Promise<number> {
    const { sessions, profiles, aliases } = this.#parts
    if (kind === 'aliases') return await aliases.removeAny(projectId, names)
    const states = kind === 'sessions' ? sessions : profiles
    await inTurns(names, (name) => states.change(projectId, name, () => null, { keyClass: 'secret' }))
    return names.length
  }
}

function summary(events: number, letters: { erased: number; unreadable: number }) {
  return { events, deadLetters: letters.erased, unreadableLetters: letters.unreadable }
}

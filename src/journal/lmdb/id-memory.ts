import type { IdMemory } from '../journal.js'
import type { LmdbInsertIds } from './insert-ids.js'

interface IdMemoryOptions {
  /** epoch ms */
  now(): number
  /** runs `work` while no write is in flight */
  inTurn<T>(work: () => T): Promise<T>
  /** runs `work` in a transaction that also succeeds on a full disk */
  drain(work: () => void): Promise<void>
}

/** The embedded journal's ids, for everything but writes. */
export function openIdMemory(ids: LmdbInsertIds, { now, inTurn, drain }: IdMemoryOptions): IdMemory {
  return {
    find: (sent) => inTurn(() => ids.find(sent, now())),
    use: async (projectId) => [...ids.use(now(), projectId)],
    forget: async (sender) => {
      await inTurn(() => ids.drop(sender, now()))
      await ids.removeDropped(sender, drain)
    },
  }
}

import type { SentIds } from '../../model/insert-id.js'
import type { Sender } from '../../model/sender.js'
import type { IdUse } from '../insert-id-memory.js'
import type { IdMemory } from '../journal.js'
import type { LmdbInsertIds } from './insert-ids.js'

export interface IdMemoryOptions {
  /** epoch ms */
  now(): number
  /** runs `work` while no write is in flight */
  inTurn<T>(work: () => T): Promise<T>
  /** runs `work` in a transaction that also succeeds on a full disk */
  drain(work: () => void): Promise<void>
}

/** The embedded journal's ids, for everything but writes. */
export class LmdbIdMemory implements IdMemory {
  readonly #ids: LmdbInsertIds
  readonly #options: IdMemoryOptions

  constructor(ids: LmdbInsertIds, options: IdMemoryOptions) {
    this.#ids = ids
    this.#options = options
  }

  find(ids: SentIds): Promise<number[]> {
    const { now, inTurn } = this.#options
    return inTurn(() => this.#ids.find(ids, now()))
  }

  async use(projectId?: string): Promise<IdUse[]> {
    return [...this.#ids.use(this.#options.now(), projectId)]
  }

  async forget(sender: Sender): Promise<void> {
    const { now, inTurn, drain } = this.#options
    await inTurn(() => this.#ids.drop(sender, now()))
    await this.#ids.removeDropped(sender, drain)
  }
}

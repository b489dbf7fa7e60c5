import { ApiError } from '../contract/errors.js'
import type { Journal, StateReading } from '../journal/journal.js'
import { createBatchLoader } from '../lib/batch-loader.js'
import type { ByteBudget } from '../lib/byte-budget.js'
import type { Turns } from '../lib/turns.js'
import { type Position, START } from '../model/position.js'
import type { StateTable } from '../store/tables.js'
import type { KnownStates } from './known-states.js'

export interface StateKey {
  projectId: string
  name: string
  stateKey: string
}

export interface Loaded<Value> {
  readAt: number
  version: Position
  value: Value | null
  /** taken from the budget, and returned to it once the value is no longer needed */
  bytes: number
}

type Stored<Value> = Omit<Loaded<Value>, 'readAt'>

/** A value that is read from the store. */
interface StoredKey extends StateKey {
  /** the version that the journal has; null if it has none */
  version: Position | null
}

const NOT_STORED = { version: START, value: null, bytes: 0 }
/** Maximum bytes of values that one read of the journal returns; a single value may be larger. */
const READING_BYTES = 4 * 1024 * 1024
/** Values of up to this many bytes are read from ClickHouse together; each larger one has a separate query. */
const SMALL_BYTES = 64 * 1024
/** Concurrent queries to ClickHouse: further reads share the next query, which costs hardly more for many names. */
const STORE_READS = 2
/** Names in one query to the store. */
const MAX_NAMES = 256

/** Counts since the start. */
export interface StateReadMetrics {
  /** values read from the journal */
  inJournal: number
  /** values that were read from the store because the journal did not have them */
  inStore: number
  /** values that were not in the journal and, as the filter of known states says, not in the store */
  isNew: number
}

export interface StateReadLimits {
  /** limits the values in memory */
  memory: ByteBudget
  /** shares the time of the event loop among the projects whose values are parsed and changed */
  turns: Pick<Turns, 'take'>
  /**
   * knows which states ClickHouse cannot have; if missing, ClickHouse is queried for every state that is not in the
   * journal
   */
  known?: Pick<KnownStates, 'isNew'>
}

/** Reads profiles or sessions: from the journal, or from the store if the journal does not have them. */
export class StateReads<Value> {
  readonly metrics: StateReadMetrics = { inJournal: 0, inStore: 0, isNew: 0 }
  readonly #journal: Pick<Journal, 'readStates'>
  readonly #table: StateTable<Value>
  readonly #limits: StateReadLimits
  /** Loads the current value. The caller returns its bytes to the budget. */
  readonly load = createBatchLoader((keys: StateKey[]) => this.#read(keys))
  readonly #loadStored = createBatchLoader((keys: StoredKey[]) => this.#readStored(keys), { atOnce: STORE_READS })

  constructor(journal: Pick<Journal, 'readStates'>, table: StateTable<Value>, limits: StateReadLimits) {
    this.#journal = journal
    this.#table = table
    this.#limits = limits
  }

  /** Loads the first keys, up to the number that one read of the journal returns. */
  async #read(keys: StateKey[]): Promise<Promise<Loaded<Value>>[]> {
    const { memory } = this.#limits
    await memory.take(READING_BYTES)
    let bytes = 0
    try {
      const reading = await this.#journal.readStates(
        keys.map(({ stateKey }) => stateKey),
        READING_BYTES,
      )
      bytes = reading.states.reduce((sum, state) => sum + (state?.state?.length ?? 0), 0)
      memory.force(bytes)
      return this.#values(keys.slice(0, reading.states.length), reading)
    } finally {
      memory.give(READING_BYTES)
    }
  }

  /** The values from one read of the journal; values of keys that the journal lacks are read from ClickHouse. */
  #values(keys: StateKey[], { readAt, mark, states }: StateReading): Promise<Loaded<Value>>[] {
    return keys.map(async (key, i) => {
      const { version = null, state = null } = states[i] ?? {}
      if (version !== null && state !== null) {
        this.metrics.inJournal++
        const bytes = state.length
        try {
          const turn = this.#limits.turns.take(() => key.projectId)
          if (turn) await turn
          return { readAt, version, value: state ? this.#table.parse(state) : null, bytes }
        } catch (error) {
          this.#limits.memory.give(bytes)
          throw error
        }
      }
      if (version === null && this.#limits.known?.isNew(key.stateKey, { readAt, mark })) {
        this.metrics.isNew++
        return { readAt, ...NOT_STORED }
      }
      this.metrics.inStore++
      // A promise for each key, so that values from the journal neither wait for ClickHouse nor fail with it.
      const stored = await this.#loadStored({ ...key, version })
      if (version === null || stored.version >= version) return { readAt, ...stored }
      this.#limits.memory.give(stored.bytes)
      throw new ApiError('unavailable', 'The store does not have the latest change yet. Try again in a moment.')
    })
  }

  /** Reads values from ClickHouse, with separate queries for each project, so that a failure affects only one. */
  async #readStored(keys: StoredKey[]): Promise<Promise<Stored<Value>>[]> {
    const results = new Map<string, ReturnType<StateTable<Value>['read']>>()
    for (const projectId of new Set(keys.map((key) => key.projectId))) {
      const own = keys.filter((key) => key.projectId === projectId)
      for (let start = 0; start < own.length; start += MAX_NAMES) {
        const some = own.slice(start, start + MAX_NAMES)
        const names = [...new Set(some.map(({ name }) => name))]
        // Cached reads are not enough if the store may have newer versions.
        const isFresh = some.some(({ version }) => version !== null)
        const result = this.#readWithin(names.length * SMALL_BYTES, projectId, names, SMALL_BYTES, isFresh)
        for (const { stateKey } of some) results.set(stateKey, result)
      }
    }
    const counted = new Set<string>()
    return keys.map(async ({ projectId, name, stateKey, version }) => {
      const found = (await results.get(stateKey))?.get(name)
      if (!found) return NOT_STORED
      if (found.value !== null) {
        // Each reader of the same name returns its bytes to the budget, so each one takes them.
        if (counted.has(stateKey)) this.#limits.memory.force(found.bytes)
        counted.add(stateKey)
        return found
      }
      const most = Number.MAX_SAFE_INTEGER
      const alone = await this.#readWithin(found.bytes, projectId, [name], most, version !== null)
      return alone.get(name) ?? NOT_STORED
    })
  }

  /** Reads from ClickHouse once the budget has room for it. The bytes of the values remain taken. */
  async #readWithin(bytes: number, projectId: string, names: string[], maxBytes: number, isFresh: boolean) {
    const { memory } = this.#limits
    await memory.take(bytes)
    try {
      const found = await this.#table.read(projectId, names, maxBytes, isFresh)
      for (const { value, bytes } of found.values()) if (value !== null) memory.force(bytes)
      return found
    } finally {
      memory.give(bytes)
    }
  }
}

import { setTimeout as wait } from 'node:timers/promises'
import { ApiError, idempotencyConflict } from '../contract/errors.js'
import type { IdempotencyKey, Journal, StateReading } from '../journal/journal.js'
import { batchLoader } from '../lib/batch-loader.js'
import type { ByteBudget } from '../lib/byte-budget.js'
import { type Position, START } from '../model/position.js'
import { stateKeyOf } from '../model/state-key.js'
import type { StateTable } from '../store/tables.js'
import type { GroupCommit } from './group-commit.js'

export interface StateLimits {
  /** of a value's properties; one that is larger already may still change, but not grow */
  maxBytes: number
  /** for the values that are in memory to be changed */
  memory: ByteBudget
}

/** From the present value to the next: the very same object changes nothing, null deletes, a throw refuses. */
export type Change<Value> = (current: Value | null) => Value | null

interface Waiting<Value> {
  change: Change<Value>
  idempotencyKey: IdempotencyKey | undefined
  resolve(): void
  reject(error: unknown): void
}

interface Loaded<Value> {
  readAt: number
  version: Position
  value: Value | null
  /** taken from the budget; to be given back once the value is no longer needed */
  bytes: number
}

type Stored<Value> = Omit<Loaded<Value>, 'readAt'>

const NOT_STORED = { version: START, value: null, bytes: 0 }

/** What each change of a turn threw, of those that had the time, or why the turn did not come to its end. */
type TurnResult =
  | { status: 'done'; refusals: unknown[] }
  | { status: 'conflict' }
  | { status: 'too large'; changes: number }

interface Key {
  projectId: string
  name: string
  stateKey: string
}

/** What came by here since the start. */
export interface StateMetrics {
  /** values that were read from the journal, which answers from memory */
  inJournal: number
  /** values that the journal did not have, so that the store was asked */
  inStore: number
  /** commits that came after another process's, and were made again */
  conflicts: number
}

/** Another process has to win this often in a row before a change is given up. */
const MAX_CONFLICTS = 50
/** How long the changes of one turn may hold up the process; those that are left take the next turn. */
const MAX_TURN_MS = 10
/** Bytes that one reading of the journal gives at most, or one value where that is larger. */
const READING_BYTES = 4 * 1024 * 1024
/** Values of the store up to so many bytes come with the answer for all; each larger one is asked for alone. */
const SMALL_BYTES = 64 * 1024
/** Names of one question to the store. */
const MAX_NAMES = 256

/**
 * Profiles or sessions, each changed by compare-and-set: read, change, commit with the version that was read, again on a
 * conflict. The changes of one value that wait in this process take a turn together.
 */
export class StateStore<Value> {
  readonly metrics: StateMetrics = { inJournal: 0, inStore: 0, conflicts: 0 }
  readonly #journal: Journal
  readonly #commits: GroupCommit
  readonly #table: StateTable<Value>
  readonly #batches = new Map<string, Waiting<Value>[]>()
  readonly #limits: StateLimits
  readonly #load = batchLoader((keys: Key[]) => this.#read(keys))

  constructor(journal: Journal, commits: GroupCommit, table: StateTable<Value>, limits: StateLimits) {
    this.#journal = journal
    this.#commits = commits
    this.#table = table
    this.#limits = limits
  }

  async get(projectId: string, name: string): Promise<Value | null> {
    const { value, bytes } = await this.#load(this.#key(projectId, name))
    this.#limits.memory.give(bytes)
    return value
  }

  /**
   * Resolves when the changed value is durable. With a request key that is known, the change is not made again.
   * @throws what the change throws; then this change has done nothing, others of the turn have
   */
  change(projectId: string, name: string, change: Change<Value>, idempotencyKey?: IdempotencyKey): Promise<void> {
    const key = this.#key(projectId, name)
    return new Promise((resolve, reject) => {
      const waiting = { change, idempotencyKey, resolve, reject }
      const turn = this.#batches.get(key.stateKey)
      if (turn) {
        turn.push(waiting)
      } else {
        this.#batches.set(key.stateKey, [waiting])
        this.#runBatches(key)
      }
    })
  }

  async #runBatches(key: Key): Promise<void> {
    for (let queue = this.#batches.get(key.stateKey); queue?.length; ) {
      const waiting = queue.splice(0, batchLength(queue))
      try {
        const refusals = await this.#runBatch(key, waiting)
        queue.unshift(...waiting.splice(refusals.length))
        waiting.forEach(({ resolve, reject }, i) => {
          if (refusals[i] === undefined) resolve()
          else reject(refusals[i])
        })
      } catch (error) {
        for (const { reject } of waiting) reject(error)
      }
    }
    this.#batches.delete(key.stateKey)
  }

  /** @returns what each change threw, of those that had the time */
  async #runBatch(key: Key, waiting: Waiting<Value>[]): Promise<unknown[]> {
    const idempotencyKey = waiting[0]?.idempotencyKey
    if (idempotencyKey && (await this.#isRepeated(idempotencyKey))) return [undefined]
    for (let conflicts = 0; conflicts < MAX_CONFLICTS; conflicts++) {
      const loaded = await this.#load(key)
      let result: TurnResult
      try {
        result = await this.#change(key, waiting, loaded)
      } finally {
        this.#limits.memory.give(loaded.bytes)
      }
      if (result.status === 'done') return result.refusals
      if (result.status === 'too large') return await this.#tooLarge(key, waiting.slice(0, result.changes))
      this.metrics.conflicts++
      await wait(Math.random() * Math.min(conflicts, 10))
    }
    throw new ApiError('unavailable', 'Too many services change this at the same time. Try again in a moment.')
  }

  /** Makes the changes of a turn to what was loaded, and commits what comes of it. */
  async #change(key: Key, waiting: Waiting<Value>[], loaded: Loaded<Value>): Promise<TurnResult> {
    const { readAt, version, value: before } = loaded
    const idempotencyKey = waiting[0]?.idempotencyKey
    const { value, refusals } = changeInTime(before, waiting)
    if (value === before) {
      // Another process may have carried out this very request since, and so be what refuses it now.
      const isRepeated = idempotencyKey && refusals[0] !== undefined && (await this.#isRepeated(idempotencyKey))
      return { status: 'done', refusals: isRepeated ? [undefined] : refusals }
    }
    const state = value === null ? '' : this.#table.format(value)
    if (value !== null && this.#isTooLarge(state, value, before)) {
      return { status: 'too large', changes: refusals.length }
    }
    const committed = await this.#commits.commit({
      type: 'commit',
      kind: this.#table.kind,
      stateKey: key.stateKey,
      expected: version,
      readAt,
      state,
      row: this.#table.row(key.projectId, key.name, value),
      ...(idempotencyKey && { idempotencyKey }),
    })
    return committed === null ? { status: 'conflict' } : { status: 'done', refusals }
  }

  #isTooLarge(state: string, value: Value, before: Value | null): boolean {
    const { maxBytes } = this.#limits
    // The properties are a part of the state, and a UTF-16 unit has at most 3 bytes of UTF-8.
    if (3 * state.length <= maxBytes) return false
    const bytes = this.#table.sizeOf(value)
    return bytes > maxBytes && (before === null || bytes > this.#table.sizeOf(before))
  }

  /** Refuses the change that makes the value too large, and carries out the others of its turn. */
  async #tooLarge(key: Key, waiting: Waiting<Value>[]): Promise<unknown[]> {
    if (waiting.length === 1) {
      const message = `With this change the properties would be over ${this.#limits.maxBytes} bytes. Nothing was changed; send less, or remove some first.`
      return [new ApiError('payload_too_large', message)]
    }
    const refusals: unknown[] = []
    for (const one of waiting) refusals.push(...(await this.#runBatch(key, [one])))
    return refusals
  }

  /** Asked before the change is tried: what it did the first time may be what would refuse it now. */
  async #isRepeated(request: IdempotencyKey): Promise<boolean> {
    const known = await this.#journal.findRequest(request)
    if (known?.status === 'mismatch') throw idempotencyConflict()
    return known !== null
  }

  #key(projectId: string, name: string): Key {
    return { projectId, name, stateKey: stateKeyOf(this.#table.kind, projectId, name) }
  }

  /** Of as many of the first keys as one reading gives. */
  async #read(keys: Key[]): Promise<Promise<Loaded<Value>>[]> {
    const { memory } = this.#limits
    await memory.take(READING_BYTES)
    let bytes = 0
    try {
      const reading = await this.#journal.readStates(
        keys.map(({ stateKey }) => stateKey),
        READING_BYTES,
      )
      bytes = reading.states.reduce((sum, state) => sum + (state?.state.length ?? 0), 0)
      memory.force(bytes)
      return this.#values(keys.slice(0, reading.states.length), reading)
    } finally {
      memory.give(READING_BYTES)
    }
  }

  /** The values that a reading gives, and what the store has where the journal has none. */
  #values(keys: Key[], { readAt, states }: StateReading): Promise<Loaded<Value>>[] {
    const missing = new Map<string, string[]>()
    keys.forEach(({ projectId, name }, i) => {
      if (states[i]) {
        this.metrics.inJournal++
        return
      }
      this.metrics.inStore++
      const names = missing.get(projectId)
      if (names) names.push(name)
      else missing.set(projectId, [name])
    })
    // Not awaited here: who is in the journal need not wait for the store, nor fail with it.
    const stored = new Map<string, (name: string) => Promise<Stored<Value>>>()
    for (const [projectId, names] of missing) stored.set(projectId, this.#readStored(projectId, names))
    return keys.map(async ({ projectId, name }, i) => {
      const state = states[i]
      if (state) {
        const bytes = state.state.length
        try {
          return { readAt, version: state.version, value: state.state ? this.#table.parse(state.state) : null, bytes }
        } catch (error) {
          this.#limits.memory.give(bytes)
          throw error
        }
      }
      return { readAt, ...((await stored.get(projectId)?.(name)) ?? NOT_STORED) }
    })
  }

  /** Asks the store for values of one project. @returns what gives the answer for a name */
  #readStored(projectId: string, names: string[]): (name: string) => Promise<Stored<Value>> {
    const answers = new Map<string, ReturnType<StateTable<Value>['read']>>()
    for (let start = 0; start < names.length; start += MAX_NAMES) {
      const some = names.slice(start, start + MAX_NAMES)
      const answer = this.#readWithin(some.length * SMALL_BYTES, projectId, some, SMALL_BYTES)
      for (const name of some) answers.set(name, answer)
    }
    const given = new Set<string>()
    return async (name) => {
      const found = (await answers.get(name))?.get(name)
      if (!found) return NOT_STORED
      if (found.value !== null) {
        // Whoever asks for the same name gives the same bytes back.
        if (given.has(name)) this.#limits.memory.force(found.bytes)
        given.add(name)
        return found
      }
      const alone = await this.#readWithin(found.bytes, projectId, [name], Number.MAX_SAFE_INTEGER)
      return alone.get(name) ?? NOT_STORED
    }
  }

  /** Reads from the store when there is memory for it, of which what the values need is kept. */
  async #readWithin(bytes: number, projectId: string, names: string[], maxBytes: number) {
    const { memory } = this.#limits
    await memory.take(bytes)
    try {
      const found = await this.#table.read(projectId, names, maxBytes)
      for (const { value, bytes } of found.values()) if (value !== null) memory.force(bytes)
      return found
    } finally {
      memory.give(bytes)
    }
  }
}

/** Makes one change after the other, until the turn's time is over. */
function changeInTime<Value>(before: Value | null, waiting: Waiting<Value>[]) {
  const endsAt = performance.now() + MAX_TURN_MS
  const refusals: unknown[] = []
  let value = before
  for (const { change } of waiting) {
    try {
      value = change(value)
      refusals.push(undefined)
    } catch (refusal) {
      refusals.push(refusal)
    }
    if (performance.now() > endsAt) break
  }
  return { value, refusals }
}

/** A change with a request key takes its turn alone, so that what is remembered is remembered of it. */
function batchLength(queue: { idempotencyKey: IdempotencyKey | undefined }[]): number {
  if (queue[0]?.idempotencyKey) return 1
  const keyed = queue.findIndex(({ idempotencyKey }) => idempotencyKey)
  return keyed === -1 ? queue.length : keyed
}

import { setTimeout as wait } from 'node:timers/promises'
import { ApiError, idempotencyConflict } from '../contract/errors.js'
import type { KeyClass } from '../contract/key-class.js'
import type { GroupCommit } from '../ingest/group-commit.js'
import type { Fence, Journal } from '../journal/journal.js'
import { toChangeId } from '../model/insert-id.js'
import { type IdempotencyKey, makeRequestIds } from '../model/request-ids.js'
import { toStateKey } from '../model/state-key.js'
import type { StateTable } from '../store/tables.js'
import type { KnownStates } from './known-states.js'
import { type Loaded, type StateKey, type StateReadLimits, type StateReadMetrics, StateReads } from './state-reads.js'

export interface StateLimits extends StateReadLimits {
  /** largest properties of a value, bytes; a value that is already larger may change, but not grow */
  maxBytes: number
  known?: Pick<KnownStates, 'isNew' | 'note'>
}

/**
 * Computes the next value from the current one. Returning the same object changes nothing, null deletes, a throw
 * refuses.
 */
export type Change<Value> = (current: Value | null) => Value | null

/** Identifies a change, so that a repetition has no effect, and the sender whose share of the journal it uses. */
export interface Repetition {
  /** class of the API key; default: secret, for changes that the service makes itself */
  keyClass?: KeyClass | undefined
  idempotencyKey?: IdempotencyKey | undefined
  /**
   * remembers the key where other requests look it up; called before each commit attempt, so not for a refused
   * change
   */
  reserveKey?: (() => Promise<void>) | undefined
  /** unique among the changes of one value */
  insertId?: string | undefined
  /** the name that was sent, if it is another name of the value: the `insertId` belongs to that name */
  sentTo?: string | undefined
  /** another state of the same name; the change is only made if that state has not changed */
  fence?: StateFence | undefined
}

/** The state of a fence, as it was read. */
export type StateFence = Omit<Fence, 'readAt'> & {
  /** null: not from the journal, but the state is known to be missing since shortly before the change */
  readAt: number | null
}

/** A change was not made, because the state of its fence has changed. */
export class FencedError extends Error {
  override readonly name = 'FencedError'
}

interface WaitingChange<Value> {
  change: Change<Value>
  keyClass: KeyClass
  idempotencyKey: IdempotencyKey | undefined
  reserveKey: (() => Promise<void>) | undefined
  /** null if the change has none */
  insertId: Buffer | null
  fence: StateFence | undefined
  resolve(): void
  reject(error: unknown): void
}

/**
 * The result of a batch. `done`: for each change that fit into the batch's time, what it threw. Otherwise nothing was
 * committed: another process was first, or changed the state of the fence; some changes are known (their indexes); or
 * the first `changes` together are too large.
 */
type BatchResult =
  | { status: 'done'; refusals: unknown[] }
  | { status: 'conflict' | 'fenced' }
  | { status: 'known'; changes: number[] }
  | { status: 'too large'; changes: number }

/** Counts since the start. */
export interface StateMetrics extends StateReadMetrics {
  /** commits that were retried because another process committed first */
  conflicts: number
}

/** Conflicts in a row before a change fails as unavailable. */
const MAX_CONFLICTS = 50
/** How long the changes of one batch may block the event loop; the remaining changes go into the next batch. */
const MAX_BATCH_MS = 10

/**
 * Profiles or sessions, each changed by compare-and-set: read the value, change it, commit it with the version that was
 * read, retry on a conflict. The changes of one value that wait in this process are committed as one batch.
 */
export class StateStore<Value> {
  readonly #journal: Journal
  readonly #commits: GroupCommit
  readonly #table: StateTable<Value>
  /** by state key: the changes that wait while a batch is in progress */
  readonly #queues = new Map<string, WaitingChange<Value>[]>()
  readonly #limits: StateLimits
  readonly #reads: StateReads<Value>
  #conflicts = 0

  constructor(journal: Journal, commits: GroupCommit, table: StateTable<Value>, limits: StateLimits) {
    this.#journal = journal
    this.#commits = commits
    this.#table = table
    this.#limits = limits
    this.#reads = new StateReads(journal, table, limits)
  }

  get metrics(): StateMetrics {
    return { ...this.#reads.metrics, conflicts: this.#conflicts }
  }

  /** The current value; null if there is none. */
  async get(projectId: string, name: string): Promise<Value | null> {
    return (await this.read(projectId, name)).value
  }

  /** The current value, null if there is none, and a fence for changes that depend on it. */
  async read(projectId: string, name: string): Promise<{ value: Value | null; fence: StateFence }> {
    const key = this.#key(projectId, name)
    const { value, version, readAt, bytes } = await this.#reads.load(key)
    this.#limits.memory.give(bytes)
    return { value, fence: { stateKey: key.stateKey, version, readAt } }
  }

  /**
   * Resolves when the changed value is durable. A change whose idempotency key or insert_id is known is not repeated.
   * @throws what the change throws; this does not affect the other changes of its batch
   * @throws FencedError
   */
  change(projectId: string, name: string, change: Change<Value>, repetition: Repetition = {}): Promise<void> {
    const key = this.#key(projectId, name)
    const { keyClass = 'secret', idempotencyKey, reserveKey, insertId: id, sentTo = name, fence } = repetition
    const insertId = id === undefined ? null : toChangeId(this.#key(projectId, sentTo).stateKey, id)
    return new Promise((resolve, reject) => {
      const waiting = { change, keyClass, idempotencyKey, reserveKey, insertId, fence, resolve, reject }
      const queue = this.#queues.get(key.stateKey)
      if (queue) {
        queue.push(waiting)
      } else {
        this.#queues.set(key.stateKey, [waiting])
        this.#runBatches(key)
      }
    })
  }

  async #runBatches(key: StateKey): Promise<void> {
    for (let queue = this.#queues.get(key.stateKey); queue?.length; ) {
      const waiting = queue.splice(0, batchLength(queue))
      try {
        const refusals = await this.#withoutKnown(key.projectId, waiting, await this.#runBatch(key, waiting))
        queue.unshift(...waiting.splice(refusals.length))
        waiting.forEach(({ resolve, reject }, i) => {
          if (refusals[i] === undefined) resolve()
          else reject(refusals[i])
        })
      } catch (error) {
        for (const { reject } of waiting) reject(error)
      }
    }
    this.#queues.delete(key.stateKey)
  }

  /**
   * Removes the refusals of changes that have already been made: a retry may be refused because of its own first
   * execution.
   */
  async #withoutKnown(projectId: string, waiting: WaitingChange<Value>[], refusals: unknown[]): Promise<unknown[]> {
    const refused = [...refusals.keys()].filter((i) => refusals[i] !== undefined && waiting[i]?.insertId)
    const ids = together(refused.map((i) => waiting[i]?.insertId))
    if (!ids) return refusals
    const sender = { projectId, keyClass: waiting[0]?.keyClass ?? 'secret' }
    const known = new Set((await this.#journal.ids.find({ sender, digests: ids })).map((index) => refused[index]))
    return refusals.map((refusal, i) => (known.has(i) ? undefined : refusal))
  }

  /** @returns what each change threw, for one or more of the first changes; the rest are still to be executed */
  async #runBatch(key: StateKey, waiting: WaitingChange<Value>[]): Promise<unknown[]> {
    const idempotencyKey = waiting[0]?.idempotencyKey
    if (idempotencyKey && (await this.#isRepeated(idempotencyKey))) return [undefined]
    for (let conflicts = 0; conflicts < MAX_CONFLICTS; conflicts++) {
      const loaded = await this.#reads.load(key)
      let result: BatchResult
      try {
        const turn = this.#limits.turns.take(() => key.projectId)
        if (turn) await turn
        result = await this.#change(key, waiting, loaded)
      } finally {
        this.#limits.memory.give(loaded.bytes)
      }
      if (result.status === 'done') return result.refusals
      if (result.status === 'fenced') throw new FencedError('the state of the fence has changed')
      if (result.status === 'known') return await this.#runRest(key, waiting, result.changes)
      if (result.status === 'too large') return await this.#tooLarge(key, waiting.slice(0, result.changes))
      this.#conflicts++
      await wait(Math.random() * Math.min(conflicts, 10))
    }
    throw new ApiError('unavailable', 'Too many processes are changing this at the same time. Try again in a moment.')
  }

  /** Executes the changes of a batch that are not known. The known ones were made before, so they succeed. */
  async #runRest(key: StateKey, waiting: WaitingChange<Value>[], known: number[]): Promise<unknown[]> {
    const rest = [...waiting.keys()].filter((i) => !known.includes(i))
    if (rest.length === 0) return waiting.map(() => undefined)
    const some = rest.flatMap((i) => waiting[i] ?? [])
    const refusals = await this.#runBatch(key, some).catch((error: unknown) => some.map(() => error))
    const end = rest[refusals.length] ?? waiting.length
    return waiting.slice(0, end).map((_, i) => refusals[rest.indexOf(i)])
  }

  /** Applies the changes of a batch to the loaded value and commits the result. */
  async #change(key: StateKey, waiting: WaitingChange<Value>[], loaded: Loaded<Value>): Promise<BatchResult> {
    const { readAt, version, value: before } = loaded
    const { idempotencyKey, fence } = waiting[0] ?? {}
    const { value, refusals } = changeInTime(before, waiting)
    if (value === before) {
      // The refusal may be due to this same request, which another process has executed since.
      const isRepeated = idempotencyKey && refusals[0] !== undefined && (await this.#isRepeated(idempotencyKey))
      return { status: 'done', refusals: isRepeated ? [undefined] : refusals }
    }
    const made = [...refusals.keys()].filter((i) => refusals[i] === undefined && waiting[i]?.insertId)
    const digests = together(made.map((i) => waiting[i]?.insertId))
    const state = value === null ? '' : this.#table.format(value)
    if (value !== null && this.#isTooLarge(state, value, before)) {
      return { status: 'too large', changes: refusals.length }
    }
    await waiting[0]?.reserveKey?.()
    this.#limits.known?.note(key.stateKey)
    const committed = await this.#commits.commit({
      type: 'commit',
      kind: this.#table.kind,
      projectId: key.projectId,
      keyClass: waiting[0]?.keyClass ?? 'secret',
      stateKey: key.stateKey,
      expected: version,
      readAt,
      state,
      row: this.#table.row(key.projectId, key.name, value),
      ids: makeRequestIds(idempotencyKey ?? null, digests),
      fence: fence && { ...fence, readAt: fence.readAt ?? readAt },
    })
    switch (committed.status) {
      case 'done':
        return { status: 'done', refusals }
      case 'conflict':
      case 'fenced':
        return { status: committed.status }
      case 'known':
        return { status: 'known', changes: committed.known.flatMap((index) => made[index] ?? []) }
    }
  }

  #isTooLarge(state: string, value: Value, before: Value | null): boolean {
    const { maxBytes } = this.#limits
    // The properties are a part of the state, and a UTF-16 unit takes at most 3 bytes of UTF-8.
    if (3 * state.length <= maxBytes) return false
    const bytes = this.#table.countBytes(value)
    return bytes > maxBytes && (before === null || bytes > this.#table.countBytes(before))
  }

  /**
   * Refuses the change that makes the value too large, and executes the others of its batch one by one. If one fails,
   * those before it stay committed; those after it go into the next batch.
   */
  async #tooLarge(key: StateKey, waiting: WaitingChange<Value>[]): Promise<unknown[]> {
    if (waiting.length === 1) {
      const message = `With this change the properties would be over ${this.#limits.maxBytes} bytes. Nothing was changed; send less, or remove some first.`
      return [new ApiError('payload_too_large', message)]
    }
    const refusals: unknown[] = []
    for (const one of waiting) {
      try {
        refusals.push(...(await this.#runBatch(key, [one])))
      } catch (error) {
        refusals.push(error)
        break
      }
    }
    return refusals
  }

  /** Check this before attempting a change: a retry may be refused because of its own first execution. */
  async #isRepeated(request: IdempotencyKey): Promise<boolean> {
    const known = await this.#journal.findRequest(request)
    if (known?.status === 'mismatch') throw idempotencyConflict()
    return known !== null
  }

  #key(projectId: string, name: string): StateKey {
    return { projectId, name, stateKey: toStateKey(this.#table.kind, projectId, name) }
  }
}

/** Applies one change after another, until MAX_BATCH_MS have passed. */
function changeInTime<Value>(before: Value | null, waiting: WaitingChange<Value>[]) {
  const endsAt = performance.now() + MAX_BATCH_MS
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

/** The ids of a batch, all of one sender; null if it has none. */
function together(ids: (Buffer | null | undefined)[]): Buffer | null {
  const some = ids.flatMap((id) => id ?? [])
  return some.length > 0 ? Buffer.concat(some) : null
}

/**
 * How many of the queued changes go into the next batch. A change with an idempotency key is a separate batch, so that
 * the key belongs to this change alone. A batch has no id twice, because the second change is only recognized after the
 * first was committed. All its changes came with the same class of keys, because a batch counts towards one share of
 * the journal and its ids have one sender, and all depend on the same version of the same state.
 */
function batchLength(
  queue: Pick<WaitingChange<unknown>, 'keyClass' | 'idempotencyKey' | 'insertId' | 'fence'>[],
): number {
  if (queue[0]?.idempotencyKey) return 1
  const ids = new Set<string>()
  const end = queue.findIndex(({ keyClass, idempotencyKey, insertId, fence }) => {
    const id = insertId?.toString('latin1')
    if (keyClass !== queue[0]?.keyClass || idempotencyKey || (id !== undefined && ids.has(id))) return true
    if (fence?.stateKey !== queue[0]?.fence?.stateKey || fence?.version !== queue[0]?.fence?.version) return true
    if (id !== undefined) ids.add(id)
    return false
  })
  return end === -1 ? queue.length : end
}

/** A StateStore that routes each key to its lane. */
export type States<Value> = Pick<StateStore<Value>, 'get' | 'change'>

/** States that changes of other states can depend on. */
export type FencingStates<Value> = States<Value> & Pick<StateStore<Value>, 'read'>

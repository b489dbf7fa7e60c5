import { createHash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { ContractError, idempotencyConflict } from './errors.js'
import { gather } from './gather.js'
import type { GroupCommit } from './journal/group-commit.js'
import type { Journal, RequestKey, StateKind } from './journal/journal.js'
import { type Position, START } from './journal/position.js'

/** How values of one kind are kept: as an opaque text in the journal, as a row in the store. */
export interface StateTable<Value> {
  kind: StateKind
  format(value: Value): string
  parse(text: string): Value
  /** a JSON object; null is a deleted value */
  row(projectId: string, name: string, value: Value | null): string
  read(projectId: string, names: string[]): Promise<Map<string, { version: Position; value: Value }>>
}

/** From the present value to the next: the very same object changes nothing, null deletes, a throw refuses. */
export type Change<Value> = (current: Value | null) => Value | null

interface Waiting<Value> {
  change: Change<Value>
  requestKey: RequestKey | undefined
  resolve(): void
  reject(error: unknown): void
}

interface Key {
  projectId: string
  name: string
  stateKey: string
}

/** What came by here since the start. */
export interface StateFigures {
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

/** A digest of kind, project and name: names are free-form and of any length up to 255 characters. */
export function stateKeyOf(kind: StateKind, projectId: string, name: string): string {
  return createHash('sha256')
    .update(JSON.stringify([kind, projectId, name]))
    .digest('hex')
}

/**
 * Profiles or sessions, each changed by compare-and-set: read, change, commit with the version that was read, again on a
 * conflict. The changes of one value that wait in this process take a turn together.
 */
export class States<Value> {
  readonly figures: StateFigures = { inJournal: 0, inStore: 0, conflicts: 0 }
  readonly #journal: Journal
  readonly #commits: GroupCommit
  readonly #table: StateTable<Value>
  readonly #maxBytes: number
  readonly #turns = new Map<string, Waiting<Value>[]>()
  readonly #load = gather((keys: Key[]) => this.#read(keys))

  /**
   * @param maxBytes of a value as the journal keeps it. A change writes the whole value, so what one costs is bounded by
   * this. A value that is larger already can be read, and changed as long as it does not grow
   */
  constructor(journal: Journal, commits: GroupCommit, table: StateTable<Value>, maxBytes: number) {
    this.#journal = journal
    this.#commits = commits
    this.#table = table
    this.#maxBytes = maxBytes
  }

  async get(projectId: string, name: string): Promise<Value | null> {
    return (await this.#load(this.#key(projectId, name))).value
  }

  /**
   * Resolves when the changed value is durable. With a request key that is known, the change is not made again.
   * @throws what the change throws; then this change has done nothing, others of the turn have
   */
  change(projectId: string, name: string, change: Change<Value>, requestKey?: RequestKey): Promise<void> {
    const key = this.#key(projectId, name)
    return new Promise((resolve, reject) => {
      const waiting = { change, requestKey, resolve, reject }
      const turn = this.#turns.get(key.stateKey)
      if (turn) {
        turn.push(waiting)
      } else {
        this.#turns.set(key.stateKey, [waiting])
        this.#takeTurns(key)
      }
    })
  }

  async #takeTurns(key: Key): Promise<void> {
    for (let queue = this.#turns.get(key.stateKey); queue?.length; ) {
      const waiting = queue.splice(0, turnLength(queue))
      try {
        const refusals = await this.#turn(key, waiting)
        queue.unshift(...waiting.splice(refusals.length))
        waiting.forEach(({ resolve, reject }, i) => {
          if (refusals[i] === undefined) resolve()
          else reject(refusals[i])
        })
      } catch (error) {
        for (const { reject } of waiting) reject(error)
      }
    }
    this.#turns.delete(key.stateKey)
  }

  /** @returns what each change threw, of those that had the time */
  async #turn(key: Key, waiting: Waiting<Value>[]): Promise<unknown[]> {
    const requestKey = waiting[0]?.requestKey
    if (requestKey && (await this.#isRepeated(requestKey))) return [undefined]
    for (let conflicts = 0; conflicts < MAX_CONFLICTS; conflicts++) {
      const { version, value: before } = await this.#load(key)
      const { value, refusals } = changeInTime(before, waiting)
      if (value === before) {
        // Another process may have carried out this very request since, and so be what refuses it now.
        const isRepeated = requestKey && refusals[0] !== undefined && (await this.#isRepeated(requestKey))
        return isRepeated ? [undefined] : refusals
      }
      const state = value === null ? '' : this.#table.format(value)
      if (this.#isTooLarge(state, before)) return await this.#tooLarge(key, waiting.slice(0, refusals.length))
      const committed = await this.#commits.commit({
        type: 'commit',
        kind: this.#table.kind,
        stateKey: key.stateKey,
        expected: version,
        state,
        row: this.#table.row(key.projectId, key.name, value),
        ...(requestKey && { requestKey }),
      })
      if (committed !== null) return refusals
      this.figures.conflicts++
      await wait(Math.random() * Math.min(conflicts, 10))
    }
    throw new ContractError('unavailable', 'Too many services change this at the same time. Try again in a moment.')
  }

  #isTooLarge(state: string, before: Value | null): boolean {
    // A UTF-16 unit has at most 3 bytes of UTF-8.
    if (3 * state.length <= this.#maxBytes) return false
    const bytes = Buffer.byteLength(state)
    if (bytes <= this.#maxBytes) return false
    return before === null || bytes > Buffer.byteLength(this.#table.format(before))
  }

  /** Refuses the change that makes the value too large, and carries out the others of its turn. */
  async #tooLarge(key: Key, waiting: Waiting<Value>[]): Promise<unknown[]> {
    if (waiting.length === 1) {
      const message = `With this change the properties would be over ${this.#maxBytes} bytes. Remove some of them first.`
      return [new ContractError('payload_too_large', message)]
    }
    const refusals: unknown[] = []
    for (const one of waiting) refusals.push(...(await this.#turn(key, [one])))
    return refusals
  }

  /** Asked before the change is tried: what it did the first time may be what would refuse it now. */
  async #isRepeated({ key, fingerprint }: RequestKey): Promise<boolean> {
    const known = await this.#journal.findRequest(key)
    if (known && known.fingerprint !== fingerprint) throw idempotencyConflict()
    return known !== null
  }

  #key(projectId: string, name: string): Key {
    return { projectId, name, stateKey: stateKeyOf(this.#table.kind, projectId, name) }
  }

  async #read(keys: Key[]): Promise<Promise<{ version: Position; value: Value | null }>[]> {
    const states = await this.#journal.readStates(keys.map(({ stateKey }) => stateKey))
    const missing = new Map<string, string[]>()
    keys.forEach(({ projectId, name }, i) => {
      if (states[i]) {
        this.figures.inJournal++
        return
      }
      this.figures.inStore++
      const names = missing.get(projectId)
      if (names) names.push(name)
      else missing.set(projectId, [name])
    })
    // Not awaited here: who is in the journal need not wait for the store, nor fail with it.
    const stored = new Map<string, ReturnType<StateTable<Value>['read']>>()
    for (const [projectId, names] of missing) stored.set(projectId, this.#table.read(projectId, names))
    return keys.map(async ({ projectId, name }, i) => {
      const state = states[i]
      if (state) return { version: state.version, value: state.state ? this.#table.parse(state.state) : null }
      return (await stored.get(projectId))?.get(name) ?? { version: START, value: null }
    })
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
function turnLength(queue: { requestKey: RequestKey | undefined }[]): number {
  if (queue[0]?.requestKey) return 1
  const keyed = queue.findIndex(({ requestKey }) => requestKey)
  return keyed === -1 ? queue.length : keyed
}

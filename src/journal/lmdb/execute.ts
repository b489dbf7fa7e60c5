import { HeldBytes } from '../../lib/held-bytes.js'
import { type Position, START } from '../../model/position.js'
import { findDigests, findKey, type IdempotencyKey } from '../../model/request-ids.js'
import type { StateKind } from '../../model/state-key.js'
import type { Append, Commit, Fullness, Outcome, Refused, Share, WaitingEntry, Write } from '../journal.js'
import { addShare, fullnessFor, toShare } from '../shares.js'
import type { Draft } from './draft.js'
import type { LmdbInsertIds } from './insert-ids.js'
import type { MemoryClock } from './memory-clock.js'
import type { LmdbRequests } from './requests.js'
import type { LmdbStates } from './states.js'
import type { LmdbTables } from './tables.js'
import { countRepeated } from './tallies.js'

/** The memory of the embedded journal, which decides the outcome of a write. */
export interface Remembered {
  requests: LmdbRequests
  insertIds: LmdbInsertIds
  states: LmdbStates
  tallies: LmdbTables['tallies']
  /** the clock by which requests and ids expire; null: the time of each call */
  clock: MemoryClock | null
}

interface Call {
  /** epoch ms */
  now: number
  /** the last position assigned */
  last: () => Position
  draft: Draft
}

/** Executes the writes of a call: makes their entries, and puts their changes into a draft. */
export function execute(writes: Write[], remembered: Remembered, entries: NewEntries, call: Call): Outcome[] {
  const outcomes = writes.map((write) => {
    const outcome = executeOne(write, remembered, entries, call)
    countRepeated(remembered.tallies, write, outcome, call.draft)
    return outcome
  })
  remembered.insertIds.record(call.draft)
  return outcomes
}

function executeOne(
  write: Write,
  { requests, insertIds, states }: Remembered,
  entries: NewEntries,
  { now, last, draft }: Call,
): Outcome {
  const key = findKey(write.ids)
  const digests = findDigests(write.ids)
  const refusal = key ? requests.refusal(key, write, now, draft) : null
  if (refusal) return refusal
  const remember = (position: Position) => {
    if (key) requests.remember(key, write, { position, index: 0 }, now, draft)
  }
  switch (write.type) {
    case 'append': {
      const fullness = entries.fullnessFor(write)
      if (fullness) return { status: 'full', fullness }
      if (write.ids.kind === 'shared') return appendShared(write, write.ids.keys, requests, entries, { now, draft })
      const known = digests ? insertIds.take({ sender: write, digests }, now, draft) : []
      if (known.length === write.count) {
        // Only reserve the key: the same body would be recognised by its ids, and a different body is a mismatch.
        remember(START)
        return { status: 'known', known }
      }
      const position = entries.nextPosition()
      entries.append(write, position, known)
      remember(position)
      return { status: 'done', position, ...(known.length > 0 && { known }) }
    }
    case 'commit': {
      const sent = digests && { sender: write, digests }
      const known = sent ? insertIds.find(sent, now, draft) : []
      if (known.length > 0) return { status: 'known', known }
      const { fence } = write
      if (fence && !states.isExpected({ ...fence, expected: fence.version }, now, draft)) return { status: 'fenced' }
      if (!states.isExpected(write, now, draft)) return { status: 'conflict' }
      const fullness = entries.fullnessFor(write)
      if (fullness) return { status: 'full', fullness }
      if (sent) insertIds.take(sent, now, draft)
      const position = entries.commit(write)
      remember(position)
      states.put(write.stateKey, position, write.state, draft)
      return { status: 'done', position }
    }
    case 'reserve':
      remember(START)
      return { status: 'done', position: last() }
  }
}

/** Appends the events whose keys are new. If two events have the same key, the second is refused. */
function appendShared(
  append: Append,
  keys: IdempotencyKey[],
  requests: LmdbRequests,
  entries: NewEntries,
  { now, draft }: { now: number; draft: Draft },
): Outcome {
  const known: number[] = []
  const refused: Refused[] = []
  let position: Position | null = null
  for (const [index, key] of keys.entries()) {
    const refusal = requests.refusal(key, append, now, draft)
    if (refusal) {
      known.push(index)
      refused.push(refusal)
    } else {
      position ??= entries.nextPosition()
      requests.remember(key, append, { position, index }, now, draft)
    }
  }
  if (position === null) return { status: 'known', known, refused }
  entries.append(append, position, known)
  return { status: 'done', position, ...(known.length > 0 && { known, refused }) }
}

/**
 * Removes expired requests, ids and states. Call it within a transaction.
 * @param limit maximum number of each
 * @returns the change in bytes of the cached states: zero or less
 */
export function sweep({ requests, insertIds, states, clock }: Remembered, now: number, limit: number): number {
  clock?.note(now)
  requests.forget(now, limit)
  insertIds.forget(now, limit)
  return states.sweep(now, limit)
}

/** The entries of the writes of one call: one for each append, and one for all rows of a kind. */
export class NewEntries {
  readonly #now: number
  readonly #advance: () => Position
  readonly #events: WaitingEntry[] = []
  readonly #rows = new Map<StateKind, { position: Position; rows: string[]; shares: Share[] }>()
  readonly #waiting: HeldBytes
  readonly #maxBytes: number
  /** by sender: the bytes of the new entries */
  readonly #added = new HeldBytes()

  /**
   * @param now epoch ms
   * @param advance assigns the next position
   * @param room the limit, and the shares that waiting entries already take of it
   */
  constructor(now: number, advance: () => Position, { waiting, maxBytes }: { waiting: HeldBytes; maxBytes: number }) {
    this.#now = now
    this.#advance = advance
    this.#waiting = waiting
    this.#maxBytes = maxBytes
  }

  /** Why there is no room for a write; null if there is. */
  fullnessFor(write: Append | Commit): Fullness | null {
    const { holder, bytes } = toShare(write)
    const held = this.#waiting.of(holder) + this.#added.of(holder)
    const used = this.#waiting.total + this.#added.total
    return fullnessFor(write.keyClass, bytes, { held, used, limit: this.#maxBytes })
  }

  /** The position of an entry that will be appended; one for each, in their order. */
  nextPosition(): Position {
    return this.#advance()
  }

  /**
   * @param position the last one of `nextPosition`
   * @param known indexes of the events that are skipped
   */
  append(append: Append, position: Position, known: number[]): void {
    const { kind = 'events', projectId, count, body } = append
    const share = toShare(append)
    this.#added.add(share.holder, share.bytes)
    const of = { projectId, count: count - known.length, receivedAt: this.#now, body, shares: [share] }
    const entry = { position, kind, ...of }
    this.#events.push(known.length > 0 ? { ...entry, skip: known } : entry)
  }

  commit(commit: Commit): Position {
    const { kind, row } = commit
    let entry = this.#rows.get(kind)
    if (!entry) {
      entry = { position: this.nextPosition(), rows: [], shares: [] }
      this.#rows.set(kind, entry)
    }
    entry.rows.push(row)
    const share = toShare(commit)
    this.#added.add(share.holder, share.bytes)
    addShare(entry.shares, share)
    return entry.position
  }

  /** The entries in the order of their positions. */
  get all(): WaitingEntry[] {
    const rows = [...this.#rows].map(([kind, { position, rows, shares }]): WaitingEntry => {
      const body = Buffer.from(rows.join(','))
      return { position, kind, projectId: '', count: rows.length, receivedAt: this.#now, body, shares }
    })
    return rows.length === 0 ? this.#events : [...this.#events, ...rows].sort(byPosition)
  }
}

function byPosition(a: WaitingEntry, b: WaitingEntry): number {
  return a.position < b.position ? -1 : 1
}

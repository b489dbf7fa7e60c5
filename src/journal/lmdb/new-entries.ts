import type { Position } from '../../model/position.js'
import type { StateKind } from '../../model/state-key.js'
import { type Append, type Commit, type Fullness, MAX_LIFT_MS, type Share, type WaitingEntry } from '../journal.js'
import { addShare, fullnessFor, Shares, shareOf } from '../shares.js'

/** The entries of the writes of one call: one for each append, and one for all rows of a kind. */
export class NewEntries {
  readonly #now: number
  readonly #advance: () => Position
  readonly #events: WaitingEntry[] = []
  readonly #rows = new Map<StateKind, { position: Position; rows: string[]; shares: Share[] }>()
  readonly #waiting: Shares
  readonly #maxBytes: number
  /** of the entries that are new */
  readonly #added = new Shares()

  /**
   * @param now epoch ms
   * @param advance assigns the next position
   * @param room what the entries that wait take of it
   */
  constructor(now: number, advance: () => Position, { waiting, maxBytes }: { waiting: Shares; maxBytes: number }) {
    this.#now = now
    this.#advance = advance
    this.#waiting = waiting
    this.#maxBytes = maxBytes
  }

  /** Why there is no room for a write; null if there is. */
  fullnessFor(write: Append | Commit): Fullness | null {
    const { holder, bytes } = shareOf(write)
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
    const share = shareOf(append)
    this.#added.add(share)
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
    const share = shareOf(commit)
    this.#added.add(share)
    addShare(entry.shares, share)
    return entry.position
  }

  /** In the order of their positions. */
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

/** A position of another journal, limited to MAX_LIFT_MS ahead of this one's clock. @param nowMs epoch ms */
export function limitedBy(position: Position, nowMs: number): Position {
  const limit = BigInt(nowMs + MAX_LIFT_MS) << 16n
  return position < limit ? position : limit
}

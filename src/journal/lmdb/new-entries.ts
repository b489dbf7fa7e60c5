import type { Position } from '../../model/position.js'
import type { StateKind } from '../../model/state-key.js'
import { type Append, type Commit, type Entry, MAX_LIFT_MS } from '../journal.js'

/** The entries of the writes of one call: one for each append, and one for all rows of a kind. */
export class NewEntries {
  readonly #now: number
  readonly #advance: () => Position
  readonly #events: Entry[] = []
  readonly #rows = new Map<StateKind, { position: Position; rows: string[] }>()

  /**
   * @param now epoch ms
   * @param advance assigns the next position
   */
  constructor(now: number, advance: () => Position) {
    this.#now = now
    this.#advance = advance
  }

  /** The position of an entry that will be appended; one for each, in their order. */
  nextPosition(): Position {
    return this.#advance()
  }

  /**
   * @param position the last one of `nextPosition`
   * @param known indexes of the events that are skipped
   */
  append({ kind = 'events', projectId, count, body }: Append, position: Position, known: number[]): void {
    const entry = { position, kind, projectId, count: count - known.length, receivedAt: this.#now, body }
    this.#events.push(known.length > 0 ? { ...entry, skip: known } : entry)
  }

  commit({ kind, row }: Commit): Position {
    let entry = this.#rows.get(kind)
    if (!entry) {
      entry = { position: this.nextPosition(), rows: [] }
      this.#rows.set(kind, entry)
    }
    entry.rows.push(row)
    return entry.position
  }

  /** In the order of their positions. */
  get all(): Entry[] {
    const rows = [...this.#rows].map(([kind, { position, rows }]): Entry => {
      const body = Buffer.from(rows.join(','))
      return { position, kind, projectId: '', count: rows.length, receivedAt: this.#now, body }
    })
    return rows.length === 0 ? this.#events : [...this.#events, ...rows].sort(byPosition)
  }
}

function byPosition(a: Entry, b: Entry): number {
  return a.position < b.position ? -1 : 1
}

/** A position of another journal, limited to MAX_LIFT_MS ahead of this one's clock. @param nowMs epoch ms */
export function limitedBy(position: Position, nowMs: number): Position {
  const limit = BigInt(nowMs + MAX_LIFT_MS) << 16n
  return position < limit ? position : limit
}

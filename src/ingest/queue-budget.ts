import type { Fullness } from '../journal/journal.js'
import { fullnessFor, Shares } from '../journal/shares.js'
import { type Sender, senderName } from '../model/sender.js'

/** Bytes that may queue in memory for the journals of a process; beyond them requests are refused. */
const MAX_QUEUED_BYTES = 64 * 1024 * 1024

/** The bytes that wait in the memory of this process for its journals, each sender with a share as in the journals. */
export class QueueBudget {
  readonly #maxBytes: number
  readonly #queued = new Shares()

  constructor(maxBytes = MAX_QUEUED_BYTES) {
    this.#maxBytes = maxBytes
  }

  /** Bytes that are not taken; negative if more than all are. */
  get left(): number {
    return this.#maxBytes - this.#queued.total
  }

  /** Takes the bytes, or nothing. @returns why there is no room for them; null if they were taken */
  tryTake(sender: Sender, bytes: number): Fullness | null {
    const used = this.#queued.total
    if (used > 0 && used + bytes > this.#maxBytes) return 'all'
    const holder = senderName(sender)
    const fullness = fullnessFor(sender.keyClass, bytes, {
      held: this.#queued.of(holder),
      used,
      limit: this.#maxBytes,
    })
    if (!fullness) this.#queued.add({ holder, bytes })
    return fullness
  }

  give(sender: Sender, bytes: number): void {
    this.#queued.add({ holder: senderName(sender), bytes }, -1)
  }
}

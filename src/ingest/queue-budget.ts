import type { Fullness } from '../journal/journal.js'
import { fullnessFor } from '../journal/shares.js'
import { HeldBytes } from '../lib/held-bytes.js'
import { type Sender, senderName } from '../model/sender.js'

/** Maximum number of bytes that queue in memory for the journals of a process; further requests are refused. */
const MAX_QUEUED_BYTES = 64 * 1024 * 1024

/** Limits the bytes that wait in memory for the journals. As in the journals, each sender has a share. */
export class QueueBudget {
  readonly #maxBytes: number
  readonly #whole: QueueBudget | null
  readonly #queued = new HeldBytes()

  /** @param whole see `ofLane` */
  constructor(maxBytes = MAX_QUEUED_BYTES, whole: QueueBudget | null = null) {
    this.#maxBytes = maxBytes
    this.#whole = whole
  }

  /**
   * The share of one of several lanes in this budget. It takes at most half of the free bytes, so a lane that hangs does
   * not stop the others, and each sender has a share of it, so no sender fills a lane for the others.
   */
  ofLane(): QueueBudget {
    return new QueueBudget(this.#maxBytes, this)
  }

  /** Bytes that are taken. */
  get bytes(): number {
    return this.#queued.total
  }

  /** Bytes that are not taken; negative if too many are. */
  get left(): number {
    return this.#limit - this.bytes
  }

  get #limit(): number {
    return this.#whole ? (this.bytes + this.#whole.left) / 2 : this.#maxBytes
  }

  /**
   * Takes the bytes, or nothing. A write that is larger than the limit may wait alone.
   * @returns why there is no room for them; null if they were taken
   */
  tryTake(sender: Sender, bytes: number): Fullness | null {
    const used = this.bytes
    const limit = this.#limit
    const holder = senderName(sender)
    if (used > 0 && used + bytes > limit) return 'all'
    const fullness = fullnessFor(sender.keyClass, bytes, { held: this.#queued.of(holder), used, limit })
    const refused = fullness ?? this.#whole?.tryTake(sender, bytes) ?? null
    if (!refused) this.#queued.add(holder, bytes)
    return refused
  }

  give(sender: Sender, bytes: number): void {
    this.#queued.add(senderName(sender), -bytes)
    this.#whole?.give(sender, bytes)
  }
}

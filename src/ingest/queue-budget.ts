import type { Fullness } from '../journal/journal.js'
import { fullnessFor } from '../journal/shares.js'
import { HeldBytes } from '../lib/held-bytes.js'
import { type Sender, senderName } from '../model/sender.js'

/** Maximum number of bytes that queue in memory for the journals of a process; further requests are refused. */
const MAX_QUEUED_BYTES = 64 * 1024 * 1024

/** Limits the bytes that wait in memory for the journals. As in the journals, each sender has a share. */
export class QueueBudget {
  readonly #maxBytes: number
  readonly #queued = new HeldBytes()

  constructor(maxBytes = MAX_QUEUED_BYTES) {
    this.#maxBytes = maxBytes
  }

  /** Bytes that are taken. */
  get bytes(): number {
    return this.#queued.total
  }

  /** Bytes that are not taken; negative if too many are. */
  get left(): number {
    return this.#maxBytes - this.#queued.total
  }

  /** Takes the bytes, or nothing. @returns why there is no room for them; null if they were taken */
  tryTake(sender: Sender, bytes: number): Fullness | null {
    return tryAdd(this.#queued, this.#maxBytes, sender, bytes)
  }

  give(sender: Sender, bytes: number): void {
    this.#queued.add(senderName(sender), -bytes)
  }
}

/**
 * The share of one of several lanes in a budget. It takes at most half of the free bytes, so a lane that hangs does not
 * stop the others, and each sender has a share of it, so no sender fills a lane for the others.
 */
export class LaneBudget {
  readonly #all: QueueBudget
  readonly #queued = new HeldBytes()

  constructor(all: QueueBudget) {
    this.#all = all
  }

  /** Bytes that this lane has taken. */
  get bytes(): number {
    return this.#queued.total
  }

  /** See QueueBudget. */
  tryTake(sender: Sender, bytes: number): Fullness | null {
    const limit = (this.#queued.total + this.#all.left) / 2
    const fullness = tryAdd(this.#queued, limit, sender, bytes)
    if (fullness) return fullness
    const fullnessOfAll = this.#all.tryTake(sender, bytes)
    if (fullnessOfAll) this.#remove(sender, bytes)
    return fullnessOfAll
  }

  give(sender: Sender, bytes: number): void {
    this.#remove(sender, bytes)
    this.#all.give(sender, bytes)
  }

  #remove(sender: Sender, bytes: number): void {
    this.#queued.add(senderName(sender), -bytes)
  }
}

/** Adds bytes of a sender if there is room for them. A write that is larger than the limit may wait alone. */
function tryAdd(queued: HeldBytes, limit: number, sender: Sender, bytes: number): Fullness | null {
  const used = queued.total
  if (used > 0 && used + bytes > limit) return 'all'
  const holder = senderName(sender)
  const fullness = fullnessFor(sender.keyClass, bytes, { held: queued.of(holder), used, limit })
  if (!fullness) queued.add(holder, bytes)
  return fullness
}

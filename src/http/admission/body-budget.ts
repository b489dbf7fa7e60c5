import { ApiError } from '../../contract/errors.js'
import { HeldBytes } from '../../lib/held-bytes.js'

/** Bodies up to this many bytes are not counted: the number of connections bounds their memory. */
export const SMALL_BODY = 8 * 1024

/** How long a body that was refused for its key stays counted. This also limits the work that such bodies can cause. */
const REFUSED_HOLD_MS = 20_000

/** The share of the budget for bodies whose key is unknown. */
const UNKNOWN_SHARE = 1 / 2
/** The share of a count that one project or one address may use. */
const OWNER_SHARE = 3 / 4

/**
 * Limits the memory of the bodies that this process is reading and handling, after inflation. Over
 * the limit, bodies are refused, except small ones. There are two counts: bodies whose key is
 * known, by project, and all others, by address. A key may be at the end of a body, so the
 * second count is large, too; but a body that turns out to have no valid key stays counted for a
 * while, which limits how many bytes per second are inflated and scanned without a key.
 */
export class BodyBudget {
  readonly known: Count
  readonly unknown: Count
  readonly #refusedHoldMs: number

  /** @param maxBytes a body that is larger is accepted only if it is the only one */
  constructor(maxBytes: number, refusedHoldMs = REFUSED_HOLD_MS) {
    this.known = new Count(maxBytes)
    this.unknown = new Count(maxBytes * UNKNOWN_SHARE)
    this.#refusedHoldMs = refusedHoldMs
  }

  /**
   * Bytes of the bodies in memory, by whether their key is known, including those that are still counted
   * after a refusal.
   */
  get bytes(): { known: number; unknown: number } {
    return { known: this.known.bytes, unknown: this.unknown.bytes }
  }

  ofProject(projectId: string): BodyAccount {
    return new BodyAccount(this, this.known, projectId)
  }

  ofAddress(address: string): BodyAccount {
    return new BodyAccount(this, this.unknown, address)
  }

  /** Removes bytes from the count; after a delay if the body had no valid key. */
  release(count: Count, owner: string, bytes: number): void {
    if (count === this.known) count.remove(owner, bytes)
    else setTimeout(() => count.remove(owner, bytes), this.#refusedHoldMs).unref()
  }
}

class Count {
  readonly #max: number
  readonly #held = new HeldBytes()

  constructor(max: number) {
    this.#max = max
  }

  get bytes(): number {
    return this.#held.total
  }

  /**
   * @param own bytes of the same body that are counted already
   * @returns false if there is no room
   */
  add(owner: string, bytes: number, own: number): boolean {
    const held = this.#held.of(owner)
    if (this.bytes > own && this.bytes + bytes > this.#max) return false
    if (held > own && held + bytes > this.#max * OWNER_SHARE) return false
    this.#held.add(owner, bytes)
    return true
  }

  remove(owner: string, bytes: number): void {
    this.#held.add(owner, -bytes)
  }
}

/** The memory that one body takes. */
export class BodyAccount {
  readonly #budget: BodyBudget
  #count: Count
  #owner: string
  #bytes = 0
  /** how many pieces of work need the body */
  #works = 0
  #isClosed = false

  constructor(budget: BodyBudget, count: Count, owner: string) {
    this.#budget = budget
    this.#count = count
    this.#owner = owner
  }

  /** The owner of the body: a project, or an address while the key is unknown. */
  get owner(): string {
    return this.#owner
  }

  /** Whether the key is known. */
  get isKnown(): boolean {
    return this.#count === this.#budget.known
  }

  /** @throws ApiError `overloaded` */
  take(bytes: number): void {
    if (this.#isOver) return
    if (!this.#count.add(this.#owner, bytes, this.#bytes)) throw this.#refusal()
    this.#bytes += bytes
  }

  /**
   * Moves the body to its project, once its key is verified.
   * @throws ApiError `overloaded`
   */
  admit(projectId: string): void {
    if (this.#isOver || this.isKnown) return
    const { known } = this.#budget
    if (!known.add(projectId, this.#bytes, 0)) throw this.#refusal()
    this.#count.remove(this.#owner, this.#bytes)
    this.#count = known
    this.#owner = projectId
  }

  /** Does work that takes several turns of the event loop. The body counts until its end, even if the client is gone. */
  async during<T>(work: () => T | Promise<T>): Promise<T> {
    this.#works++
    try {
      return await work()
    } finally {
      this.#works--
      if (this.#isOver) this.#release()
    }
  }

  /** Ends the account when the body is no longer needed; further calls do nothing. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    if (this.#isOver) this.#release()
  }

  get #isOver(): boolean {
    return this.#isClosed && this.#works === 0
  }

  #release(): void {
    if (this.#bytes > 0) this.#budget.release(this.#count, this.#owner, this.#bytes)
    this.#bytes = 0
  }

  #refusal(): ApiError {
    const hint = this.isKnown ? '' : ' Bodies whose key comes in the header x-api-key take precedence.'
    return new ApiError('overloaded', `Too many large bodies are being read. Try again in a moment.${hint}`, {
      limit: 'body_memory',
    })
  }
}

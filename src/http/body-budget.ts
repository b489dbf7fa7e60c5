import { ApiError } from '../contract/errors.js'

/** Bodies up to this many bytes are not counted: what they take is bounded by the number of connections. */
export const SMALL_BODY = 8 * 1024

/** How long a body that was refused for its key stays in the count, so that the work it made is limited as well. */
const REFUSED_STAYS_MS = 20_000

/** Of all that bodies may take, what those may whose key is not known. */
const UNKNOWN_SHARE = 1 / 2
/** Of what all may take, what one project or one address may. */
const ONE_SHARE = 3 / 4

/**
 * What the bodies that this process is reading and working on take in its memory, compressed ones inflated. Beyond it
 * further ones are refused, small ones excepted. There are two counts: bodies of requests whose key is known, by project,
 * and those of all others, by address. A key may stand at the end of a body, so the second is not a small one; but what
 * turned out to have no good key stays in it for a while, which limits how many bytes without a key are inflated and
 * looked through in a second.
 */
export class BodyBudget {
  readonly known: Count
  readonly unknown: Count
  readonly #refusedStaysMs: number

  /** @param maxBytes a body larger than that is taken where it is the only one */
  constructor(maxBytes: number, refusedStaysMs = REFUSED_STAYS_MS) {
    this.known = new Count(maxBytes)
    this.unknown = new Count(maxBytes * UNKNOWN_SHARE)
    this.#refusedStaysMs = refusedStaysMs
  }

  ofProject(projectId: string): BodyAccount {
    return new BodyAccount(this, this.known, projectId)
  }

  ofAddress(address: string): BodyAccount {
    return new BodyAccount(this, this.unknown, address)
  }

  /** Takes bytes out of the count, those of a body without a good key later. */
  giveBack(count: Count, owner: string, bytes: number): void {
    if (count === this.known) count.remove(owner, bytes)
    else setTimeout(() => count.remove(owner, bytes), this.#refusedStaysMs).unref()
  }
}

class Count {
  readonly #max: number
  readonly #held = new Map<string, number>()
  #all = 0

  constructor(max: number) {
    this.#max = max
  }

  get bytes(): number {
    return this.#all
  }

  /**
   * @param own what the same body has in the count already
   * @returns false where there is no room
   */
  add(owner: string, bytes: number, own: number): boolean {
    const held = this.#held.get(owner) ?? 0
    if (this.#all > own && this.#all + bytes > this.#max) return false
    if (held > own && held + bytes > this.#max * ONE_SHARE) return false
    this.#held.set(owner, held + bytes)
    this.#all += bytes
    return true
  }

  remove(owner: string, bytes: number): void {
    const rest = (this.#held.get(owner) ?? 0) - bytes
    if (rest > 0) this.#held.set(owner, rest)
    else this.#held.delete(owner)
    this.#all -= bytes
  }
}

/** What one body takes. */
export class BodyAccount {
  readonly #budget: BodyBudget
  #count: Count
  #owner: string
  #bytes = 0
  #isClosed = false

  constructor(budget: BodyBudget, count: Count, owner: string) {
    this.#budget = budget
    this.#count = count
    this.#owner = owner
  }

  /** Whether the key is known. */
  get isKnown(): boolean {
    return this.#count === this.#budget.known
  }

  /** @throws ContractError `overloaded` */
  take(bytes: number): void {
    if (this.#isClosed) return
    if (!this.#count.add(this.#owner, bytes, this.#bytes)) throw this.#refusal()
    this.#bytes += bytes
  }

  /**
   * The key of the body has been found and is good.
   * @throws ContractError `overloaded`
   */
  admit(projectId: string): void {
    if (this.#isClosed || this.isKnown) return
    const { known } = this.#budget
    if (!known.add(projectId, this.#bytes, 0)) throw this.#refusal()
    this.#count.remove(this.#owner, this.#bytes)
    this.#count = known
    this.#owner = projectId
  }

  /** The body is not needed any more; may be said more than once. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    if (this.#bytes > 0) this.#budget.giveBack(this.#count, this.#owner, this.#bytes)
  }

  #refusal(): ApiError {
    const hint = this.isKnown ? '' : ' Bodies whose key comes in the header x-api-key go first.'
    return new ApiError('overloaded', `Too many large bodies are being read. Try again in a moment.${hint}`)
  }
}

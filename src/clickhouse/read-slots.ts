import { NoSlotError } from './errors.js'

/** How streamed results share the connections to ClickHouse. */
export interface SlotLimits {
  /** results that may be streamed at the same time */
  slots: number
  /** how many of them may belong to one project; fewer than all, so that no project keeps the others from reading */
  perProject: number
  /** how long a read waits for a slot before it is refused, ms */
  waitMs: number
  /** a result of which its client has read nothing for this long, ms, loses its slot to a waiting read */
  stalledMs: number
}

interface WaitingRead {
  project: string
  grant(slot: Slot): void
}

/** Stands for a project: what the service reads for itself and nobody waits for. It may take all slots. */
export const BACKGROUND = ''

/** Interval at which stalled results are looked for while a read waits, ms. */
const LOOK_MS = 100

/** A share of the connections to ClickHouse, until it is released. */
export class Slot {
  readonly project: string
  readonly #release: (slot: Slot) => void
  #cutOff: (() => void) | null = null
  #onFree: (() => void) | null = null
  #isCut = false
  #stalledAt: number | null = null
  /** queries that ClickHouse has not ended yet, and for which nobody waits */
  #left = 0
  #isReleased = false

  constructor(project: string, release: (slot: Slot) => void) {
    this.project = project
    this.#release = release
  }

  /** @param cutOff aborts the result that uses the slot, which then releases it */
  onCutOff(cutOff: () => void): void {
    this.#cutOff = cutOff
  }

  /** @param run called once, when the slot can be taken by others */
  onFree(run: () => void): void {
    this.#onFree = run
  }

  /** @param at when the client last read anything, `performance.now()`; null while it keeps up */
  stalled(at: number | null): void {
    this.#stalledAt = at
  }

  /** How long the client has read nothing, ms; -1 while it keeps up. */
  stalledMs(now: number): number {
    return this.#stalledAt === null || this.#isCut ? -1 : now - this.#stalledAt
  }

  get isCut(): boolean {
    return this.#isCut
  }

  cutOff(): void {
    this.#isCut = true
    this.#cutOff?.()
  }

  /** Keeps the slot in use until a query has ended that its reader left. */
  holdUntil(ended: Promise<void>): void {
    this.#left++
    const end = () => {
      this.#left--
      this.#freeIfUnused()
    }
    ended.then(end, end)
  }

  /** Idempotent. What it is held for delays it. */
  release(): void {
    this.#isReleased = true
    this.#freeIfUnused()
  }

  #freeIfUnused(): void {
    if (!this.#isReleased || this.#left > 0) return
    this.#release(this)
    this.#onFree?.()
    this.#onFree = null
  }
}

/**
 * Slots for streamed results, each of which holds a connection to ClickHouse until it is read. Reads get slots in the
 * order of arrival, except those of projects that use up their share. A read never waits for a client that does not
 * read: its result is aborted when the slot is needed.
 */
export class ReadSlots {
  readonly #limits: SlotLimits
  readonly #yields: (project: string) => boolean
  readonly #held = new Set<Slot>()
  readonly #waiting = new Set<WaitingRead>()
  #looking: NodeJS.Timeout | null = null

  /** @param yields whether a project has to make do with one slot for now */
  constructor(limits: SlotLimits, yields: (project: string) => boolean = () => false) {
    this.#limits = limits
    this.#yields = yields
  }

  /** @throws NoSlotError if none is free in time, or the signal aborts before that */
  take(project: string, signal?: AbortSignal): Promise<Slot> {
    if (this.#hasRoom(project)) return Promise.resolve(this.#grant(project))
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', refuse)
        this.#waiting.delete(waiting)
        if (this.#waiting.size === 0) this.#stopLooking()
      }
      const refuse = () => {
        end()
        reject(new NoSlotError(`no connection became free within ${this.#limits.waitMs} ms`))
      }
      const waiting: WaitingRead = {
        project,
        grant: (slot) => {
          end()
          resolve(slot)
        },
      }
      const timer = setTimeout(refuse, this.#limits.waitMs)
      signal?.addEventListener('abort', refuse)
      this.#waiting.add(waiting)
      this.#looking ??= setInterval(() => this.#cutOffStalled(), LOOK_MS)
      this.#cutOffStalled()
      if (signal?.aborted) refuse()
    })
  }

  /** How many slots are in use. */
  get held(): number {
    return this.#held.size
  }

  #hasRoom(project: string): boolean {
    return this.#held.size < this.#limits.slots && this.#heldBy(project) < this.#shareOf(project)
  }

  #shareOf(project: string): number {
    if (project === BACKGROUND) return Number.POSITIVE_INFINITY
    return this.#yields(project) ? 1 : this.#limits.perProject
  }

  #heldBy(project: string): number {
    let count = 0
    for (const slot of this.#held) if (slot.project === project) count++
    return count
  }

  #grant(project: string): Slot {
    const slot = new Slot(project, (released) => this.#release(released))
    this.#held.add(slot)
    return slot
  }

  #release(slot: Slot): void {
    if (!this.#held.delete(slot)) return
    for (const waiting of this.#waiting) {
      if (this.#held.size >= this.#limits.slots) return
      if (this.#hasRoom(waiting.project)) waiting.grant(this.#grant(waiting.project))
    }
  }

  /** Aborts one stalled result for each waiting read, less those that are being aborted already. */
  #cutOffStalled(): void {
    const now = performance.now()
    const stalled = [...this.#held]
      .filter((slot) => slot.stalledMs(now) >= this.#limits.stalledMs)
      .sort((a, b) => b.stalledMs(now) - a.stalledMs(now))
    let ending = [...this.#held].filter(({ isCut }) => isCut).length
    for (const { project } of this.#waiting) {
      if (ending-- > 0) continue
      const hasShare = this.#heldBy(project) >= this.#shareOf(project)
      const at = stalled.findIndex((slot) => !hasShare || slot.project === project)
      if (at >= 0) stalled.splice(at, 1)[0]?.cutOff()
    }
  }

  #stopLooking(): void {
    if (this.#looking) clearInterval(this.#looking)
    this.#looking = null
  }
}

import { NoSlotError } from './errors.js'

/** How streamed results share the connections to ClickHouse. */
export interface SlotLimits {
  /** results that may be streamed at the same time */
  slots: number
  /** how many of them one project may have; fewer than all, so that no project blocks the others */
  perProject: number
  /** how long a read waits for a slot before it is refused, ms */
  waitMs: number
  /** if a client has read nothing of its result for this long, ms, a waiting read takes its slot */
  stalledMs: number
}

interface WaitingRead {
  project: string
  grant(slot: Slot): void
}

/** Used in place of a project for reads of the service itself. It may take all slots. */
export const BACKGROUND = ''

/** Interval of the checks for stalled results while a read waits, ms. */
const LOOK_MS = 100

/** A share of the connections to ClickHouse, until it is released. */
export class Slot {
  readonly project: string
  readonly #release: (slot: Slot) => void
  #cutOff: (() => void) | null = null
  #onFree: (() => void) | null = null
  #isCut = false
  #stalledAt: number | null = null
  /** number of abandoned queries that ClickHouse has not ended yet */
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

  /** @param run called once, when others can take the slot */
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

  /** Keeps the slot in use until an abandoned query has ended. */
  holdUntil(ended: Promise<void>): void {
    this.#left++
    const end = () => {
      this.#left--
      this.#freeIfUnused()
    }
    ended.then(end, end)
  }

  /** Idempotent. Takes effect after everything passed to `holdUntil` has ended. */
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
 * Slots for streamed results, each of which holds a connection to ClickHouse until it is read. Reads get slots in order
 * of arrival, except those of projects that have used up their share. A read never waits for a stalled client, whose
 * result is aborted when the slot is needed.
 */
export class ReadSlots {
  readonly #limits: SlotLimits
  readonly #allow: (project: string) => number
  readonly #held = new Set<Slot>()
  readonly #waiting = new Set<WaitingRead>()
  #looking: NodeJS.Timeout | null = null

  /** @param allow how many slots a project may have for now; default: `perProject` */
  constructor(limits: SlotLimits, allow: (project: string) => number = () => limits.perProject) {
    this.#limits = limits
    this.#allow = allow
  }

  /** @throws NoSlotError if none is free in time, or the signal aborts before that */
  take(project: string, signal?: AbortSignal): Promise<Slot> {
    if (this.#hasRoom(project)) return Promise.resolve(this.#grant(project))
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', refuse)
        this.#waiting.delete(waiting)
        if (this.#waiting.size > 0 || !this.#looking) return
        clearInterval(this.#looking)
        this.#looking = null
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

  /** Number of slots in use by these projects. */
  countHeld(isCounted: (project: string) => boolean): number {
    let count = 0
    for (const { project } of this.#held) if (isCounted(project)) count++
    return count
  }

  #hasRoom(project: string): boolean {
    return (
      this.#held.size < this.#limits.slots && this.countHeld((other) => other === project) < this.#countAllowed(project)
    )
  }

  #countAllowed(project: string): number {
    return project === BACKGROUND ? Number.POSITIVE_INFINITY : this.#allow(project)
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

  /** Aborts one stalled result for each waiting read, minus those that are already being aborted. */
  #cutOffStalled(): void {
    const now = performance.now()
    const stalled = [...this.#held]
      .filter((slot) => slot.stalledMs(now) >= this.#limits.stalledMs)
      .sort((a, b) => b.stalledMs(now) - a.stalledMs(now))
    let ending = [...this.#held].filter(({ isCut }) => isCut).length
    for (const { project } of this.#waiting) {
      if (ending-- > 0) continue
      const hasShare = this.countHeld((other) => other === project) >= this.#countAllowed(project)
      const at = stalled.findIndex((slot) => !hasShare || slot.project === project)
      if (at >= 0) stalled.splice(at, 1)[0]?.cutOff()
    }
  }
}

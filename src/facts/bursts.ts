export interface BurstLimits {
  /** a burst begins when more events than this arrive in a second */
  perSecond: number
  /** how long a burst may last, ms; what lasts longer is not a burst */
  limitMs: number
}

/**
 * Half as many events as one core copies in a second. Batches bring hundreds of thousands: copying them at the same time
 * slowed ingestion to 0.75 of its rate, and fell behind all the same.
 */
const LIMITS: BurstLimits = { perSecond: 50_000, limitMs: 60_000 }

/** Finds out whether events arrive in a burst, during which copying pauses. */
export class Bursts {
  readonly #limits: BurstLimits
  #arrived = 0
  #countedAt: number
  /** when the rate rose; null while it is low */
  #beganAt: number | null = null

  /** @param now a clock, ms */
  constructor(limits = LIMITS, now = performance.now()) {
    this.#limits = limits
    this.#countedAt = now
  }

  /**
   * Counts events that have arrived since the last call.
   * @returns whether they are part of a burst
   */
  count(rows: number, now = performance.now()): boolean {
    const { perSecond, limitMs } = this.#limits
    this.#arrived += rows
    const seconds = (now - this.#countedAt) / 1000
    // The store gets blocks of events: over a short time, their rate means nothing.
    if (seconds >= 1) {
      const isHigh = this.#arrived / seconds > perSecond
      this.#beganAt = isHigh ? (this.#beganAt ?? this.#countedAt) : null
      this.#arrived = 0
      this.#countedAt = now
    }
    return this.#beganAt !== null && now - this.#beganAt < limitMs
  }
}

interface TwoLevels {
  info(data: object, message: string): void
  warn(data: object, message: string): void
}

interface OutageMessages {
  /** what fails, and what that means until it works again */
  failed: string
  recovered: string
}

/** Logs the first of consecutive failures of something that is tried again and again, and its recovery. */
export class OutageLog {
  readonly #log: TwoLevels
  readonly #messages: OutageMessages
  #isFailing = false

  constructor(log: TwoLevels, messages: OutageMessages) {
    this.#log = log
    this.#messages = messages
  }

  /** Whether the last attempt failed. */
  get isFailing(): boolean {
    return this.#isFailing
  }

  noteFailure(error: unknown): void {
    if (!this.#isFailing) this.#log.warn({ err: error }, this.#messages.failed)
    this.#isFailing = true
  }

  noteSuccess(): void {
    if (this.#isFailing) this.#log.info({}, this.#messages.recovered)
    this.#isFailing = false
  }
}

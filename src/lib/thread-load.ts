/** Period over which the load is measured, ms; and the share of it above which the thread is short of time. */
const WINDOW_MS = 500
const BUSY_SHARE = 0.5
const STEP_MS = 100

/** How long a thread was busy and idle since its event loop began, ms. */
interface LoopTimes {
  active: number
  idle: number
}

/** Samples of a thread's busy and idle time, enough to cover the last WINDOW_MS at any time. */
export class ThreadHistory {
  readonly #read: () => LoopTimes
  /** oldest first; the second is within the window */
  readonly #moments: LoopTimes[] = []

  /** @param read default: reads the load of this thread */
  constructor(read: () => LoopTimes = () => performance.eventLoopUtilization()) {
    this.#read = read
  }

  /** Takes a sample. Call it every STEP_MS. */
  note(): void {
    this.#moments.push(this.#read())
    this.#trim()
  }

  /** Busy and idle time in the window, or slightly more, and when that period began, in ms since the loop began. */
  window(): LoopTimes & { since: number } {
    this.#trim()
    const { active, idle } = this.#moments[0] ?? { active: 0, idle: 0 }
    const now = this.#read()
    return { active: now.active - active, idle: now.idle - idle, since: active + idle }
  }

  /** ms since the loop began */
  get now(): number {
    return total(this.#read())
  }

  #trim(): void {
    const start = this.now - WINDOW_MS
    while (this.#moments[1] && total(this.#moments[1]) <= start) this.#moments.shift()
  }
}

function total({ active, idle }: LoopTimes): number {
  return active + idle
}

let own: ThreadHistory | undefined

/** The history of this thread, sampled from the first call on. */
function ownHistory(): ThreadHistory {
  if (own) return own
  const history = new ThreadHistory()
  history.note()
  // One unreferenced timer for the life of the process; nothing has to clear it.
  setInterval(() => history.note(), STEP_MS).unref()
  own = history
  return own
}

/** Whether this thread was short of time over the last half second. */
export class ThreadLoad {
  readonly #history: ThreadHistory
  #excluded: { at: number; ms: number }[] = []

  /** @param history default: the history of this thread */
  constructor(history: ThreadHistory = ownHistory()) {
    this.#history = history
  }

  /** Excludes the last `ms`, which the caller used itself and could yield to others. */
  exclude(ms: number): void {
    this.#excluded.push({ at: this.#history.now, ms })
  }

  get isShort(): boolean {
    const { active, idle, since } = this.#history.window()
    this.#excluded = this.#excluded.filter(({ at }) => at > since)
    const excluded = this.#excluded.reduce((sum, { ms }) => sum + ms, 0)
    return active + idle >= WINDOW_MS && (active - excluded) / (active + idle) > BUSY_SHARE
  }
}

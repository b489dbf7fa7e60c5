/** Over how long it is measured, ms; and from which share on the thread is short of time. */
const WINDOW_MS = 500
const BUSY_SHARE = 0.5
const STEP_MS = 100

/** What a thread did since its event loop began, ms. */
interface Spent {
  active: number
  idle: number
}

/** What a thread did up to each of the last moments: enough of them to look back over the window from any time on. */
export class ThreadHistory {
  readonly #read: () => Spent
  /** oldest first; the second is within the window */
  readonly #moments: Spent[] = []

  /** @param read default: that of this thread */
  constructor(read: () => Spent = () => performance.eventLoopUtilization()) {
    this.#read = read
  }

  /** Called at every step. */
  note(): void {
    this.#moments.push(this.#read())
    this.#trim()
  }

  /** How the window, or a bit more, was spent, and when it began, in ms since the loop did. */
  window(): Spent & { since: number } {
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

function total({ active, idle }: Spent): number {
  return active + idle
}

let own: ThreadHistory | undefined

/** That of this thread, which is noted from the first time on that anyone wants it. */
function ownHistory(): ThreadHistory {
  if (own) return own
  const history = new ThreadHistory()
  history.note()
  // It keeps no process running, and there is one of it, so nobody has to end it.
  setInterval(() => history.note(), STEP_MS).unref()
  own = history
  return own
}

/** Whether this thread has much to do, over the last half second. */
export class ThreadLoad {
  readonly #history: ThreadHistory
  #excluded: { at: number; ms: number }[] = []

  /** @param history default: that of this thread */
  constructor(history: ThreadHistory = ownHistory()) {
    this.#history = history
  }

  /** Time until now, in ms, that the asker took itself, and would give to others. */
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

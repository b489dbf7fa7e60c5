/** Lines about the requests of one sender in a window. */
const MAX_LINES = 100
const WINDOW_MS = 10_000

/** Whose requests they are: of one key, or of all that came without a known one; both texts are empty then. */
export interface Sender {
  projectId: string
  keyId: string
}

interface Count {
  sender: Sender
  lines: number
  /** lines that were left out, by code */
  left: Map<string, number>
}

/** What was left out of the log in a window. */
export interface LeftOut extends Sender {
  count: number
  codes: Record<string, number>
}

/**
 * Limits the lines that the log gets about requests, for each sender: anybody who reaches the service can send requests that
 * are refused, and a line for each would fill the disk. What is left out is counted and reported at the end of the window.
 */
export class LogLimit {
  readonly #report: (left: LeftOut) => void
  readonly #maxLines: number
  readonly #windowMs: number
  /** by key; known keys are few, and all others are one sender */
  readonly #counts = new Map<string, Count>()
  #timer: NodeJS.Timeout | undefined

  constructor(report: (left: LeftOut) => void, { maxLines = MAX_LINES, windowMs = WINDOW_MS } = {}) {
    this.#report = report
    this.#maxLines = maxLines
    this.#windowMs = windowMs
  }

  /** @returns whether the line may be written; if not, it is counted */
  allows({ projectId, keyId }: Sender, code: string): boolean {
    this.#timer ??= setTimeout(() => this.end(), this.#windowMs).unref()
    const count = this.#counts.get(keyId) ?? { sender: { projectId, keyId }, lines: 0, left: new Map<string, number>() }
    this.#counts.set(keyId, count)
    if (++count.lines <= this.#maxLines) return true
    count.left.set(code, (count.left.get(code) ?? 0) + 1)
    return false
  }

  /** Ends the window, and reports what was left out. */
  end(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const counts = [...this.#counts.values()]
    this.#counts.clear()
    for (const { sender, lines, left } of counts) {
      if (left.size > 0) this.#report({ ...sender, count: lines - this.#maxLines, codes: Object.fromEntries(left) })
    }
  }
}

import { setTimeout as wait } from 'node:timers/promises'
import { Calls, type Keys } from './calls.js'

/** The kinds of calls of the victim, each at its own rate, whether or not responses arrive. */
export const MEASURED = ['track', 'question', 'page'] as const
export type Measured = (typeof MEASURED)[number]
/** Rare enough that its queries keep their priority: a project whose queries run 15 % of the time has to yield. */
const EVERY_MS: Record<Measured, number> = { track: 20, question: 1_000, page: 500 }

/** The measurements of a phase. */
export interface Seen {
  /** ms, in the order of the calls */
  times: Record<Measured, number[]>
  /** responses other than 200, by call and status */
  refused: Record<string, number>
}

const QUESTIONS = [
  { kind: 'series', series: [{ event: 'a' }], from: '2025-10-09', to: '2025-10-10', interval: 'hour' },
  { kind: 'series', series: [{ event: 'a', metric: 'users' }], from: '2025-10-09', to: '2025-10-10', interval: 'hour' },
]

/**
 * The project that must not notice anything: it tracks 50 events a second, asks a question every second and reads two
 * pages a second. Times count from the moment a call was due, so that one slow response does not hide those that had to
 * wait for it.
 */
export class Victim {
  readonly #calls: Calls
  readonly #keys: Keys
  #seen: Seen = nothing()
  #isOver = false
  #count = 0
  readonly #running: Promise<unknown>

  constructor(url: string, keys: Keys) {
    this.#calls = new Calls(url, 200)
    this.#keys = keys
    this.#running = Promise.all(MEASURED.map((what) => this.#repeat(what)))
  }

  /** Measures the calls that are due in the next `ms`, and waits for their responses. */
  async phase(ms: number): Promise<Seen> {
    const seen = nothing()
    this.#seen = seen
    await wait(ms)
    this.#seen = nothing()
    await this.#answered(seen)
    return seen
  }

  async close(): Promise<void> {
    this.#isOver = true
    await this.#running
    this.#calls.close()
  }

  readonly #open = new Map<Seen, Set<Promise<unknown>>>()

  async #answered(seen: Seen): Promise<void> {
    await Promise.all(this.#open.get(seen) ?? [])
    this.#open.delete(seen)
  }

  async #repeat(what: Measured): Promise<void> {
    const startedAt = performance.now()
    for (let i = 1; !this.#isOver; i++) {
      const due = startedAt + i * EVERY_MS[what]
      await wait(Math.max(0, due - performance.now()))
      const open = this.#open.get(this.#seen) ?? new Set()
      this.#open.set(this.#seen, open)
      const one = this.#once(what, due, this.#seen).finally(() => open.delete(one))
      open.add(one)
    }
  }

  async #once(what: Measured, due: number, seen: Seen): Promise<void> {
    const { status, text } = await this.#calls.call(this.#callOf(what), { keepsText: true })
    seen.times[what].push(performance.now() - due)
    if (status === 200) return
    const name = `${what} ${status} ${/"code":"(\w+)"/.exec(text)?.[1] ?? text.slice(0, 40)}`
    seen.refused[name] = (seen.refused[name] ?? 0) + 1
  }

  #callOf(what: Measured) {
    const n = this.#count++
    const { secret } = this.#keys
    if (what === 'track') {
      return { path: '/public/track', key: secret, body: { event: 'v', distinct_id: `v${n % 100}`, properties: { n } } }
    }
    if (what === 'page') return { path: '/public/events?order=desc&limit=100', key: secret }
    return { path: '/public/query', key: secret, body: QUESTIONS[n % QUESTIONS.length] }
  }
}

function nothing(): Seen {
  return { times: { track: [], question: [], page: [] }, refused: {} }
}

/** The 99th percentile, ms; NaN if there are none. */
export function p99(times: readonly number[]): number {
  return quantile(times, 0.99)
}

/** ms; NaN if there are none. */
export function median(times: readonly number[]): number {
  return quantile(times, 0.5)
}

function quantile(times: readonly number[], share: number): number {
  const sorted = times.toSorted((a, b) => a - b)
  return sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN
}

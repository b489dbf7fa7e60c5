import { setTimeout as wait } from 'node:timers/promises'
import type { FigureOptions } from './figures.js'
import { SECRET_KEY, type Servers } from './servers.js'
import type { Store } from './store.js'

export interface Bench {
  servers: Servers
  rounds: number
  /** duration of one measurement */
  seconds: number
  /** number of stored events that a benchmark starts from, unless the command sets another */
  events(usual: number): number
  /** whether there is time for sizes that take long to fill */
  isLarge: boolean
  /** the machines that `scale` compares */
  machines: MachinePlan
  /** adds a line to the table */
  figure(name: string, options: FigureOptions): (value: number, limit?: number) => void
  /** adds a line below the table */
  note(text: string): void
  /** prints that a round begins */
  round(number: number): void
}

/** `lanes`: one store of all machines. `cells`: each machine has a separate store, so that they share nothing. */
export type MachineUse = 'lanes' | 'cells'

interface MachinePlan {
  /** numbers of machines; the others are compared with 1 */
  counts: number[]
  /** part of a core for each machine */
  share: number
  layout: MachineUse
}

export type Benchmark = (bench: Bench) => Promise<void>

/**
 * Lets V8 compile the code, and opens the connections to the store; the results are discarded. In the first 4 s of a
 * process, an event costs 50 % more, mostly in the thread that compiles.
 */
export const WARM_UP_SECONDS = 4
const VISIBLE_LIMIT_MS = 120_000
/** A median of times needs fewer samples than a rate. @returns s */
export function forTimes({ seconds }: Bench): number {
  return Math.ceil(seconds / 2)
}

/** Runs the rounds; ClickHouse finishes its merges before each. */
export async function eachRound(bench: Bench, store: Store | null, measure: (round: number) => Promise<void>) {
  for (let round = 0; round < bench.rounds; round++) {
    bench.round(round + 1)
    await store?.quiet()
    await measure(round)
  }
}

/** Resolves when everything that the service has accepted can be exported. */
export async function untilVisible(url: string): Promise<void> {
  const deadline = Date.now() + VISIBLE_LIMIT_MS
  for (;;) {
    const { pending } = await get<{ pending: number }>(`${url}/public/events?limit=1`)
    if (pending === 0) return
    if (Date.now() > deadline) throw new Error(`${pending} events are still not visible`)
  }
}

/** Resolves when a count is reached, polling as often as a reader would. */
export async function untilCount(count: () => Promise<number>, wanted: number): Promise<void> {
  const deadline = Date.now() + VISIBLE_LIMIT_MS
  for (;;) {
    const reached = await count()
    if (reached >= wanted) return
    if (Date.now() > deadline) throw new Error(`timed out waiting for ${wanted} events; ${reached} are there`)
    await wait(5)
  }
}

export async function get<Answer>(url: string): Promise<Answer> {
  const response = await fetch(url, { headers: { 'x-api-key': SECRET_KEY } })
  if (!response.ok) throw new Error(`${url} returned ${response.status}: ${await response.text()}`)
  return (await response.json()) as Answer
}

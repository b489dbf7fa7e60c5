import { setTimeout as wait } from 'node:timers/promises'
import type { Shards } from '../clickhouse/shards.js'
import type { ByteBudget } from '../lib/byte-budget.js'
import { readTailRange } from '../store/event-tail.js'
import { Audience } from './audience.js'
import type { Listener } from './listener.js'
import type { Pace } from './pace.js'
import { RowParser } from './row-parser.js'

export interface TailOptions {
  shards: Shards
  projectId: string
  /** limit of concurrent queries, over all projects */
  queries: ByteBudget
  pace: Pace
  signal: AbortSignal
  /** called after sending to these listeners; `events` counts each event for each listener */
  onSent: (listeners: readonly Listener[], events: number) => void
}

/** Maximum number of events of one query, after which other projects have their turn. */
const STEP_EVENTS = 20_000
/** Bytes that are read before they are sent, so that a listener gets its part in one write. */
const ROUND_BYTES = 512 * 1024
/** How long a round waits for the listeners of the previous one, ms, and how often it checks them. */
const WAIT_MS = 1_000
const LOOK_MS = 10

/**
 * The newest events of one project: each range that becomes visible is read once for all listeners, and every
 * listener gets the events that match its filter.
 *
 *     ────────── sent ──────────│── being sent ──│── not yet stored ──▶
 *                             #done            goal
 *
 * A listener that has everything up to `goal`, or gets it in another way, may join at any time.
 */
export class Tail {
  readonly #audience = new Audience()
  readonly #options: TailOptions
  #done: string
  #goal: string
  /** the last id that was read; after #done while the events are being sent */
  #read: string
  #advancing: Promise<void> | null = null

  /** @param start everything up to this id is stored */
  constructor(options: TailOptions, start: string) {
    this.#options = options
    this.#done = start
    this.#goal = start
    this.#read = start
  }

  /** Events up to this id were sent to the listeners that have joined, or are being sent. */
  get goal(): string {
    return this.#goal
  }

  /** Events up to this id were sent. */
  get done(): string {
    return this.#done
  }

  /** @param after the last id that the listener has, not before `goal` */
  join(listener: Listener, after: string): void {
    this.#audience.add(listener, after > this.#done ? after : '')
  }

  leave(listener: Listener): void {
    this.#audience.remove(listener)
  }

  /** Whether events up to this id may have to be sent. */
  isBefore(id: string): boolean {
    if (this.#audience.size === 0) this.skipTo(id)
    return this.#done < id
  }

  /** Notes that no listener wants an event up to this id. */
  skipTo(id: string): void {
    if (this.#advancing || id <= this.#done) return
    this.#done = id
    if (id > this.#goal) this.#goal = id
    this.#audience.mergeCaughtUp(id)
  }

  /**
   * Sends what is stored up to this id. A concurrent call moves the goal.
   * @throws StoreError, StoreUnreachableError; the next call resumes after the last event that was sent
   */
  advance(id: string): Promise<void> {
    if (id > this.#goal) this.#goal = id
    this.#advancing ??= this.#run().finally(() => {
      this.#advancing = null
    })
    return this.#advancing
  }

  async #run(): Promise<void> {
    const { queries, signal } = this.#options
    while (this.#done < this.#goal && !signal.aborted) {
      await queries.take(1)
      try {
        await this.#step()
      } finally {
        queries.give(1)
      }
      this.#audience.mergeCaughtUp(this.#done)
    }
  }

  async #step(): Promise<void> {
    const upTo = this.#goal
    if (this.#audience.size === 0) {
      this.#done = upTo
      return
    }
    try {
      const count = await this.#readTailRange(upTo)
      await this.#deliver()
      if (count < STEP_EVENTS) this.#done = upTo
    } catch (error) {
      // The rows read so far are complete.
      await this.#deliver()
      throw error
    }
  }

  /** Reads a range after the events that were sent, and sends most of it. @returns how many events it had */
  async #readTailRange(upTo: string): Promise<number> {
    const { shards, projectId, signal } = this.#options
    const range = { projectId, after: this.#done, upTo, limit: STEP_EVENTS, anyOf: this.#audience.names() }
    const parser = new RowParser()
    let count = 0
    let bytes = 0
    for await (const chunk of await readTailRange(shards, range, { signal })) {
      const piece = chunk as Buffer
      const events = parser.take(piece)
      count += events.length
      bytes += piece.length
      for (const event of events) this.#audience.offer(event)
      this.#read = events.at(-1)?.id ?? this.#read
      if (bytes < ROUND_BYTES) continue
      bytes = 0
      await this.#deliver()
    }
    if (!parser.isWhole) throw new Error('the result ends in the middle of a row')
    return count
  }

  async #deliver(): Promise<void> {
    const { pace, onSent } = this.#options
    if (this.#read > this.#done) this.#done = this.#read
    const deliveries = this.#audience.take()
    const reached: Listener[] = []
    pace.start()
    for (const { listeners, frames, events } of deliveries) {
      for (const listener of listeners) {
        listener.send(frames)
        reached.push(listener)
        if (pace.isOver) await pace.yieldToOthers()
      }
      onSent(listeners, events * listeners.length)
    }
    await pace.yieldToOthers()
    await keepStep(reached)
  }
}

/**
 * Waits until most listeners have read their events, so that only slow ones fall behind. A listener that does not read
 * at all delays the others only once.
 */
export async function keepStep(reached: readonly Listener[]): Promise<void> {
  const deadline = performance.now() + WAIT_MS
  const isBehind = ({ keepsUp, destroyed, stalledMs }: Listener) => !keepsUp && !destroyed && stalledMs < WAIT_MS
  const behind = () => reached.filter(isBehind).length
  while (2 * behind() > reached.length && performance.now() < deadline) await wait(LOOK_MS)
}

import { ApiError, idempotencyConflict, tooManyRequestKeys } from '../contract/errors.js'
import { msUntilNextBucket } from '../journal/idempotency-memory.js'
import type { Append, Commit, IdempotencyKey, Journal, Outcome, Write } from '../journal/journal.js'
import type { BufferPool } from '../lib/buffer-pool.js'
import { Histogram, SECONDS } from '../lib/histogram.js'
import type { Position } from '../model/position.js'

/** Bytes that may queue in memory for the journal; beyond them requests are refused. */
const MAX_QUEUED_BYTES = 64 * 1024 * 1024
/** Bytes of one write, so that a slow journal completes it within its time limit. */
const MAX_WRITE_BYTES = 16 * 1024 * 1024

const REFUSALS = {
  unavailable: 'The service is stopping. Try again in a moment.',
  overloaded: 'Too many requests are waiting to be stored. Try again in a moment.',
}

const OPEN = Buffer.from('{"events":[')
const COMMA = Buffer.from(',')
const CLOSE = Buffer.from(']}')

/** Where the events of an appended request are: the entry, and the index of the first one in it. */
export interface Appended {
  position: Position
  index: number
}

/** Counts since the start. */
export interface CommitMetrics {
  /** events that are durable in the journal; a repeated request counts once */
  accepted: number
  /** refused events by error code; after `internal` they may be in the journal all the same */
  refused: Record<'overloaded' | 'unavailable' | 'internal', number>
  /** duration of the writes that succeeded */
  writeSeconds: Histogram
}

interface Waiting<Result> {
  bytes: number
  resolve(result: Result): void
  reject(error: unknown): void
}

interface WaitingEvent extends Waiting<Appended> {
  projectId: string
  body: Buffer
}

interface WaitingWrite extends Waiting<Outcome> {
  write: Write
}

/** What one write commits. Its outcomes are those of the appends of `events`, then those of `writes`. */
interface Group {
  /** by project: the events of each become one entry */
  events: WaitingEvent[][]
  writes: WaitingWrite[]
  batch: Write[]
  written: Promise<Outcome[] | { error: unknown }>
}

/**
 * The way into the journal. Requests that arrive while a write is in flight share the next one, and the single events of
 * one project share an entry, so that the cost of a write is spread over all waiting requests. One write is in flight at a
 * time; its duration is the back-pressure.
 *
 * A body that is appended belongs to the group commit, which releases it to the pool: an event once it is copied into its
 * entry, an entry when the journal reports that it no longer needs it, and either if it is not admitted to the queue.
 */
export class GroupCommit {
  readonly metrics: CommitMetrics = {
    accepted: 0,
    refused: { overloaded: 0, unavailable: 0, internal: 0 },
    writeSeconds: new Histogram(SECONDS),
  }
  readonly #journal: Journal
  readonly #pool: BufferPool
  #events: WaitingEvent[] = []
  #writes: WaitingWrite[] = []
  #queuedBytes = 0
  #running: Promise<void> | null = null
  #closed = false

  /** @param pool of the bodies, and for the entries that are built from single events */
  constructor(journal: Journal, pool: BufferPool) {
    this.#journal = journal
    this.#pool = pool
    journal.listen({ onReleased: (body) => pool.release(body) })
  }

  /** Appends one event, a JSON object. It shares its entry with other events of the moment. */
  appendEvent(projectId: string, body: Buffer): Promise<Appended> {
    return new Promise((resolve, reject) => {
      this.#admit(body.length, 1, body)
      this.#events.push({ projectId, body, bytes: body.length, resolve, reject })
    })
  }

  /** Appends one entry of `count` events, given as JSON `{"events":[…]}`. */
  async appendBatch(
    projectId: string,
    body: Buffer,
    count: number,
    idempotencyKey?: IdempotencyKey,
  ): Promise<Appended> {
    const append: Append = { type: 'append', projectId, body, count, ...(idempotencyKey && { idempotencyKey }) }
    const outcome = await this.#enqueue(append, body.length)
    if (outcome.status === 'conflict') throw new Error('an append has no expected version')
    return { position: positionOf(outcome), index: 0 }
  }

  /** As `appendEvent`, but the event gets an entry of its own, which its idempotency key finds again. */
  appendKeyedEvent(projectId: string, body: Buffer, idempotencyKey: IdempotencyKey): Promise<Appended> {
    return this.appendBatch(projectId, this.#entryOf([body]), 1, idempotencyKey)
  }

  /** @returns the new version, or null on a conflict: the state is no longer the expected one */
  async commit(commit: Commit): Promise<Position | null> {
    const outcome = await this.#enqueue(commit, commit.state.length + commit.row.length)
    return outcome.status === 'conflict' ? null : positionOf(outcome)
  }

  /** Refuses new requests; resolves when every accepted one is settled. */
  async close(): Promise<void> {
    this.#closed = true
    while (this.#running) await this.#running
  }

  #enqueue(write: Write, bytes: number): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      this.#admit(bytes, eventsOf(write), write.type === 'append' ? write.body : null)
      this.#writes.push({ write, bytes, resolve, reject })
    })
  }

  /**
   * @param body released if it is refused, as nothing has kept it yet
   * @throws ApiError `unavailable` or `overloaded`
   */
  #admit(bytes: number, events: number, body: Buffer | null): void {
    if (this.#closed || (this.#queuedBytes > 0 && this.#queuedBytes + bytes > MAX_QUEUED_BYTES)) {
      const code = this.#closed ? 'unavailable' : 'overloaded'
      this.metrics.refused[code] += events
      if (body) this.#pool.release(body)
      throw new ApiError(code, REFUSALS[code])
    }
    this.#queuedBytes += bytes
    this.#running ??= this.#run()
  }

  async #run(): Promise<void> {
    await endOfTurn()
    let group = this.#send()
    while (group) {
      const written = await group.written
      await endOfTurn()
      let next: Group | null
      try {
        // The next write is sent first, so that the journal works on it while the responses are sent.
        next = this.#send()
      } finally {
        this.#resolve(group, written)
      }
      group = next
    }
    this.#running = null
  }

  /** Sends what is queued, up to the bytes of a write, to the journal; null where nothing is. */
  #send(): Group | null {
    let room = MAX_WRITE_BYTES
    const take = <T extends { bytes: number }>(queue: T[]): T[] => {
      let taken = 0
      while (taken < queue.length && (room > 0 || taken === 0)) room -= queue[taken++]?.bytes ?? 0
      return queue.splice(0, taken)
    }
    const events = groupByProject(take(this.#events))
    const writes = take(this.#writes)
    if (events.length === 0 && writes.length === 0) return null
    const batch = [...events.map((group) => this.#toAppend(group)), ...writes.map(({ write }) => write)]
    return { events, writes, batch, written: this.#write(batch) }
  }

  #toAppend(group: WaitingEvent[]): Append {
    const body = this.#entryOf(group.map(({ body }) => body))
    return { type: 'append', projectId: group[0]?.projectId ?? '', count: group.length, body }
  }

  /** Copies the events into one entry and releases them. */
  #entryOf(events: Buffer[]): Buffer {
    const parts: Buffer[] = [OPEN]
    let length = OPEN.length + CLOSE.length - COMMA.length
    for (const event of events) {
      parts.push(event, COMMA)
      length += event.length + COMMA.length
    }
    parts[parts.length - 1] = CLOSE
    const entry = this.#pool.concat(parts, length)
    for (const event of events) this.#pool.release(event)
    return entry
  }

  async #write(batch: Write[]): Promise<Outcome[] | { error: unknown }> {
    const startedAt = performance.now()
    try {
      const outcomes = await this.#journal.write(batch)
      this.metrics.writeSeconds.observe((performance.now() - startedAt) / 1000)
      return outcomes
    } catch (error) {
      return { error }
    }
  }

  #resolve({ events, writes, batch }: Group, written: Outcome[] | { error: unknown }): void {
    const all = [...events.flat(), ...writes]
    for (const { bytes } of all) this.#queuedBytes -= bytes
    if ('error' in written) {
      for (const write of batch) this.metrics.refused[refusalOf(written.error)] += eventsOf(write)
      for (const { reject } of all) reject(written.error)
      return
    }
    batch.forEach((write, i) => {
      if (written[i]?.status === 'done') this.metrics.accepted += eventsOf(write)
    })
    events.forEach((sharers, i) => {
      const outcome = written[i]
      sharers.forEach(({ resolve, reject }, index) => {
        if (outcome?.status === 'done') resolve({ position: outcome.position, index })
        else reject(new Error(`the journal returned ${outcome?.status ?? 'nothing'} for an append`))
      })
    })
    writes.forEach(({ resolve, reject }, i) => {
      const outcome = written[events.length + i]
      if (outcome) resolve(outcome)
      else reject(new Error('the journal returned no outcome for a write'))
    })
  }
}

/** Resolves after the I/O of this turn of the event loop, so that all requests it brought share the next write. */
function endOfTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

function eventsOf(write: Write): number {
  return write.type === 'append' ? write.count : 0
}

function refusalOf(error: unknown): keyof CommitMetrics['refused'] {
  const code = error instanceof ApiError ? error.code : null
  return code === 'overloaded' || code === 'unavailable' ? code : 'internal'
}

function groupByProject(events: WaitingEvent[]): WaitingEvent[][] {
  const groups = new Map<string, WaitingEvent[]>()
  for (const event of events) {
    const group = groups.get(event.projectId)
    if (group) group.push(event)
    else groups.set(event.projectId, [event])
  }
  return [...groups.values()]
}

function positionOf(outcome: Outcome | undefined): Position {
  if (outcome?.status === 'done' || outcome?.status === 'repeated') return outcome.position
  if (outcome?.status === 'mismatch') throw idempotencyConflict()
  if (outcome?.status === 'limited') throw tooManyRequestKeys(msUntilNextBucket(Date.now()))
  throw new Error(`the journal returned ${outcome?.status ?? 'nothing'} for an append`)
}

import { ApiError } from '../contract/errors.js'
import type { Append, Commit, IdempotencyKey, Journal, Outcome, Write } from '../journal/journal.js'
import type { BufferPool } from '../lib/buffer-pool.js'
import { ByteBudget } from '../lib/byte-budget.js'
import { given } from '../lib/given.js'
import { Histogram, SECONDS } from '../lib/histogram.js'
import type { InsertIds } from '../model/identified-events.js'
import type { SentIds } from '../model/insert-id.js'
import type { Position } from '../model/position.js'
import {
  type Appended,
  asRefusedWrite,
  bytesOf,
  type CommitMetrics,
  eventsOf,
  type Group,
  groupByProject,
  isMovable,
  lastOf,
  placeOf,
  positionOf,
  refusalOf,
  settleEvents,
  type WaitingEvent,
  type WaitingWrite,
  type Written,
} from './commit-parts.js'
import { Gathering } from './gathering.js'

/** Bytes that may queue in memory for the journals of a process; beyond them requests are refused. */
const MAX_QUEUED_BYTES = 64 * 1024 * 1024
/** Bytes of one write, so that a slow journal completes it within its time limit. */
const MAX_WRITE_BYTES = 16 * 1024 * 1024

/** How long a write may be in flight before what waits behind it goes to other lanes. */
const SLOW_WRITE_MS = 1_000
const WATCH_MS = 250

const REFUSALS = {
  slow: 'The journal does not respond. Try again in a moment.',
  unavailable: 'The service is stopping. Try again in a moment.',
  overloaded: 'Too many requests are waiting to be stored. Try again in a moment.',
}

/** What a reservation counts in the queue, about as much as it takes in the journal. */
const RESERVE_BYTES = 100

const OPEN = Buffer.from('{"events":[')
const COMMA = Buffer.from(',')
const CLOSE = Buffer.from(']}')

export interface AppendOptions {
  idempotencyKey?: IdempotencyKey | undefined
  /** of the events; null if none has one */
  insertIds?: InsertIds | null
}

/** What became of a commit: done, the state is not the expected one, or the ids at these indexes are known. */
export type Committed = { status: 'done' | 'conflict' } | { status: 'known'; known: number[] }

/** What the group commits of a process share. */
export function openQueueBudget(): ByteBudget {
  return new ByteBudget(MAX_QUEUED_BYTES)
}

/** What a group commit that is one of several owes to the others. */
export interface OtherLanes {
  /** begins the message of a refusal, as `In lane 1 (host:6379): ` */
  prefix: string
  /** Everything up to `position` may have been answered: what other lanes write from now on lies behind it. */
  onWritten(position: Position): void
  /**
   * Appends an entry without a key and without ids that this journal refused to another lane.
   * @returns null if there is none to try
   */
  append(refused: Append): Promise<Appended | null> | null
  /** whether `append` has a lane to try */
  hasOpen(): boolean
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
    repeated: 0,
    refused: { overloaded: 0, unavailable: 0, internal: 0 },
    writeSeconds: new Histogram(SECONDS),
  }
  readonly #journal: Journal
  readonly #pool: BufferPool
  readonly #others: OtherLanes | null
  readonly #budget: ByteBudget
  #events: WaitingEvent[] = []
  #writes: WaitingWrite[] = []
  readonly #gathering = new Gathering(() => this.#events.length + this.#writes.length)
  #queuedBytes = 0
  #refusedAt = Number.NEGATIVE_INFINITY
  /** when the write in flight was sent (`performance.now()`); null if there is none */
  #sentAt: number | null = null
  readonly #watch: NodeJS.Timeout | undefined
  #running: Promise<void> | null = null
  #closed = false

  /**
   * @param pool of the bodies, and for the entries that are built from single events
   * @param others null if this is the only lane
   * @param budget of all lanes
   */
  constructor(journal: Journal, pool: BufferPool, others: OtherLanes | null = null, budget = openQueueBudget()) {
    this.#journal = journal
    this.#pool = pool
    this.#others = others
    this.#budget = budget
    journal.listen({ onReleased: (body) => pool.release(body) })
    if (others) this.#watch = setInterval(() => this.#handOver(others), WATCH_MS).unref()
  }

  /** Bytes that wait for the journal, those of the write in flight included. */
  get queuedBytes(): number {
    return this.#queuedBytes
  }

  /** When the journal last failed or delayed a write (`performance.now()`); negative infinity if it never did. */
  get refusedAt(): number {
    return this.#refusedAt
  }

  /**
   * Appends one event, a JSON object. It shares its entry with other events of the moment.
   * @param insertId its id
   * @returns null if that is known, so that nothing was appended
   */
  appendEvent(projectId: string, body: Buffer, insertId: SentIds | null = null): Promise<Appended | null> {
    return this.#enqueueEvent(projectId, body, insertId, null)
  }

  /**
   * Appends one entry of `count` events, given as JSON `{"events":[…]}`.
   * @returns where the entries are that hold its events, and no others: one, or none if the ids of all are known
   */
  async appendBatch(
    projectId: string,
    body: Buffer,
    count: number,
    { idempotencyKey, insertIds }: AppendOptions = {},
  ): Promise<Appended[]> {
    const append: Append = { type: 'append', projectId, body, count, ...given({ idempotencyKey }) }
    const appended = await this.appendEntry(insertIds ? { ...append, insertIds } : append)
    return appended ? [appended] : []
  }

  /** Appends an entry. @returns null if the ids of all its events are known, so that nothing was appended */
  async appendEntry(append: Append): Promise<Appended | null> {
    const { outcome, journalId } = await this.#enqueue(append, append.body.length)
    return outcome.status === 'known' ? null : placeOf(outcome, journalId)
  }

  /**
   * As `appendEvent`, of a request that may be repeated. An event with an insert_id as well gets an entry of its own.
   * @throws ApiError `idempotency_conflict` or `rate_limited` if the key says so
   */
  appendKeyedEvent(
    projectId: string,
    body: Buffer,
    idempotencyKey: IdempotencyKey,
    insertId: SentIds | null = null,
  ): Promise<Appended | null> {
    if (!insertId) return this.#enqueueEvent(projectId, body, null, idempotencyKey)
    const entry = { body: this.#entryOf([body]), count: 1, idempotencyKey, insertIds: insertId }
    return this.appendEntry({ type: 'append', projectId, ...entry })
  }

  /** Appends what of a request cannot be stored; it becomes a dead letter. @param id by which a repetition is known */
  async appendRejected(projectId: string, body: Buffer, id: SentIds | null): Promise<void> {
    const append: Append = { type: 'append', kind: 'rejected', projectId, body, count: 1 }
    await this.appendEntry(id ? { ...append, insertIds: id } : append)
  }

  /** @throws ApiError `idempotency_conflict` or `rate_limited` if its idempotency key says so */
  async commit(commit: Commit): Promise<Committed> {
    const { outcome } = await this.#enqueue(commit, commit.state.length + commit.row.length)
    if (outcome.status === 'known') return { status: 'known', known: outcome.known }
    if (outcome.status === 'conflict') return { status: 'conflict' }
    positionOf(outcome)
    return { status: 'done' }
  }

  /**
   * Remembers an idempotency key whose request is executed in another lane; no error if it was remembered before.
   * @throws ApiError `idempotency_conflict` or `rate_limited` as the request itself would
   */
  async reserve(idempotencyKey: IdempotencyKey): Promise<void> {
    const { outcome } = await this.#enqueue({ type: 'reserve', idempotencyKey }, RESERVE_BYTES)
    positionOf(outcome)
  }

  /** Refuses new requests; resolves when every accepted one is settled. */
  async close(): Promise<void> {
    this.#closed = true
    while (this.#running) await this.#running
    clearInterval(this.#watch)
  }

  #enqueueEvent(
    projectId: string,
    body: Buffer,
    insertId: SentIds | null,
    key: IdempotencyKey | null,
  ): Promise<Appended | null> {
    return new Promise((resolve, reject) => {
      this.#admit(body.length, 1, body)
      this.#events.push({ projectId, body, insertId, key, bytes: body.length, resolve, reject })
      this.#gathering.note()
    })
  }

  #enqueue(write: Write, bytes: number): Promise<Written> {
    return new Promise((resolve, reject) => {
      this.#admit(bytes, eventsOf(write), write.type === 'append' ? write.body : null)
      this.#writes.push({ write, bytes, resolve, reject })
      this.#gathering.note()
    })
  }

  /**
   * @param body released if it is refused, as nothing has kept it yet
   * @throws ApiError `unavailable` or `overloaded`
   */
  #admit(bytes: number, events: number, body: Buffer | null): void {
    if (this.#closed || !this.#hasRoom(bytes) || !this.#budget.tryTake(bytes)) {
      const code = this.#closed ? 'unavailable' : 'overloaded'
      this.metrics.refused[code] += events
      if (body) this.#pool.release(body)
      throw asRefusedWrite(new ApiError(code, `${this.#others?.prefix ?? ''}${REFUSALS[code]}`))
    }
    this.#queuedBytes += bytes
    this.#running ??= this.#run()
  }

  /** One of several lanes leaves as much to the others as it has queued: if it hangs, it does not stop them. */
  #hasRoom(bytes: number): boolean {
    return !this.#others || this.#queuedBytes === 0 || this.#queuedBytes + bytes <= this.#budget.left - bytes
  }

  async #run(): Promise<void> {
    await this.#gathering.done()
    let group = this.#send()
    while (group) {
      const written = await group.written
      await this.#gathering.done()
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
    const group = this.#take(this.#events, this.#writes)
    this.#sentAt = group && performance.now()
    if (!group) return null
    const { events, writes, batch } = group
    return { events, writes, batch, written: this.#write(batch) }
  }

  /** Takes events and writes out of these queues, up to the bytes of a write; null where nothing is. */
  #take(queuedEvents: WaitingEvent[], queuedWrites: WaitingWrite[]): Omit<Group, 'written'> | null {
    let room = MAX_WRITE_BYTES
    const take = <T extends { bytes: number }>(queue: T[]): T[] => {
      let taken = 0
      while (taken < queue.length && (room > 0 || taken === 0)) room -= queue[taken++]?.bytes ?? 0
      return queue.splice(0, taken)
    }
    const events = groupByProject(take(queuedEvents))
    const writes = take(queuedWrites)
    if (events.length === 0 && writes.length === 0) return null
    const batch = [...events.map((group) => this.#toAppend(group)), ...writes.map(({ write }) => write)]
    return { events, writes, batch }
  }

  /**
   * Gives what was not sent, and has neither key nor ids, to other lanes while the journal does not respond: the write in flight may be
   * resent for 15 s. One that came from another lane is refused instead.
   */
  #handOver({ prefix, hasOpen }: OtherLanes): void {
    if (this.#sentAt === null) return
    if (this.#journal.isUp && performance.now() - this.#sentAt < SLOW_WRITE_MS) return
    this.#refusedAt = performance.now()
    if (!hasOpen()) return
    const events = this.#events.filter(({ insertId, key }) => !insertId && !key)
    const writes = this.#writes.filter(({ write }) => isMovable(write))
    this.#events = this.#events.filter(({ insertId, key }) => insertId || key)
    this.#writes = this.#writes.filter(({ write }) => !isMovable(write))
    const error = new ApiError('unavailable', `${prefix}${REFUSALS.slow}`)
    for (let group = this.#take(events, writes); group; group = this.#take(events, writes)) {
      this.#resolve(group, { error })
    }
  }

  #toAppend(group: WaitingEvent[]): Append {
    const body = this.#entryOf(group.map(({ body }) => body))
    const append: Append = { type: 'append', projectId: group[0]?.projectId ?? '', count: group.length, body }
    const keys = group.map(({ key }) => key).filter((key) => key !== null)
    if (keys.length > 0) return { ...append, eventKeys: keys }
    const ids = group.map(({ insertId }) => insertId).filter((id) => id !== null)
    const [first] = ids
    if (!first) return append
    return { ...append, insertIds: { ...first, digests: Buffer.concat(ids.map(({ digests }) => digests)) } }
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
      if (this.#others) this.#others.onWritten(lastOf(outcomes))
      return outcomes
    } catch (error) {
      return { error }
    }
  }

  #resolve({ events, writes, batch }: Omit<Group, 'written'>, written: Outcome[] | { error: unknown }): void {
    const bytes = [...events, writes].reduce((sum, waiting) => sum + bytesOf(waiting), 0)
    this.#queuedBytes -= bytes
    this.#budget.give(bytes)
    if ('error' in written) {
      this.#refuse({ events, writes, batch }, written.error)
      return
    }
    const journalId = this.#journal.id
    batch.forEach((write, i) => {
      const outcome = written[i]
      const events = eventsOf(write)
      const { known, refused } = events > 0 && outcome && 'known' in outcome ? outcome : {}
      if (!refused) this.metrics.repeated += known?.length ?? 0
      if (outcome?.status === 'done') this.metrics.accepted += events - (known?.length ?? 0)
    })
    for (const [i, sharers] of events.entries()) settleEvents(sharers, written[i], journalId)
    writes.forEach(({ resolve, reject }, i) => {
      const outcome = written[events.length + i]
      if (outcome) resolve({ outcome, journalId })
      else reject(new Error('the journal returned no outcome for a write'))
    })
  }

  /** Rejects a group that failed, but for the entries that another lane takes. */
  #refuse({ events, writes, batch }: Omit<Group, 'written'>, error: unknown): void {
    const code = refusalOf(error)
    const refusal = asRefusedWrite(error)
    this.#refusedAt = performance.now()
    batch.forEach((write, i) => {
      const waiting = events[i] ?? [writes[i - events.length]].filter((one) => one !== undefined)
      const moved = code === 'internal' || !isMovable(write) ? null : this.#others?.append(write)
      if (!moved) {
        this.metrics.refused[code] += eventsOf(write)
        for (const { reject } of waiting) reject(refusal)
        return
      }
      const sharers = events[i]
      moved.then(
        (appended) => {
          if (!appended) throw new Error('an entry without ids has none that are known')
          const { position, journalId } = appended
          sharers?.forEach(({ resolve }, index) => {
            resolve({ position, index, journalId })
          })
          writes[i - events.length]?.resolve({ outcome: { status: 'done', position }, journalId })
        },
        (refusal) => {
          for (const { reject } of waiting) reject(refusal)
        },
      )
    })
  }
}

import { ApiError, idempotencyConflict, tooManyRequestKeys } from '../contract/errors.js'
import { msUntilNextBucket } from '../journal/idempotency-memory.js'
import type { Append, Commit, Journal, Outcome, Write } from '../journal/journal.js'
import { journalFull, shareFull } from '../journal/shares.js'
import type { BufferPool } from '../lib/buffer-pool.js'
import { Histogram, SECONDS } from '../lib/histogram.js'
import { maxPosition, type Position, START } from '../model/position.js'
import {
  type EntryIds,
  findDigests,
  type IdempotencyKey,
  makeRequestIds,
  NO_IDS,
  type RequestIds,
} from '../model/request-ids.js'
import { BATCH_HEAD, BATCH_TAIL, CONTEXTS_HEAD } from '../model/scanned-body.js'
import { type Sender, senderName } from '../model/sender.js'
import { startsWithContext } from '../model/verbatim.js'
import { Gathering } from './gathering.js'
import { ProjectPace, takeFirst } from './project-pace.js'
import { QueueBudget } from './queue-budget.js'
import { asRefusedWrite, type RefusalCode, toRefusalCode } from './refused-writes.js'

/**
 * Bytes of one write, unless a single entry is larger. Requests that arrive in the meantime wait for it: 2 MiB take a
 * journal some 20 ms. Larger writes would not increase the rate of events.
 */
const MAX_WRITE_BYTES = 2 * 1024 * 1024

/** How long a write may be in flight before the queue is handed to the overflow. */
const SLOW_WRITE_MS = 1_000
const WATCH_MS = 250

const REFUSALS = {
  slow: 'The journal does not respond. Try again in a moment.',
  unavailable: 'The service is stopping. Try again in a moment.',
  overloaded: 'Too many requests are waiting to be stored. Try again in a moment.',
}

/** Bytes that a reservation counts in the queue, about as much as it takes in the journal. */
const RESERVE_BYTES = 100

/** What a request appends. */
export interface Submission extends Sender {
  /**
   * - `event`: one event, a JSON object. It shares its entry with others that are waiting.
   * - `batch`: JSON `{"events":[…]}`, which becomes an entry of its own.
   * - `rejected`: the part of a request that cannot be stored, which becomes a dead letter.
   */
  kind: 'event' | 'batch' | 'rejected'
  body: Buffer
  /** how many events `body` holds; 1 if it is rejected */
  count: number
}

/**
 * The result of a commit: done, the state or that of its fence is not the expected one, or the ids at these indexes are
 * known.
 */
export type Committed = { status: 'done' | 'conflict' | 'fenced' } | { status: 'known'; known: number[] }

/** Where the events of an appended request are: the entry, and the index of the first event in it. */
export interface Appended {
  position: Position
  index: number
  /** id of the journal that has the entry */
  journalId: number
  /** the other entries of a batch that was split over several lanes */
  more?: readonly Appended[]
}

/** Counts since the start. */
export interface CommitMetrics {
  /** events that are durable in the journal; a repeated request counts once */
  accepted: number
  /** by project: accepted events, and the bytes of their entries as they came */
  byProject: Map<string, { events: number; bytes: number }>
  /** events that were not appended because their `insert_id` was known */
  repeated: number
  /** refused events by error code; after `internal` they may still be in the journal */
  refused: Record<RefusalCode, number>
  /** overloaded events whose sender had filled its own share, while there was room for others */
  overShare: number
  /** durations of successful writes */
  writeSeconds: Histogram
}

/**
 * Takes entries that the journal refuses, or writes too slowly. They have neither keys nor ids, so any journal will do.
 */
export interface Overflow {
  /** whether it can take an entry now */
  isOpen(): boolean
  /** @returns null if it cannot take the entry */
  append(refused: Append): Promise<Appended | null> | null
}

export interface GroupCommitOptions {
  /** limits the bytes that wait for the journal; default: a separate budget */
  budget?: Pick<QueueBudget, 'bytes' | 'tryTake' | 'give'>
  /** default: none */
  overflow?: Overflow
  /** called after each write: everything up to `position` may have been acknowledged */
  onWritten?(position: Position): void
  /** begins the message of each refusal, such as `In lane 1 (host:6379): ` */
  prefix?: string
}

/** The way from the routes to the journals: a GroupCommit, a LaneRouter over several, or the quotas before them. */
export interface Appends {
  /**
   * Appends what a request sends; its body now belongs to the journals (see `GroupCommit`).
   * @returns null if the ids of all its events are known, so that nothing was appended
   * @throws ApiError `overloaded`, `unavailable` or `quota_exceeded`; `idempotency_conflict` or `rate_limited` because
   *   of its key
   */
  append(submission: Submission, ids: RequestIds): Promise<Appended | null>
}

interface Waiting<Result> {
  bytes: number
  resolve(result: Result): void
  reject(error: unknown): void
}

export interface WaitingEvent extends Waiting<Appended | null> {
  event: Submission
  /** not both a key and an insert_id */
  ids: RequestIds
}

/** An outcome, and the id of the journal that executed the write, which may be the overflow's journal. */
export interface Written {
  outcome: Outcome
  journalId: number
}

export interface WaitingWrite extends Waiting<Written> {
  write: Write
}

/**
 * What one journal write commits. `batch` is one append for each of `events`, then `writes`; outcomes have its order.
 */
export interface Group {
  /** by sender: the events of each become one entry */
  events: WaitingEvent[][]
  writes: WaitingWrite[]
  batch: Write[]
  written: Promise<Outcome[] | { error: unknown }>
}

/**
 * The way into the journal. Requests that arrive while a write is in flight share the next one, and the single events
 * of one project share an entry, so that the cost of a write is spread over all waiting requests. One write is in
 * flight at a time; its duration is the back-pressure.
 *
 * A body that is appended belongs to the group commit, which releases it to the pool: an event once it is copied into
 * its entry, an entry when the journal reports that it no longer needs it, and either if it is not admitted to the
 * queue.
 */
export class GroupCommit implements Appends {
  readonly metrics: CommitMetrics = {
    accepted: 0,
    byProject: new Map(),
    repeated: 0,
    refused: { overloaded: 0, unavailable: 0, internal: 0 },
    overShare: 0,
    writeSeconds: new Histogram(SECONDS),
  }
  readonly #journal: Journal
  readonly #pool: BufferPool
  readonly #overflow: Overflow | undefined
  readonly #onWritten: GroupCommitOptions['onWritten']
  readonly #prefix: string
  readonly #budget: Pick<QueueBudget, 'bytes' | 'tryTake' | 'give'>
  #events: WaitingEvent[] = []
  #writes: WaitingWrite[] = []
  readonly #gathering = new Gathering(() => this.#events.length + this.#writes.length)
  readonly #pace = new ProjectPace()
  /** ends the wait for a write that may not be taken yet; null if there is none */
  #onArrival: (() => void) | null = null
  #refusedAt = Number.NEGATIVE_INFINITY
  /** when the write in flight was sent (`performance.now()`); null if there is none */
  #sentAt: number | null = null
  readonly #watch: NodeJS.Timeout | undefined
  #running: Promise<void> | null = null
  #closed = false

  /** @param pool has the bodies, and the entries that are built from single events */
  constructor(journal: Journal, pool: BufferPool, options: GroupCommitOptions = {}) {
    const { budget = new QueueBudget(), overflow, onWritten, prefix = '' } = options
    this.#journal = journal
    this.#pool = pool
    this.#overflow = overflow
    this.#onWritten = onWritten
    this.#prefix = prefix
    this.#budget = budget
    journal.listen({ onReleased: (body) => pool.release(body) })
    if (overflow) this.#watch = setInterval(() => this.#handOver(overflow), WATCH_MS).unref()
  }

  /** Bytes that wait for the journal, including those of the write in flight. */
  get queuedBytes(): number {
    return this.#budget.bytes
  }

  /** When the journal last failed or delayed a write (`performance.now()`); negative infinity if it never did. */
  get refusedAt(): number {
    return this.#refusedAt
  }

  append(submission: Submission, ids: RequestIds): Promise<Appended | null> {
    const { kind, projectId, keyClass, count } = submission
    // An event with both a key and an insert_id gets an entry of its own.
    if (kind === 'event' && !(ids.kind === 'events' && ids.key)) return this.#enqueueEvent(submission, ids)
    const body = kind === 'event' ? joinEvents([{ event: submission }], this.#pool) : submission.body
    const entryKind = kind === 'rejected' ? kind : 'events'
    return this.appendEntry({ type: 'append', kind: entryKind, projectId, keyClass, count, body, ids })
  }

  /** Like `append`, for a whole entry. */
  async appendEntry(append: Append): Promise<Appended | null> {
    const { outcome, journalId } = await this.#enqueue(append, append.body.length)
    return outcome.status === 'known' ? null : toAppended(outcome, journalId)
  }

  /** @throws ApiError `idempotency_conflict` or `rate_limited` because of its idempotency key */
  async commit(commit: Commit): Promise<Committed> {
    const { outcome } = await this.#enqueue(commit, commit.state.length + commit.row.length)
    if (outcome.status === 'known') return { status: 'known', known: outcome.known }
    if (outcome.status === 'conflict' || outcome.status === 'fenced') return { status: outcome.status }
    requirePosition(outcome)
    return { status: 'done' }
  }

  /**
   * Remembers an idempotency key whose data goes to another journal; no error if it was remembered before.
   * @throws ApiError `idempotency_conflict` or `rate_limited` as the request itself would
   */
  async reserve({ projectId, keyClass }: Sender, key: IdempotencyKey): Promise<void> {
    const reserve: Write = { type: 'reserve', projectId, keyClass, ids: { kind: 'request', key } }
    const { outcome } = await this.#enqueue(reserve, RESERVE_BYTES)
    requirePosition(outcome)
  }

  /** Refuses new requests; resolves when every accepted one is settled. */
  async close(): Promise<void> {
    this.#closed = true
    while (this.#running) await this.#running
    clearInterval(this.#watch)
  }

  #enqueueEvent(event: Submission, ids: RequestIds): Promise<Appended | null> {
    return new Promise((resolve, reject) => {
      const { body } = event
      this.#admit(event, body.length, 1, body)
      this.#events.push({ event, ids, bytes: body.length, resolve, reject })
      this.#gathering.note()
    })
  }

  #enqueue(write: Write, bytes: number): Promise<Written> {
    return new Promise((resolve, reject) => {
      this.#admit(write, bytes, countEvents(write), write.type === 'append' ? write.body : null)
      this.#writes.push({ write, bytes, resolve, reject })
      this.#gathering.note()
    })
  }

  /**
   * @param body released if it is refused, because nothing else holds it yet
   * @throws ApiError `unavailable` or `overloaded`
   */
  #admit(sender: Sender, bytes: number, events: number, body: Buffer | null): void {
    const fullness = this.#closed ? null : this.#budget.tryTake(sender, bytes)
    if (this.#closed || fullness) {
      const code = this.#closed ? 'unavailable' : 'overloaded'
      const reason = fullness === 'own' ? shareFull(sender.keyClass) : new ApiError(code, REFUSALS[code])
      const refusal = asRefusedWrite(reason, this.#prefix)
      this.#countRefused(refusal, events)
      if (body) this.#pool.release(body)
      throw refusal
    }
    this.#pace.note(sender.projectId)
    this.#running ??= this.#run()
    this.#onArrival?.()
  }

  async #run(): Promise<void> {
    let done: { group: Group; written: Outcome[] | { error: unknown } } | null = null
    for (;;) {
      await this.#gathering.done()
      let group: Group | null
      try {
        // The next write is sent first, so that the journal works on it while the responses are sent.
        group = this.#send()
      } finally {
        if (done) this.#resolve(done.group, done.written)
      }
      done = null
      if (group) {
        const sentAt = performance.now()
        const written = await group.written
        done = { group, written }
        if (!('error' in written)) this.#pace.noteWritten(group.writes, performance.now() - sentAt)
      } else if (this.#writes.length > 0) await this.#untilDue()
      else break
    }
    this.#running = null
  }

  /** Waits until a queued write may be taken, if none may now, or until a request arrives. */
  async #untilDue(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, this.#pace.waitFor(this.#writes))
      this.#onArrival = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    this.#onArrival = null
  }

  /** Sends the queued requests, up to the bytes of a write, to the journal; null if none may be sent now. */
  #send(): Group | null {
    const taken = takeFirst(this.#events, MAX_WRITE_BYTES)
    const group = this.#gather(taken, this.#pace.take(this.#writes, MAX_WRITE_BYTES - sumBytes(taken)))
    this.#sentAt = group && performance.now()
    if (!group) return null
    const { events, writes, batch } = group
    return { events, writes, batch, written: this.#write(batch) }
  }

  /** The group of these events and writes; null if there are none. */
  #gather(taken: WaitingEvent[], writes: WaitingWrite[]): Omit<Group, 'written'> | null {
    if (taken.length === 0 && writes.length === 0) return null
    const events = groupBySender(taken)
    const batch = [...events.map((group) => entryOfEvents(group, this.#pool)), ...writes.map(({ write }) => write)]
    return { events, writes, batch }
  }

  /**
   * Gives queued writes that have neither key nor ids to the overflow while the journal does not respond: the write in
   * flight may be resent for 15 s. Refuses those that the overflow does not take.
   */
  #handOver(overflow: Overflow): void {
    if (this.#sentAt === null) return
    if (this.#journal.isUp && performance.now() - this.#sentAt < SLOW_WRITE_MS) return
    this.#refusedAt = performance.now()
    if (!overflow.isOpen()) return
    const events = this.#events.filter(({ ids }) => ids.kind === 'none')
    const writes = this.#writes.filter(({ write }) => isMovable(write))
    this.#events = this.#events.filter(({ ids }) => ids.kind !== 'none')
    this.#writes = this.#writes.filter(({ write }) => !isMovable(write))
    const error = new ApiError('unavailable', `${this.#prefix}${REFUSALS.slow}`)
    const next = () => this.#gather(takeFirst(events, MAX_WRITE_BYTES), takeFirst(writes, MAX_WRITE_BYTES))
    for (let group = next(); group; group = next()) this.#resolve(group, { error })
  }

  async #write(batch: Write[]): Promise<Outcome[] | { error: unknown }> {
    const startedAt = performance.now()
    try {
      const outcomes = await this.#journal.write(batch)
      this.metrics.writeSeconds.observe((performance.now() - startedAt) / 1000)
      if (this.#onWritten) this.#onWritten(findLastPosition(outcomes))
      return outcomes
    } catch (error) {
      return { error }
    }
  }

  #resolve(group: Omit<Group, 'written'>, written: Outcome[] | { error: unknown }): void {
    for (const events of group.events) {
      // All events of an entry have the same sender.
      const [first] = events
      if (first) this.#budget.give(first.event, sumBytes(events))
    }
    for (const { write, bytes } of group.writes) this.#budget.give(write, bytes)
    if ('error' in written) {
      this.#refusedAt = performance.now()
      const refusal = asRefusedWrite(written.error)
      for (const i of group.batch.keys()) this.#refuse(group, i, refusal)
    } else {
      for (const i of group.batch.keys()) this.#settle(group, i, written[i])
    }
  }

  #countAccepted(write: Write, events: number): void {
    if (events === 0) return
    const { byProject } = this.metrics
    const { projectId } = write
    const sums = byProject.get(projectId) ?? { events: 0, bytes: 0 }
    this.metrics.accepted += events
    sums.events += events
    sums.bytes += write.type === 'append' ? write.body.length : 0
    byProject.set(projectId, sums)
  }

  /** Settles one write of a group. */
  #settle(group: Omit<Group, 'written'>, i: number, outcome: Outcome | undefined): void {
    const { events, writes, batch } = group
    const write = batch[i]
    if (write && outcome?.status === 'full') {
      const error = outcome.fullness === 'own' ? shareFull(write.keyClass) : journalFull()
      this.#refuse(group, i, asRefusedWrite(error, this.#prefix))
      return
    }
    const journalId = this.#journal.id
    const count = write ? countEvents(write) : 0
    const { known, refused } = count > 0 && outcome && 'known' in outcome ? outcome : {}
    if (!refused) this.metrics.repeated += known?.length ?? 0
    if (write && outcome?.status === 'done') this.#countAccepted(write, count - (known?.length ?? 0))
    const sharers = events[i]
    const waiting = writes[i - events.length]
    if (sharers) settleEvents(sharers, outcome, journalId)
    else if (outcome) waiting?.resolve({ outcome, journalId })
    else waiting?.reject(new Error('the journal returned no outcome for a write'))
  }

  /**
   * Rejects one write of a group, unless the overflow takes the entry, which then owns the body. The sender may have
   * room there even if it has filled its share of this journal. The body of a write in doubt is not released, because
   * the journal may still read it.
   */
  #refuse({ events, writes, batch }: Omit<Group, 'written'>, i: number, refusal: unknown): void {
    const write = batch[i]
    if (!write) return
    const code = toRefusalCode(refusal)
    const sharers = events[i]
    const own = writes[i - events.length]
    const waiting = sharers ?? (own ? [own] : [])
    const moved = code !== 'internal' && isMovable(write) ? this.#overflow?.append(write) : null
    if (!moved) {
      this.#countRefused(refusal, countEvents(write))
      for (const { reject } of waiting) reject(refusal)
      if (code !== 'internal' && write.type === 'append') this.#pool.release(write.body)
      return
    }
    moved.then(
      (appended) => {
        if (!appended) throw new Error('an entry without ids was reported as known')
        const { position, journalId } = appended
        sharers?.forEach(({ resolve }, index) => {
          resolve({ position, index, journalId })
        })
        own?.resolve({ outcome: { status: 'done', position }, journalId })
      },
      (refusal) => {
        for (const { reject } of waiting) reject(refusal)
      },
    )
  }

  #countRefused(refusal: unknown, events: number): void {
    this.metrics.refused[toRefusalCode(refusal)] += events
    if (refusal instanceof ApiError && refusal.limit === 'journal') this.metrics.overShare += events
  }
}

function sumBytes(waiting: readonly { bytes: number }[]): number {
  let sum = 0
  for (const { bytes } of waiting) sum += bytes
  return sum
}

function countEvents(write: Write): number {
  return write.type === 'append' && write.kind !== 'rejected' ? write.count : 0
}

/** Whether any journal may take a write. Idempotency keys and insert_ids belong to the journal that remembers them. */
function isMovable(write: Write): write is Append {
  return write.type === 'append' && write.ids.kind === 'none'
}

/**
 * The greatest position among the outcomes; START if there is none. Repeated requests count: another process may have
 * executed them, and the client's next request may go to a journal that does not know their position yet.
 */
function findLastPosition(outcomes: Outcome[]): Position {
  let last = START
  for (const outcome of outcomes) {
    if ('position' in outcome) last = maxPosition(last, outcome.position)
    if ('refused' in outcome && outcome.refused) last = maxPosition(last, findLastPosition(outcome.refused))
  }
  return last
}

/**
 * Events with insert_ids, and those with keys, form separate groups, because the overflow cannot take those (see
 * `isMovable`).
 */
function groupBySender(events: WaitingEvent[]): WaitingEvent[][] {
  const groups = {
    none: new Map<string, WaitingEvent[]>(),
    events: new Map<string, WaitingEvent[]>(),
    request: new Map<string, WaitingEvent[]>(),
  }
  for (const waiting of events) {
    const ofKind = groups[waiting.ids.kind]
    const name = senderName(waiting.event)
    const group = ofKind.get(name)
    if (group) group.push(waiting)
    else ofKind.set(name, [waiting])
  }
  return [...groups.none.values(), ...groups.events.values(), ...groups.request.values()]
}

/** Resolves or rejects each event of an entry. @param journalId of the journal that wrote the entry */
function settleEvents(events: WaitingEvent[], outcome: Outcome | undefined, journalId: number): void {
  const { known, refused } = outcome && 'known' in outcome ? outcome : {}
  const skipped = known && new Map(known.map((index, i) => [index, refused?.[i] ?? null]))
  events.forEach(({ resolve, reject }, index) => {
    const refusal = skipped?.get(index)
    try {
      if (refusal) resolve(toAppended(refusal, journalId))
      else resolve(refusal === null ? null : { position: requirePosition(outcome), index, journalId })
    } catch (error) {
      reject(error)
    }
  })
}

/**
 * Where the first event of an append with this outcome is; for a repeated request, the event of its first execution.
 * @param journalId of the journal that returned the outcome
 * @throws like `requirePosition`
 */
function toAppended(outcome: Outcome, journalId: number): Appended {
  const position = requirePosition(outcome)
  if (outcome.status !== 'repeated') return { position, index: 0, journalId }
  // A request from before a change of the layout may be remembered in a lane other than the one it was written in.
  return { position, index: outcome.index ?? 0, journalId: outcome.journalId ?? journalId }
}

/** @throws ApiError `idempotency_conflict` or `rate_limited` because of the idempotency key */
function requirePosition(outcome: Outcome | undefined): Position {
  if (outcome?.status === 'done' || outcome?.status === 'repeated') return outcome.position
  if (outcome?.status === 'mismatch') throw idempotencyConflict()
  if (outcome?.status === 'limited') throw tooManyRequestKeys(msUntilNextBucket(Date.now()))
  throw new Error(`the journal returned ${outcome?.status ?? 'nothing'} for an append`)
}

const COMMA = Buffer.from(',')

/** The entry that events of one sender share. */
function entryOfEvents(events: WaitingEvent[], pool: BufferPool): Append {
  const [first] = events
  if (!first) throw new RangeError('an entry has at least one event')
  const { projectId, keyClass } = first.event
  return {
    type: 'append',
    kind: 'events',
    projectId,
    keyClass,
    count: events.length,
    body: joinEvents(events, pool),
    ids: joinIds(first.ids.kind, events),
  }
}

/** The ids of the entry that events share. @param kind of all of them (see `groupBySender`) */
function joinIds(kind: RequestIds['kind'], events: WaitingEvent[]): EntryIds {
  switch (kind) {
    case 'none':
      return NO_IDS
    case 'request':
      return { kind: 'shared', keys: events.flatMap(({ ids }) => (ids.kind === 'request' ? ids.key : [])) }
    case 'events':
      return makeRequestIds(null, Buffer.concat(events.flatMap(({ ids }) => findDigests(ids) ?? [])))
  }
}

/** Copies events into the body of one entry and releases them. */
function joinEvents(events: readonly Pick<WaitingEvent, 'event'>[], pool: BufferPool): Buffer {
  const head = events.some(({ event }) => startsWithContext(event.body)) ? CONTEXTS_HEAD : BATCH_HEAD
  const parts: Buffer[] = [head]
  let length = head.length + BATCH_TAIL.length - COMMA.length
  for (const { event } of events) {
    parts.push(event.body, COMMA)
    length += event.body.length + COMMA.length
  }
  parts[parts.length - 1] = BATCH_TAIL
  const entry = pool.concat(parts, length)
  for (const { event } of events) pool.release(event.body)
  return entry
}

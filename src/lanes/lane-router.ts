import { hash } from 'node:crypto'
import { ApiError } from '../contract/errors.js'
import type { Appended, AppendOptions, Appends } from '../ingest/group-commit.js'
import { NOTHING_STORED, toRefusalCode } from '../ingest/refused-writes.js'
import type { Append, IdempotencyKey } from '../journal/journal.js'
import type { BufferPool } from '../lib/buffer-pool.js'
import { type InsertIds, splitByLane } from '../model/identified-events.js'
import { findInsertIdLane } from '../model/insert-id.js'
import type { Position } from '../model/position.js'
import type { Sender } from '../model/sender.js'
import { chooseLane } from './choose-lane.js'
import type { Lane, OtherLanes } from './lane.js'

/**
 * Queued bytes up to which the home lane takes everything. Its writer is usually in this process and has the bodies in
 * memory; a body in another lane travels to Redis and back. At 256 KiB, four clients that send batches of 200 KB sent
 * half of them to other lanes, and an event took 15 % more CPU of the service and 20 % more of Redis.
 */
const SHORT_QUEUE_BYTES = 4 * 1024 * 1024
const SEND_AGAIN = 'Send the whole batch again: events with an insert_id are not stored twice.'
/** How long a lane is avoided after its journal failed or delayed a write, ms. */
const AVOIDED_MS = 1_000

/**
 * Sends each entry to one of several lanes: those with an idempotency key to the lane of that key, events with ids to
 * the lanes that remember them, the others to the home lane while it keeps up, else to the least busy lane.
 */
export class LaneRouter implements Appends {
  readonly #lanes: readonly Lane[]
  readonly #home: number
  readonly #pool: BufferPool
  /** entries that one lane has refused; a second refusal is final */
  readonly #moved = new WeakSet<Append>()

  /**
   * @param lanes may be filled later, but before the first call
   * @param home number of the lane that this process prefers
   * @param pool has the bodies
   */
  constructor(lanes: readonly Lane[], home: number, pool: BufferPool) {
    this.#lanes = lanes
    this.#home = home
    this.#pool = pool
  }

  appendEvent(sender: Sender, body: Buffer, insertId: Buffer | null = null): Promise<Appended | null> {
    const lane = insertId ? this.#laneForId(insertId) : this.#laneForUnkeyed()
    return lane.commits.appendEvent(sender, body, insertId)
  }

  /**
   * A batch with ids is split by the lanes that remember them. If one lane refuses its part, others may store theirs.
   */
  appendBatch(
    sender: Sender,
    body: Buffer,
    count: number,
    { idempotencyKey, insertIds }: AppendOptions = {},
  ): Promise<Appended[]> {
    if (insertIds) return this.#appendParts(sender, body, insertIds, idempotencyKey)
    const lane = idempotencyKey ? this.laneForKey(idempotencyKey) : this.#laneForUnkeyed()
    return lane.commits.appendBatch(sender, body, count, { idempotencyKey })
  }

  /**
   * The key is remembered in its own lane, so that a request with the same key and another body is refused there, and
   * together with the event in the lane of the insert_id.
   */
  async appendKeyedEvent(
    sender: Sender,
    body: Buffer,
    key: IdempotencyKey,
    insertId: Buffer | null = null,
  ): Promise<Appended | null> {
    const keyLane = this.laneForKey(key)
    const lane = insertId ? this.#laneForId(insertId) : keyLane
    if (lane !== keyLane) await keyLane.commits.reserve(sender, key)
    return await lane.commits.appendKeyedEvent(sender, body, key, insertId)
  }

  appendRejected(sender: Sender, body: Buffer, id: Buffer | null): Promise<void> {
    return (id ? this.#laneForId(id) : this.#laneForUnkeyed()).commits.appendRejected(sender, body, id)
  }

  /**
   * An idempotency key is remembered in its lane before anything else of the batch is appended, in one write with the
   * events that have no ids. Those with ids need no key to be stored once: a repetition finds their ids. They have separate
   * keys, so that it finds their entries as well.
   * @returns the places of the entries that hold these events and no others
   * @throws ApiError `overloaded` or `unavailable`, whose message says whether a part may be stored
   */
  async #appendParts(
    sender: Sender,
    body: Buffer,
    insertIds: InsertIds,
    key: IdempotencyKey | undefined,
  ): Promise<Appended[]> {
    const parts = splitByLane(body, insertIds, this.#lanes.length).map(({ pieces, ...part }) => {
      return { ...part, body: this.#pool.concat(pieces, sumLengths(pieces)) }
    })
    this.#pool.release(body)
    const append = (part: (typeof parts)[number]) => {
      const { commits } =
        part.lane === null ? (key ? this.laneForKey(key) : this.#laneForUnkeyed()) : this.#at(part.lane)
      const ids = part.digests && { digests: part.digests, spans: null }
      const idempotencyKey = key && part.lane !== null ? this.#keyOfPart(key, part.lane) : key
      const own = part.lane === null ? { idempotencyKey } : { idempotencyKey, insertIds: ids }
      return commits.appendBatch(sender, part.body, part.count, own)
    }
    const plain = parts.find(({ lane }) => lane === null)
    const identified = parts.filter((part) => part !== plain)
    if (!key) {
      // Append these last: if another part is refused, they are not stored yet, so the client's retry does not
      // duplicate them.
      const stored = await awaitAppends(identified.map(append))
      if (!plain) return stored
      const last = await append(plain).catch((error) => {
        throw toRefusalCode(error) !== 'internal' && identified.length > 0 ? inPart(error, 'is') : error
      })
      return [...stored, ...last]
    }
    if (!plain) await this.laneForKey(key).commits.reserve(sender, key)
    const first = plain ? await append(plain) : []
    return [...first, ...(await awaitAppends(identified.map(append), plain !== undefined))]
  }

  /**
   * The key for the part of a request that goes to a lane. Only that lane knows it, and only while the number of
   * lanes is the same.
   */
  #keyOfPart(key: IdempotencyKey, lane: number): IdempotencyKey {
    return { ...key, key: hash('sha256', `${key.key} ${lane}/${this.#lanes.length}`, 'hex') }
  }

  /** The lane that remembers an idempotency key. */
  laneForKey({ key }: IdempotencyKey): Lane {
    return this.#at(chooseLane(key, this.#lanes.length))
  }

  /** How one lane reaches the others: to raise their positions, and to pass on entries that it refuses. */
  connectOthers(lane: Pick<Lane, 'number' | 'name'>): OtherLanes {
    return {
      prefix: `In ${lane.name}: `,
      onWritten: (position: Position) => {
        for (const { number, journal } of this.#lanes) if (number !== lane.number) journal.raiseFloor(position)
      },
      overflow: {
        isOpen: () => this.#leastBusy(lane.number) !== null,
        append: (refused) => {
          if (this.#moved.has(refused)) return null
          this.#moved.add(refused)
          const next = this.#leastBusy(lane.number)
          return next?.commits.appendEntry(refused) ?? null
        },
      },
    }
  }

  #laneForId(insertId: Buffer): Lane {
    return this.#at(findInsertIdLane(insertId, 0, this.#lanes.length))
  }

  #laneForUnkeyed(): Lane {
    const home = this.#at(this.#home)
    if (home.commits.queuedBytes < SHORT_QUEUE_BYTES && isOpen(home)) return home
    // If none is open, report the error of the home lane.
    return this.#leastBusy() ?? home
  }

  #at(number: number): Lane {
    const lane = this.#lanes[number]
    if (!lane) throw new RangeError(`there is no lane ${number}`)
    return lane
  }

  #leastBusy(except?: number): Lane | null {
    let best: Lane | null = null
    for (const lane of this.#lanes) {
      if (lane.number === except || !isOpen(lane)) continue
      if (!best || lane.commits.queuedBytes < best.commits.queuedBytes) best = lane
    }
    return best
  }
}

function sumLengths(pieces: Buffer[]): number {
  return pieces.reduce((sum, { length }) => sum + length, 0)
}

/**
 * Waits until all parts are settled. @param hasStored whether another part of the batch is stored already @returns the
 * places of their entries @throws the first definite error, which says whether a part of the batch may be stored
 */
async function awaitAppends(appending: Promise<Appended[]>[], hasStored = false): Promise<Appended[]> {
  const results = await Promise.allSettled(appending)
  const failures = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
  if (failures.length === 0) return results.flatMap((result) => (result.status === 'fulfilled' ? result.value : []))
  const refusal = failures.find((error) => toRefusalCode(error) !== 'internal')
  if (hasStored || failures.length < results.length) throw inPart(refusal ?? failures[0], 'is')
  const isInDoubt = failures.some((error) => toRefusalCode(error) === 'internal')
  throw refusal && isInDoubt ? inPart(refusal, 'may be') : failures[0]
}

/** Adds to the error of a batch that a part of it is stored, or may be; leaves an internal error unchanged. */
function inPart(error: unknown, is: 'is' | 'may be'): unknown {
  if (!(error instanceof ApiError)) return error
  return error.withMessage(
    `${error.message.replace(NOTHING_STORED, '')} A part of the batch ${is} stored. ${SEND_AGAIN}`,
  )
}

function isOpen({ journal, commits }: Lane): boolean {
  return journal.isUp && performance.now() - commits.refusedAt > AVOIDED_MS
}

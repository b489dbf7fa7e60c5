import { hash } from 'node:crypto'
import { ApiError } from '../contract/errors.js'
import type { Appended, Appends, Submission } from '../ingest/group-commit.js'
import { NOTHING_STORED, toRefusalCode } from '../ingest/refused-writes.js'
import type { Append } from '../journal/journal.js'
import type { BufferPool } from '../lib/buffer-pool.js'
import { chooseLane } from '../model/choose-lane.js'
import { splitByLane } from '../model/identified-events.js'
import { findInsertIdLane } from '../model/insert-id.js'
import type { Position } from '../model/position.js'
import { type EventIds, type IdempotencyKey, makeRequestIds, type RequestIds } from '../model/request-ids.js'
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

  append(submission: Submission, ids: RequestIds): Promise<Appended | null> {
    switch (ids.kind) {
      case 'none':
        return this.#laneForUnkeyed().commits.append(submission, ids)
      case 'request':
        return this.laneForKey(ids.key).commits.append(submission, ids)
      case 'events':
        return submission.kind === 'batch' ? this.#appendParts(submission, ids) : this.#appendOne(submission, ids)
    }
  }

  /**
   * An idempotency key is remembered in its own lane, so that a request with the same key and another body is refused
   * there, and together with the event in the lane of the insert_id.
   */
  async #appendOne(submission: Submission, ids: EventIds): Promise<Appended | null> {
    const lane = this.#at(findInsertIdLane(ids.digests, 0, this.#lanes.length))
    const keyLane = ids.key ? this.laneForKey(ids.key) : lane
    if (ids.key && keyLane !== lane) await keyLane.commits.reserve(submission, ids.key)
    return await lane.commits.append(submission, ids)
  }

  /**
   * Splits a batch by the lanes that remember its ids. If one lane refuses its part, others may store theirs. An
   * idempotency key is remembered in its lane before anything else of the batch is appended, in one write with the
   * events that have no ids. Those with ids need no key to be stored once: a repetition finds their ids. They have
   * separate keys, so that it finds their entries as well.
   * @throws ApiError `overloaded` or `unavailable`, whose message says whether a part may be stored
   */
  async #appendParts(batch: Submission, ids: EventIds): Promise<Appended | null> {
    const { key } = ids
    const parts = splitByLane(batch.body, ids, this.#lanes.length).map(({ pieces, ...part }) => {
      return { ...part, body: this.#pool.concat(pieces, sumLengths(pieces)) }
    })
    this.#pool.release(batch.body)
    const append = ({ lane, body, count, digests }: (typeof parts)[number]) => {
      const { commits } = lane !== null ? this.#at(lane) : key ? this.laneForKey(key) : this.#laneForUnkeyed()
      const ownKey = key && lane !== null ? keyOfPart(key, lane, this.#lanes.length) : key
      return commits.append({ ...batch, body, count }, makeRequestIds(ownKey, digests))
    }
    const plain = parts.find(({ lane }) => lane === null)
    const identified = parts.filter((part) => part !== plain)
    if (!key) {
      // Append these last: if another part is refused, they are not stored yet, so the client's retry does not
      // duplicate them.
      const stored = await awaitAppends(identified.map(append))
      if (!plain) return joinPlaces(stored)
      const last = await append(plain).catch((error) => {
        throw toRefusalCode(error) !== 'internal' && identified.length > 0 ? inPart(error, 'is') : error
      })
      return joinPlaces([...stored, last])
    }
    if (!plain) await this.laneForKey(key).commits.reserve(batch, key)
    const first = plain ? await append(plain) : null
    return joinPlaces([first, ...(await awaitAppends(identified.map(append), plain !== undefined))])
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

/**
 * The key for the part of a request that goes to a lane. Only that lane knows it, and only while the number of lanes is
 * the same.
 */
export function keyOfPart(key: IdempotencyKey, lane: number, lanes: number): IdempotencyKey {
  return { ...key, key: hash('sha256', `${key.key} ${lane}/${lanes}`, 'hex') }
}

function sumLengths(pieces: Buffer[]): number {
  return pieces.reduce((sum, { length }) => sum + length, 0)
}

/** The places of the entries that hold the events of a batch and no others; null if all its events were known. */
function joinPlaces(places: (Appended | null)[]): Appended | null {
  const [first, ...more] = places.flatMap((place) => place ?? [])
  return first ? { ...first, more } : null
}

/**
 * Waits until all parts are settled.
 * @param hasStored whether another part of the batch is stored already
 * @returns the places of their entries
 * @throws the first definite error, which says whether a part of the batch may be stored
 */
async function awaitAppends(appending: Promise<Appended | null>[], hasStored = false): Promise<(Appended | null)[]> {
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

import { OtherVersionError } from '../../contract/errors.js'
import { withTimeout } from '../../lib/with-timeout.js'
import { maxPosition, type Position, parsePosition, START, toMilliseconds } from '../../model/position.js'
import { newJournalId } from '../journal.js'
import type { RedisConnection } from './connection.js'
import { positionFields } from './encoding.js'
import { unavailable } from './errors.js'
import { FORMAT, type JournalKeys } from './keys.js'
import { INITIALISE, IS_USED, LOOK } from './scripts.js'

export interface RedisJournalLog {
  info(data: object, message: string): void
  warn(data: object, message: string): void
  error(data: object, message: string): void
}

export interface RedisHistoryOptions {
  keys: Pick<JournalKeys, 'meta' | 'stream'>
  connection: Pick<RedisConnection, 'run'>
  /** meta keys of other lanes' journals; a Redis with one of them is refused instead of creating this journal there */
  others: string[]
  /** number of the layout for a new journal */
  layout: string
  /** see RedisJournalOptions */
  lastStored: ((from: Position) => Promise<Position>) | undefined
  log: RedisJournalLog
}

/**
 * How far ahead of its clock a Redis starts to assign positions if another Redis assigned the last ones, ms: a
 * replica's clock may lag its master's by this much. It is the default of min-replicas-max-lag, for which a master that
 * lost its replicas keeps accepting writes.
 */
const CLOCK_TOLERANCE_MS = 10_000
/** How long the store may take to return the last position, ms. */
const LAST_STORED_WAIT_MS = 1_000

/** The Redis of one lane holds the journal of another lane instead. */
export class LaneOrderError extends Error {
  constructor() {
    super(
      'A Redis of REDIS_URL holds the journal of another lane: the order of REDIS_URL was changed. Restore the order that ' +
        'the store was created with.',
    )
  }
}

/**
 * The journal's past, as far as this process knows it. It prevents a Redis that lost the end of the journal, such as a
 * lagging replica that became the master, from assigning a position twice.
 */
export class RedisHistory {
  /** id of the journal; 0 before it is known */
  id = 0
  /** incremented whenever the past may have changed */
  era = 0
  /** replication id of Redis: changes when a replica becomes the master, and after a restart */
  name = ''
  /** the greatest position that this journal must not assign again */
  floor = START
  /** the greatest position that this process has seen in this journal; the floor may come from other journals, too */
  #seen = START
  /** the greatest position of other journals; applied up to MAX_LIFT_MS ahead of this one's clock */
  foreignFloor = START
  readonly #options: RedisHistoryOptions

  constructor(options: RedisHistoryOptions) {
    this.#options = options
  }

  /** Notes a position that this journal has assigned, or to which it was lifted. */
  note(position: Position): void {
    this.#seen = maxPosition(this.#seen, position)
    this.liftFloor(position)
  }

  /** Keeps a position from being assigned, whether or not it was one of this journal. */
  liftFloor(position: Position): void {
    this.floor = maxPosition(this.floor, position)
  }

  /** See `Journal.raiseFloor`. */
  raiseFloor(position: Position): void {
    this.foreignFloor = maxPosition(this.foreignFloor, position)
  }

  /** @param name master_replid of INFO */
  isAnother(name: string | undefined): boolean {
    return this.name !== '' && name !== undefined && name !== this.name
  }

  /**
   * Creates the journal if there is none. A Redis that did not assign the last positions continues after the greatest
   * known position; until then, its WRITE refuses the writes of every process.
   * @throws ApiError `unavailable` if Redis holds another journal
   * @throws OtherVersionError
   */
  async adopt(): Promise<void> {
    const { keys, others, layout, connection } = this.#options
    // In a new era, the writer does not rely on what it knew about the journal.
    this.era++
    const seen = this.#seen
    const reply = (await connection.run(LOOK, keys, {})) as Buffer[]
    const [known = '', written, name = '', stored = '', keptBefore = '', format] = reply.map(String)
    if (known !== '' && format !== FORMAT) {
      throw new OtherVersionError('The journal in Redis', Number(format) > Number(FORMAT))
    }
    // Event ids contain the number of the journal, so this process cannot continue with another one.
    if (this.id !== 0 && known !== '' && Number(known) !== this.id) throw anotherJournal()
    const isFirst = known === '' && this.id === 0
    let [id, kept] = [Number(known), keptBefore]
    if (isFirst) {
      for (const meta of others) if ((await connection.run(IS_USED, { meta }, {})) === 1) throw new LaneOrderError()
    }
    if (known === '' || (name !== '' && name !== written)) {
      if (!isFirst) await this.#askStore(stored === '' ? START : parsePosition(stored))
      const toleranceMs = isFirst ? 0 : CLOCK_TOLERANCE_MS
      const { ms: floorMs, seq: floorSeq } = positionFields(this.floor)
      const initialised = (await connection.run(INITIALISE, keys, {
        journalId: String(this.id || newJournalId()),
        layout,
        history: name,
        toleranceMs: String(toleranceMs),
        floorMs,
        floorSeq,
      })) as Buffer[]
      id = Number(initialised[0])
      kept = String(initialised[1])
      if (this.id !== 0 && id !== this.id) throw anotherJournal()
    }
    if (this.id !== 0 && (known === '' || name !== this.name)) this.#reportLoss(kept, seen)
    this.id = id
    this.name = name
  }

  /**
   * Logs that positions were lost. Not promised: if the first process to adopt the journal has seen none of the lost
   * positions, nothing is reported.
   * @param kept the last position in this Redis, or "" if that is unknown
   * @param seen the last position that this process has seen
   */
  #reportLoss(kept: string, seen: Position): void {
    if (kept === '' || parsePosition(kept) >= seen) return
    const { log } = this.#options
    const until = formatTime(seen)
    if (parsePosition(kept) === START) {
      log.error(
        { until },
        'Redis has lost the journal: data that was not in ClickHouse yet is lost, and so are the idempotency keys and insert_ids',
      )
      return
    }
    log.error(
      { after: formatTime(parsePosition(kept)), until },
      'Redis has lost the end of the journal: data that was accepted then and is not in ClickHouse is lost',
    )
  }

  /**
   * Finds out the last stored position. If the store is unavailable, events must still be accepted; positions then rely
   * on synchronised clocks alone.
   */
  async #askStore(from: Position): Promise<void> {
    const { lastStored, log } = this.#options
    if (!lastStored) return
    try {
      this.liftFloor(await withTimeout(lastStored(from), LAST_STORED_WAIT_MS))
    } catch (error) {
      log.warn(
        { err: error },
        'the last stored position is unknown after a change of the Redis master; relying on synchronised clocks',
      )
    }
  }
}

function formatTime(position: Position): string {
  return new Date(toMilliseconds(position)).toISOString()
}

function anotherJournal(): Error {
  return unavailable(new Error('Redis no longer has the journal that this process started with; restart this process'))
}

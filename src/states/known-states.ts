import type { Journal, StateReading } from '../journal/journal.js'
import { BloomFilter } from '../lib/bloom-filter.js'
import type { Log } from '../lib/log.js'
import { type Position, START } from '../model/position.js'
import type { StoredKeys } from '../store/tables.js'
import { KEY_END_BYTES, toKeyEnd } from '../store/versioned-table.js'

/**
 * How long the keys that were read from ClickHouse are relied on, ms. A state that is stored later is found in the
 * journal, which is always asked first and keeps a state for STATE_MEMORY_MS (10 min) after it is stored; the
 * difference allows for changes of the clocks.
 */
const MEMORY_MS = 3 * 60_000
/**
 * Age at which the keys are read again, ms. Each read checks the version of every row, so it should not happen more
 * often.
 */
const REFRESH_MS = 30_000
/** Pause after a failed read, ms. */
const RETRY_MS = 30_000
/** Pause while entries from before the mark are not stored yet, ms. */
const WAITING_MS = 1_000
/** Pause after a read that found more states than `maxStates`, ms. */
const TOO_MANY_MS = 60 * 60_000
/**
 * How far before the last stored position a read begins, ms of positions. A Redis that lost its last writes may not
 * know of an INSERT that was sent, and its rows appear later: after as long as an INSERT may take.
 */
const MARGIN_MS = 10 * 60_000
/**
 * Age at which all rows are read again, ms. Rows with old versions may also appear, for example from a restored part.
 */
const FULL_MS = 60 * 60_000
/** Largest filter. With MAX_STATES in it, one new state in four is mistaken for a known one. */
const MAX_BYTES = 16 * 1024 * 1024
const MAX_STATES = 40_000_000
/** A filter has room for twice the existing states, plus this many. */
const FIRST_STATES = 50_000
/** States written by this process that are kept until there is a filter to add them to. */
const MAX_NOTED = 50_000

/** The result of the last read of the states in ClickHouse. */
interface StoredStates {
  filter: BloomFilter
  /** era of the journal; in another era, ClickHouse may have rows that the journal does not know */
  era: number
  /**
   * mark of the journal's states: if it differs, the journal has lost states that ClickHouse may not have had when it
   * was read
   */
  mark: string
  /** everything up to here was stored before the read */
  stored: Position
  /** when the read began, by the clock of the journal */
  readAt: number
  /** when the read began, by the clock of this process */
  at: number
  /** when the last read of all rows began, by the clock of this process */
  filledAt: number
}

export interface KnownStatesOptions {
  /** aborts a read */
  closing?: AbortSignal
  now?: () => number
  /** above this number of states there is no filter, and ClickHouse is queried for each state */
  maxStates?: number
}

/**
 * Knows which states of one kind ClickHouse may have, so that it is not queried for a state that was never written,
 * such as the profile of a new user. This is a Bloom filter of all state keys in ClickHouse. It is filled when the
 * journal first lacks a state, and later extended with the rows that were stored since. Rows of other processes are
 * included: all of them went through this journal, and its `stored` position shows which rows the last read has seen. A
 * state that is missing in the journal is only new if the mark of the journal's states is still the one from before the
 * read. States that only dead letters have are included, too: after the import of a whole store, the journal does not
 * have them, and a replay stores them with their old versions.
 *
 *     nothing ──first miss──▶ reading all ──▶ known ──30 s, and a miss──▶ reading new rows ──▶ known
 *        ▲                                      │
 *        └──── the journal lost data or states, the filter is crowded, or an hour has passed
 */
export class KnownStates {
  readonly #journal: Pick<Journal, 'era' | 'progress' | 'markStates'>
  readonly #table: StoredKeys
  readonly #log: Pick<Log, 'warn'>
  readonly #closing: AbortSignal
  readonly #now: () => number
  readonly #maxStates: number
  #known: StoredStates | null = null
  /** replaces the filter of `#known` once all states are in it */
  #filling: BloomFilter | null = null
  /** states that this process writes before `#filling` is complete */
  readonly #noted = new Set<string>()
  #reading: Promise<void> | null = null
  #retryAt = Number.NEGATIVE_INFINITY

  constructor(
    journal: Pick<Journal, 'era' | 'progress' | 'markStates'>,
    table: StoredKeys,
    log: Pick<Log, 'warn'>,
    { closing = new AbortController().signal, now = () => performance.now(), maxStates }: KnownStatesOptions = {},
  ) {
    this.#journal = journal
    this.#table = table
    this.#log = log
    this.#closing = closing
    this.#now = now
    this.#maxStates = maxStates ?? MAX_STATES
  }

  /** Memory of the filter, bytes. */
  get bytes(): number {
    return this.#known?.filter.bytes ?? 0
  }

  /**
   * Whether ClickHouse certainly has no row of a state that the journal does not have.
   * @param reading the read of the journal that did not find the state
   */
  isNew(stateKey: string, { readAt, mark }: Pick<StateReading, 'readAt' | 'mark'>): boolean {
    const known = this.#known
    const now = this.#now()
    const isCurrent = known !== null && known.era === this.#journal.era && known.mark === mark
    if (!isCurrent || now - known.at > REFRESH_MS) this.#refresh(now)
    if (!isCurrent) return false
    const age = readAt - known.readAt
    if (age < 0 || age > MEMORY_MS || now - known.at > MEMORY_MS) return false
    return !known.filter.mayHave(toKeyEnd(stateKey))
  }

  /**
   * Call it before writing a state, because the state is then no longer new. Otherwise, a state that vanishes from the
   * journal too early, for example because an operator deletes it, would be mistaken for a new one.
   */
  note(stateKey: string): void {
    const end = toKeyEnd(stateKey)
    this.#known?.filter.add(end)
    this.#filling?.add(end)
    if ((!this.#known || this.#reading) && this.#noted.size < MAX_NOTED) this.#noted.add(end.toString('latin1'))
  }

  /** Resolves when no read is in progress. */
  async settled(): Promise<void> {
    await this.#reading
  }

  #refresh(now: number): void {
    if (this.#reading || now < this.#retryAt || this.#closing.aborted) return
    this.#reading = this.#read(now)
      .catch((error) => {
        this.#retryAt = now + RETRY_MS
        if (!this.#closing.aborted)
          this.#log.warn(
            { err: error },
            'the keys of the stored states could not be read; until they are, ClickHouse is queried for each state',
          )
      })
      .finally(() => {
        this.#reading = null
        this.#filling = null
      })
  }

  async #read(at: number): Promise<void> {
    const { era } = this.#journal
    // Do this before reading ClickHouse: a state that is stored after this is in the journal for ten more minutes.
    const { readAt, mark, madeAt } = await this.#journal.markStates()
    const { stored } = await this.#journal.progress()
    const before = this.#known
    if (before?.era === era && before.mark === mark) {
      await this.#add(before.filter, subtractMargin(before.stored))
      this.#known = { ...before, stored, readAt, at }
      if (!before.filter.isCrowded && at - before.filledAt <= FULL_MS) {
        this.#noted.clear()
        return
      }
    }
    // The state of an entry that is not stored yet may have vanished from the journal: wait until ClickHouse has its
    // row.
    if (mark === null || stored < madeAt) {
      this.#retryAt = at + WAITING_MS
      return
    }
    const count = await this.#table.count()
    if (count > this.#maxStates) {
      this.#known = null
      this.#retryAt = at + TOO_MANY_MS
      return
    }
    const filter = new BloomFilter(2 * count + FIRST_STATES, MAX_BYTES)
    this.#filling = filter
    for (const end of this.#noted) filter.add(Buffer.from(end, 'latin1'))
    await this.#add(filter, START)
    this.#known = { filter, era, mark, stored, readAt, at, filledAt: at }
    this.#noted.clear()
  }

  /** Adds the state keys of all rows whose version is greater than `after`. */
  async #add(filter: BloomFilter, after: Position): Promise<void> {
    let rest: Buffer = Buffer.alloc(0)
    for await (const chunk of await this.#table.stateKeys(after, this.#closing)) {
      const bytes = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk
      const end = bytes.length - (bytes.length % KEY_END_BYTES)
      for (let key = 0; key < end; key += KEY_END_BYTES) filter.add(bytes, key)
      rest = bytes.subarray(end)
    }
    if (rest.length > 0) throw new Error('ClickHouse sent an incomplete state key')
  }
}

function subtractMargin(stored: Position): Position {
  const margin = BigInt(MARGIN_MS) << 16n
  return stored > margin ? stored - margin : START
}

import type { Journal, StateReading } from '../journal/journal.js'
import { BloomFilter } from '../lib/bloom-filter.js'
import type { Log } from '../lib/log.js'
import { type Position, START } from '../model/position.js'
import type { StoredKeys } from '../store/tables.js'
import { KEY_END_BYTES } from '../store/versioned.js'

/**
 * How long after a reading of the store it is relied upon, ms. What is stored after it is found in the journal, which keeps a
 * state for STATE_MEMORY_MS (10 min) longer and is always asked first; the rest is for clocks that are set.
 */
const MEMORY_MS = 3 * 60_000
/** After which the next reading begins, ms: it looks at the version of every row. */
const REFRESH_MS = 30_000
/** Between attempts that fail, or that found more states than fit, ms. */
const RETRY_MS = 30_000
/** Until what waited when the states were marked is stored, ms. */
const WAITING_MS = 1_000
const TOO_MANY_MS = 60 * 60_000
/**
 * How far a reading goes back behind what is stored, ms of positions. A Redis that lost its last steps may have lost that an
 * INSERT was sent, whose rows then appear later: for as long as an INSERT may take.
 */
const MARGIN_MS = 10 * 60_000
/** After which all rows are read again, ms: older ones may come as well, as with a part of the table that is restored. */
const FULL_MS = 60 * 60_000
/** Of a filter: with as many states it is wrong for one new one in four. */
const MAX_BYTES = 16 * 1024 * 1024
const MAX_STATES = 40_000_000
/** A filter has room for twice as many states as there are, and for some from the start. */
const FIRST_STATES = 50_000
/** Of this process that are kept for a filter which is not there yet. */
const MAX_NOTED = 50_000

/** What is known of the store. */
interface Known {
  filter: BloomFilter
  /** of the journal: after a loss, the store may have what the journal never stored, as far as it knows */
  era: number
  /** of the journal's states: with another one, some have vanished that were not in the store at the reading */
  mark: string
  /** everything up to here was stored before the reading */
  stored: Position
  /** by the clock of the journal, and by that of this process, before the reading began */
  readAt: number
  at: number
  /** by the clock of this process, before all rows were read */
  filledAt: number
}

export interface KnownStatesOptions {
  /** ends a reading */
  closing?: AbortSignal
  now?: () => number
  /** states beyond which they are not remembered, so that the store is asked for each */
  maxStates?: number
}

/**
 * Which states of one kind the store may have, so that it is not asked for one that nobody has written yet, as for a new
 * user. Knowing is by a filter of all state keys in the store, which is read when a state is first missing, and then from
 * time to time for the rows that were stored since. Whoever wrote those, in this process or another one, whatever its
 * version: they went through this journal, whose `stored` says which rows the last reading cannot have missed. That a
 * state is missing in the journal counts only if the mark of its states is the one that was there before the reading.
 *
 *     nothing ──first miss──▶ reading all ──▶ known ──30 s, and a miss──▶ reading the rest ──▶ known
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
  #known: Known | null = null
  /** that is to take its place once all states are in it */
  #filling: BloomFilter | null = null
  /** what this process writes before that is complete */
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

  /** Of memory. */
  get bytes(): number {
    return this.#known?.filter.bytes ?? 0
  }

  /**
   * Whether the store has no row of a state that the journal does not have.
   * @param reading of the journal
   * @returns false where that is not known
   */
  isNew(stateKey: string, { readAt, mark }: Pick<StateReading, 'readAt' | 'mark'>): boolean {
    const known = this.#known
    const now = this.#now()
    const isCurrent = known !== null && known.era === this.#journal.era && known.mark === mark
    if (!isCurrent || now - known.at > REFRESH_MS) this.#refresh(now)
    if (!isCurrent) return false
    const age = readAt - known.readAt
    if (age < 0 || age > MEMORY_MS || now - known.at > MEMORY_MS) return false
    return !known.filter.mayHave(endOf(stateKey))
  }

  /**
   * A state that this process is about to write is none that nobody has written, even if it is gone from the journal before
   * its time, as by an operator's hand.
   */
  note(stateKey: string): void {
    const end = endOf(stateKey)
    this.#known?.filter.add(end)
    this.#filling?.add(end)
    if ((!this.#known || this.#reading) && this.#noted.size < MAX_NOTED) this.#noted.add(end.toString('latin1'))
  }

  /** Resolves when no reading is under way. */
  async settled(): Promise<void> {
    await this.#reading
  }

  #refresh(now: number): void {
    if (this.#reading || now < this.#retryAt || this.#closing.aborted) return
    this.#reading = this.#read(now)
      .catch((error) => {
        this.#retryAt = now + RETRY_MS
        if (!this.#closing.aborted)
          this.#log.warn({ err: error }, 'which states are stored could not be read; the store is asked for each')
      })
      .finally(() => {
        this.#reading = null
        this.#filling = null
      })
  }

  async #read(at: number): Promise<void> {
    const { era } = this.#journal
    // All this before the store is read: a state that is stored later is in the journal for ten minutes more.
    const { readAt, mark, madeAt } = await this.#journal.markStates()
    const { stored } = await this.#journal.progress()
    const before = this.#known
    if (before?.era === era && before.mark === mark) {
      await this.#add(before.filter, marginOf(before.stored))
      this.#known = { ...before, stored, readAt, at }
      if (!before.filter.isCrowded && at - before.filledAt <= FULL_MS) {
        this.#noted.clear()
        return
      }
    }
    // What waits may be nowhere else, its state having vanished: once it is stored, the reading finds it.
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

  /** Adds the keys of all rows with later versions. */
  async #add(filter: BloomFilter, after: Position): Promise<void> {
    let rest: Buffer = Buffer.alloc(0)
    for await (const chunk of await this.#table.stateKeys(after, this.#closing)) {
      const bytes = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk
      const end = bytes.length - (bytes.length % KEY_END_BYTES)
      for (let key = 0; key < end; key += KEY_END_BYTES) filter.add(bytes, key)
      rest = bytes.subarray(end)
    }
    if (rest.length > 0) throw new Error('the state keys of the store end half-way')
  }
}

function endOf(stateKey: string): Buffer {
  return Buffer.from(stateKey.slice(-2 * KEY_END_BYTES), 'hex')
}

function marginOf(stored: Position): Position {
  const margin = BigInt(MARGIN_MS) << 16n
  return stored > margin ? stored - margin : START
}

import { HeldBytes } from '../../lib/held-bytes.js'
import type { Log } from '../../lib/log.js'
import { maxPosition, type Position, START } from '../../model/position.js'
import type { WaitingEntry } from '../journal.js'
import { countStateBytes } from '../shares.js'
import { UnstoredEntries } from '../unstored-entries.js'
import { assertRoom } from './disk-reserve.js'
import { EntryLog, UnknownOutcome } from './entry-log.js'
import { appliedIn, type LmdbTables } from './tables.js'
import { inDoubt, unwritable } from './transact.js'

export interface EntriesOptions {
  /** the folder */
  path: string
  /** everything up to here is in the store */
  stored: Position
  /** the last position of the block that is frozen; START if there is none */
  frozen: Position
  /** size of a file of the log; default: that of EntryLog */
  segmentBytes?: number | undefined
  /** limit of the bodies in memory; default: that of UnstoredEntries */
  memoryBytes?: number | undefined
  log?: Pick<Log, 'warn'> | undefined
}

type OldestEntry = Pick<WaitingEntry, 'position' | 'receivedAt'>

/**
 * The unstored entries of the embedded journal and their totals. All are in the log, the oldest ones also in memory.
 */
export class LmdbEntries {
  readonly #tables: LmdbTables
  readonly #log: EntryLog
  readonly #memory: UnstoredEntries
  readonly #pending = new Map<string, number>()
  /** by sender: the bytes that the entries and their states take */
  readonly held = new HeldBytes()
  #stored: Position
  #last: Position
  /** entries added since the start, including those that were in the log then */
  #added = 0
  #removed = 0
  #bytes = 0
  #stateBytes = 0
  #oldest: OldestEntry | null = null
  /** a search for the oldest entry, which concurrent callers share */
  #search: Promise<OldestEntry | null> | null = null

  private constructor(tables: LmdbTables, log: EntryLog, { stored, memoryBytes }: EntriesOptions) {
    this.#tables = tables
    this.#log = log
    this.#memory = new UnstoredEntries(memoryBytes)
    this.#stored = stored
    this.#last = stored
  }

  /** @throws Error if entries are missing or cannot be read */
  static async open(tables: LmdbTables, options: EntriesOptions): Promise<LmdbEntries> {
    const { stored, frozen } = options
    const applied = appliedIn(tables)
    const log = await EntryLog.open({
      ...options,
      applied,
      assertRoom: (bytes) => assertRoom(options.path, tables, bytes),
    })
    try {
      if (maxPosition(applied, frozen) > maxPosition(stored, log.last)) {
        throw new Error('the last entries of the journal are missing: LMDB refers to entries that no file has')
      }
      const entries = new LmdbEntries(tables, log, options)
      for await (const some of log.read(stored)) {
        entries.#added += some.length
        for (const entry of some) entries.#count(entry, 1)
        entries.#last = some.at(-1)?.position ?? entries.#last
      }
      return entries
    } catch (error) {
      await log.close()
      throw error
    }
  }

  /** The position of the last entry, stored or not. */
  get last(): Position {
    return this.#last
  }

  /** How many entries there are. */
  get length(): number {
    return this.#added - this.#removed
  }

  /** Size of the entries' bodies. */
  get bytes(): number {
    return this.#bytes
  }

  /** Size of the states that the entries' rows set. */
  get stateBytes(): number {
    return this.#stateBytes
  }

  /** How many bytes of disk a small write may take now. */
  get growth(): number {
    return this.#log.growth
  }

  /** Events that wait, by project. */
  get pending(): ReadonlyMap<string, number> {
    return this.#pending
  }

  countPending(projectId: string): number {
    return this.#pending.get(projectId) ?? 0
  }

  /**
   * Makes entries durable. They become visible only with `add`.
   * @param isConditional see `EntryLog.append`
   * @throws ApiError `unavailable` if nothing was written, `internal` if that is unknown
   */
  async prepare(entries: WaitingEntry[], isConditional: boolean): Promise<void> {
    try {
      await this.#log.append(entries, isConditional)
    } catch (error) {
      throw error instanceof UnknownOutcome ? inDoubt(error) : unwritable(error)
    }
  }

  /**
   * Removes the entries of the last `prepare`, because their transaction failed.
   * @param last the last of their positions
   * @throws ApiError `internal` if the transaction may still be on disk
   */
  async takeBack(last: Position): Promise<void> {
    try {
      // lmdb keeps reading a snapshot for a moment, and this one may be older than the transaction.
      this.#tables.root.resetReadTxn()
      if (appliedIn(this.#tables) >= last) throw new Error('a transaction that failed is on disk')
    } catch (error) {
      throw inDoubt(error)
    }
    // If this fails, nothing is appended until it succeeds. A start also removes them.
    await this.#log.undo().catch(() => undefined)
  }

  /** Adds prepared entries. @returns whether their bodies stay in memory until `remove` */
  add(entries: WaitingEntry[]): boolean {
    const isKept = this.#memory.add(this.#added, entries)
    this.#added += entries.length
    for (const entry of entries) this.#count(entry, 1)
    this.#last = entries.at(-1)?.position ?? this.#last
    return isKept
  }

  /** The oldest entries: up to `maxBytes`, at least one. */
  async first(maxBytes: number): Promise<WaitingEntry[]> {
    return this.#kept(maxBytes) ?? (await this.#read(this.#last, maxBytes))
  }

  /** All entries up to a position. */
  async upTo(last: Position): Promise<WaitingEntry[]> {
    const kept = this.#kept(Number.POSITIVE_INFINITY) ?? []
    const isKept = (kept.at(-1)?.position ?? START) >= last
    return isKept ? kept.filter(({ position }) => position <= last) : await this.#read(last, Number.POSITIVE_INFINITY)
  }

  /** The oldest entry; null if there is none. */
  async oldest(): Promise<OldestEntry | null> {
    while (this.length > 0) {
      const [kept] = this.#kept(1) ?? []
      if (kept) return kept
      if (this.#oldest && this.#oldest.position > this.#stored) return this.#oldest
      this.#search ??= this.#findOldest().finally(() => {
        this.#search = null
      })
      this.#oldest = await this.#search
    }
    return null
  }

  /**
   * Reads the oldest entry from the log.
   * @returns null if entries were removed in the meantime, so that it has to be read again
   */
  async #findOldest(): Promise<OldestEntry | null> {
    const stored = this.#stored
    try {
      const [oldest] = await this.#read(this.#last, 1)
      if (this.#stored !== stored) return null
      if (!oldest) throw new Error('entries of the journal cannot be read')
      return { position: oldest.position, receivedAt: oldest.receivedAt }
    } catch (error) {
      // The file may have been removed in the meantime because its entries were stored.
      if (this.#stored !== stored) return null
      throw error
    }
  }

  /** Removes files of the log that are kept for reuse. @returns whether there were any */
  async makeRoom(): Promise<boolean> {
    return await this.#log.removeFree()
  }

  /** Removes the entries of a block. @returns those that were kept in memory */
  async remove(block: { last: Position; entries: WaitingEntry[] }): Promise<WaitingEntry[]> {
    this.#stored = block.last
    this.#removed += block.entries.length
    for (const entry of block.entries) this.#count(entry, -1)
    const kept = this.#memory.forget(block.last)
    await this.#log.forget(block.last)
    return kept
  }

  async close(): Promise<void> {
    await this.#log.close()
  }

  /** The oldest entries if they are in memory, otherwise null. */
  #kept(maxBytes: number): WaitingEntry[] | null {
    const run = this.#memory.run(maxBytes, Number.POSITIVE_INFINITY)
    return run && run.before === this.#removed ? run.entries : null
  }

  async #read(last: Position, maxBytes: number): Promise<WaitingEntry[]> {
    const found: WaitingEntry[] = []
    let bytes = 0
    for await (const entries of this.#log.read(this.#stored)) {
      for (const entry of entries) {
        if (entry.position > last || bytes >= maxBytes) return found
        found.push(entry)
        bytes += entry.body.length
      }
    }
    return found
  }

  #count(entry: WaitingEntry, sign: 1 | -1): void {
    const { kind, projectId, count, body } = entry
    this.#bytes += sign * body.length
    this.#stateBytes += sign * countStateBytes(entry)
    for (const { holder, bytes } of entry.shares) this.held.add(holder, sign * bytes)
    if (kind !== 'events') return
    const pending = this.countPending(projectId) + sign * count
    if (pending === 0) this.#pending.delete(projectId)
    else this.#pending.set(projectId, pending)
  }
}

import { type Position, START } from '../../model/position.js'
import type { Entry } from '../journal.js'
import { UnstoredEntries } from '../unstored-entries.js'
import { decodeEntry } from './encoding.js'
import { EntryLog } from './entry-log.js'
import { appliedIn, type LmdbTables } from './tables.js'
import { transact, unwritable } from './transact.js'

/** Bytes of a record when entries of an earlier version are moved to the log. */
const MOVE_BYTES = 4 * 1024 * 1024

export interface EntriesOptions {
  /** the folder */
  path: string
  /** everything up to here is in the store */
  stored: Position
  /** of a file of the log; default: as EntryLog has it */
  segmentBytes?: number | undefined
  /** of the bodies that are kept in memory; default: as UnstoredEntries has it */
  memoryBytes?: number | undefined
}

/** The unstored entries of the embedded journal: all in the log, the oldest ones in memory too, and what they add up to. */
export class LmdbEntries {
  readonly #log: EntryLog
  readonly #memory: UnstoredEntries
  readonly #pending = new Map<string, number>()
  #stored: Position
  #last: Position
  /** that there ever were since the start */
  #added = 0
  #removed = 0
  #bytes = 0
  #oldest: Pick<Entry, 'position' | 'receivedAt'> | null = null

  private constructor(log: EntryLog, { stored, memoryBytes }: EntriesOptions) {
    this.#log = log
    this.#memory = new UnstoredEntries(memoryBytes)
    this.#stored = stored
    this.#last = stored
  }

  static async open(tables: LmdbTables, options: EntriesOptions): Promise<LmdbEntries> {
    const log = await EntryLog.open({ ...options, applied: appliedIn(tables) })
    try {
      await moveOld(tables, log, options.stored)
      const entries = new LmdbEntries(log, options)
      for await (const some of log.read(options.stored)) {
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

  /** The position of the last one, stored or not. */
  get last(): Position {
    return this.#last
  }

  /** How many there are. */
  get length(): number {
    return this.#added - this.#removed
  }

  /** Of their bodies. */
  get bytes(): number {
    return this.#bytes
  }

  pendingOf(projectId: string): number {
    return this.#pending.get(projectId) ?? 0
  }

  /**
   * Makes them durable; they count after `add`.
   * @throws ApiError `unavailable` if nothing was written
   */
  async prepare(entries: Entry[], isConditional: boolean): Promise<void> {
    try {
      await this.#log.append(entries, isConditional)
    } catch (error) {
      throw unwritable(error)
    }
  }

  /** Takes back what was prepared last. */
  async undo(): Promise<void> {
    await this.#log.undo()
  }

  /** @returns whether their bodies are kept in memory, up to `forget` */
  add(entries: Entry[]): boolean {
    const isKept = this.#memory.add(this.#added, entries)
    this.#added += entries.length
    for (const entry of entries) this.#count(entry, 1)
    this.#last = entries.at(-1)?.position ?? this.#last
    return isKept
  }

  /** The oldest ones: up to `maxBytes`, at least one. */
  async first(maxBytes: number): Promise<Entry[]> {
    return this.#kept(maxBytes) ?? (await this.#read(this.#last, maxBytes))
  }

  /** All up to a position. */
  async upTo(last: Position): Promise<Entry[]> {
    const kept = this.#kept(Number.POSITIVE_INFINITY) ?? []
    const isKept = (kept.at(-1)?.position ?? START) >= last
    return isKept ? kept.filter(({ position }) => position <= last) : await this.#read(last, Number.POSITIVE_INFINITY)
  }

  /** Null if there is none. */
  async oldest(): Promise<Pick<Entry, 'position' | 'receivedAt'> | null> {
    if (this.length === 0) return null
    const [kept] = this.#kept(1) ?? []
    if (kept) return kept
    if (!this.#oldest || this.#oldest.position <= this.#stored) {
      const [{ position, receivedAt } = { position: START, receivedAt: 0 }] = await this.#read(this.#last, 1)
      this.#oldest = position > this.#stored ? { position, receivedAt } : null
    }
    return this.#oldest
  }

  /** Removes those of a block. @returns those that were kept in memory */
  async remove(block: { last: Position; entries: Entry[] }): Promise<Entry[]> {
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

  /** The oldest ones, if they are in memory. */
  #kept(maxBytes: number): Entry[] | null {
    const run = this.#memory.run(maxBytes, Number.POSITIVE_INFINITY)
    return run && run.before === this.#removed ? run.entries : null
  }

  async #read(last: Position, maxBytes: number): Promise<Entry[]> {
    const found: Entry[] = []
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

  #count({ kind, projectId, count, body }: Entry, sign: 1 | -1): void {
    this.#bytes += sign * body.length
    if (kind !== 'events') return
    const pending = this.pendingOf(projectId) + sign * count
    if (pending === 0) this.#pending.delete(projectId)
    else this.#pending.set(projectId, pending)
  }
}

/** Moves entries of an earlier version, which had them in LMDB, to the log. */
async function moveOld({ root, oldEntries }: LmdbTables, log: EntryLog, stored: Position): Promise<void> {
  for (;;) {
    const keys: Buffer[] = []
    const moved: Entry[] = []
    let bytes = 0
    for (const { key, value } of oldEntries.getRange()) {
      if (bytes >= MOVE_BYTES) break
      keys.push(key)
      bytes += value.length
      const position = key.readBigUInt64BE()
      // The process may have died between the two steps.
      if (position > stored && position > log.last) moved.push(decodeEntry(position, value))
    }
    if (keys.length === 0) return
    if (moved.length > 0) await log.append(moved, false)
    await transact(root, () => {
      for (const key of keys) oldEntries.remove(key)
    })
  }
}

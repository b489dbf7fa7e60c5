import { classifyStoreFailure, type StoreFailure } from '../clickhouse/errors.js'
import { ApiError } from '../contract/errors.js'
import type { Block, Entry, EntryKind } from '../journal/journal.js'
import { Histogram, SECONDS } from '../lib/histogram.js'
import type { Position } from '../model/position.js'

/** Why a block was retried. */
export type RetryReason = StoreFailure | 'journal' | 'internal'

const BLOCK_ENTRIES = [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000]
const BLOCK_BYTES = [1, 4, 16, 64, 256, 1024, 4096, 16_384, 32_768, 65_536].map((kib) => kib * 1024)

/** Counts since the start. Events and rows are counted once, when their block is acknowledged. */
export class WriterMetrics {
  /** events and rows that are stored */
  readonly stored: Record<EntryKind, number> = { events: 0, profiles: 0, sessions: 0, aliases: 0, rejected: 0 }
  /** events and rows that became dead letters */
  readonly dead: Record<EntryKind, number> = { events: 0, profiles: 0, sessions: 0, aliases: 0, rejected: 0 }
  /** entries that ClickHouse could read only after they were rewritten */
  rewritten = 0
  /** when the last block was acknowledged, epoch ms; null before the first */
  storedAt: number | null = null
  readonly blockEntries = new Histogram(BLOCK_ENTRIES)
  readonly blockBytes = new Histogram(BLOCK_BYTES)
  /** duration of the INSERTs that succeeded */
  readonly insertSeconds: Record<EntryKind, Histogram> = {
    events: new Histogram(SECONDS),
    profiles: new Histogram(SECONDS),
    sessions: new Histogram(SECONDS),
    aliases: new Histogram(SECONDS),
    rejected: new Histogram(SECONDS),
  }
  readonly retries: Record<RetryReason, number> = {
    unreachable: 0,
    too_many_parts: 0,
    memory: 0,
    disk: 0,
    store: 0,
    journal: 0,
    internal: 0,
  }
  readonly #dead = new Set<Position>()

  countInsert(kind: EntryKind, startedAt: number): void {
    this.insertSeconds[kind].observe((performance.now() - startedAt) / 1000)
  }

  countRetry(error: unknown): void {
    this.retries[classifyError(error)]++
  }

  /** Notes that an entry became a dead letter; it is counted when its block is acknowledged. */
  noteDead({ position }: Entry): void {
    this.#dead.add(position)
  }

  countAcknowledged({ entries }: Block): void {
    this.storedAt = Date.now()
    let bytes = 0
    for (const { kind, position, count, body } of entries) {
      bytes += body.length
      const counts = this.#dead.delete(position) ? this.dead : this.stored
      counts[kind] += count
    }
    this.blockEntries.observe(entries.length)
    this.blockBytes.observe(bytes)
  }
}

function classifyError(error: unknown): RetryReason {
  return classifyStoreFailure(error) ?? (error instanceof ApiError ? 'journal' : 'internal')
}

import type { Connection } from '../../client/connection.js'
import { formatBatchId } from '../../model/batch-id.js'
import { TRANSFER_RETRY } from '../check-service.js'
import { type Batch, type Batches, emptyCounts, type Reject } from './batches.js'
import type { Checkpoint } from './checkpoint.js'
import { findStored, type Unacknowledged } from './find-stored.js'
import type { Input } from './input.js'
import type { LineBatch, LineBatches } from './lines/line-batches.js'
import { sendLines } from './lines/send-lines.js'
import type { SourceOptions } from './native-rows.js'
import { People } from './people.js'
import type { RejectsFile } from './rejects.js'
import { type FoundIds, type Refusals, type Sending, type Sent, sendBatch } from './send.js'
import type { StoredBatches } from './stored-batches.js'

/** Limit for batches in flight after an interruption. Those that take longer are sent again when the import resumes. */
const STOP_LIMIT_MS = 5_000

export interface ImportParts {
  input: Input
  batches: Batches | LineBatches
  options: SourceOptions
  checkpoint: Checkpoint
  rejects: RejectsFile
  stored: StoredBatches
  connection: Connection
  /** of a request's body */
  maxBytes: number
  /** when this run began by the service's clock, epoch ms */
  resumedAt: number
  /** batches in flight at a time */
  parallel: number
  /** what to do with batches that may have been sent before and whose idempotency keys have expired */
  unacknowledged: Unacknowledged
  /** stops reading; batches in flight are still completed */
  signal: AbortSignal
}

/** A batch that the service has acknowledged. */
interface Acknowledged extends Stored {
  end: Batch['end']
}

/** The result of a batch. */
interface Stored extends Sent {
  /** changes of profiles */
  profiles: number
  /** refused changes of rows whose events are stored */
  refused: Reject[]
  /** rows that are not meant to be events */
  skipped: number
  misfits: Batch['misfits']
}

/**
 * Sends an input to its end. Batches are sent in order, several concurrently, and each is recorded before it is sent.
 * They are also recorded as done in order, regardless of the order of acknowledgements.
 * @returns true at the end of the input, false if interrupted
 * @throws Error if the input cannot be read further or a batch is refused; earlier acknowledgements are recorded
 */
export async function importInput(parts: ImportParts): Promise<boolean> {
  return await new BatchSender(parts).run()
}

class BatchSender {
  readonly #parts: ImportParts
  readonly #inFlight = new Set<Promise<void>>()
  /** acknowledged batches, by index, that wait for an earlier one before they are recorded */
  readonly #acknowledged = new Map<number, Acknowledged>()
  readonly #giveUp = new AbortController()
  readonly #people: People
  #failure: { error: unknown } | null = null
  #recording: Promise<void> | null = null

  constructor(parts: ImportParts) {
    this.#parts = parts
    this.#people = new People(parts.connection, parts.maxBytes, this.#giveUp.signal)
  }

  async run(): Promise<boolean> {
    const { checkpoint, signal } = this.#parts
    let stopping: NodeJS.Timeout | undefined
    const stop = () => {
      stopping = setTimeout(() => this.#giveUp.abort(), STOP_LIMIT_MS)
    }
    signal.addEventListener('abort', stop)
    try {
      await this.#sendAll()
    } catch (error) {
      this.#failure ??= { error }
    }
    await Promise.all(this.#inFlight)
    clearTimeout(stopping)
    signal.removeEventListener('abort', stop)
    if (!this.#failure && !signal.aborted) {
      await checkpoint.finish()
      return true
    }
    checkpoint.settle()
    if (checkpoint.isBegun) await checkpoint.save()
    if (signal.aborted) return false
    throw this.#failure?.error
  }

  async #sendAll(): Promise<void> {
    const { input, batches, checkpoint, parallel, signal } = this.#parts
    for await (const batch of batches.read(input.read(checkpoint.state.done.offset, batches.mayReuseChunks))) {
      if (this.#failure || signal.aborted) break
      await checkpoint.recordSending(batch.index)
      const work = this.#handle(batch).finally(() => this.#inFlight.delete(work))
      this.#inFlight.add(work)
      // Acknowledged batches must not pile up after a slow one.
      while (!this.#failure && this.#inFlight.size > 0 && this.#isFull(parallel)) await Promise.race(this.#inFlight)
    }
  }

  #isFull(parallel: number): boolean {
    return this.#inFlight.size >= parallel || this.#acknowledged.size > parallel
  }

  /** Never rejects: a failure ends the import. */
  async #handle(batch: Batch | LineBatch): Promise<void> {
    const { batches, checkpoint } = this.#parts
    try {
      const key = `${checkpoint.state.importId}-${batch.index}`
      const stored = await ('start' in batch ? this.#storeLines(batch, key) : this.#storeRows(batch, key))
      this.#acknowledged.set(batch.index, { ...stored, end: batch.end })
      batches.release(batch)
      while (this.#acknowledged.has(checkpoint.state.done.batches)) {
        this.#recording ??= this.#record().finally(() => {
          this.#recording = null
        })
        await this.#recording
      }
    } catch (error) {
      this.#failure ??= { error }
    }
  }

  /**
   * Leaves scanning to the service. The lines are sorted here only if it refuses some, or if stored events must be
   * looked up.
   */
  async #storeLines(batch: LineBatch, key: string): Promise<Stored> {
    const { connection, options } = this.#parts
    const none = { accepted: 0, known: 0, ids: [], uncertain: 0 }
    const all = { ...none, rejects: [], refused: [], profiles: 0, skipped: 0, misfits: {} }
    if (batch.count === 0) return all
    const { refusals, recordRefused, ...sending } = this.#sending(batch, key)
    const isNew = !this.#isExpired(batch) && !refusals[key]
    const sent = isNew ? await sendLines(connection, batch, sending) : null
    if (isNew && !sent) await recordRefused({ [key]: {} })
    if (sent) return { ...all, ...sent, accepted: batch.count - sent.known }
    // Loaded on demand, because most imports only send lines.
    const { sortLines } = await import('./lines/sort-lines.js')
    // Another key, because the bytes of the events may differ from the bytes of the lines.
    return await this.#storeRows(await sortLines(batch, options), `${key}-sorted`)
  }

  async #storeRows(batch: Batch, key: string): Promise<Stored> {
    const changing = this.#people.apply(batch.people, `${key}-user`)
    const sent = await this.#send(batch, key)
    const { made: profiles, rejects, refused } = await changing
    const all = [...sent.rejects, ...rejects].sort((a, b) => a.line - b.line)
    return { ...sent, rejects: all, refused, profiles, skipped: batch.skipped, misfits: batch.misfits }
  }

  /** Decides how to send a batch. One that was sent long ago may have been stored by this import. */
  #sending(batch: Pick<Batch, 'index'>, key: string): Sending {
    const { checkpoint, resumedAt } = this.#parts
    const { index } = batch
    const refusals = checkpoint.refusalsOf(index)
    const recordRefused = (refusals: Refusals) => checkpoint.recordRefused(index, refusals)
    const others = { key, refusals, recordRefused, signal: this.#giveUp.signal }
    if (this.#isExpired(batch)) return { ...others, storedBefore: resumedAt, retry: () => TRANSFER_RETRY }
    const retry = () => {
      const withinMs = checkpoint.keysLeftMs(index)
      if (withinMs === null) return TRANSFER_RETRY
      // An earlier part of the batch may have taken long.
      if (withinMs <= 0) throw new Error('Requests of an earlier run have expired. Rerun the command to resume.')
      return { ...TRANSFER_RETRY, withinMs }
    }
    return { ...others, storedBefore: checkpoint.state.begunAt, retry }
  }

  /** Not decided once for a run: its process may have been suspended, for example with its machine. */
  #isExpired({ index }: Pick<Batch, 'index'>): boolean {
    const leftMs = this.#parts.checkpoint.keysLeftMs(index)
    return leftMs !== null && leftMs <= 0
  }

  async #send(batch: Batch, key: string): Promise<Sent> {
    const { connection, unacknowledged } = this.#parts
    const sending = this.#sending(batch, key)
    if (!this.#isExpired(batch) || batch.count === 0) return await sendBatch(connection, batch, sending)
    if (unacknowledged === 'send') {
      return { ...(await sendBatch(connection, batch, sending)), uncertain: batch.count }
    }
    // The service recognizes events that have ids.
    const isKnown = unacknowledged === 'check' && batch.haveIds
    const findSent: Sending['findSent'] = (events, lines) => this.#findSent(events, lines)
    const sent = await sendBatch(connection, batch, isKnown ? sending : { ...sending, findSent })
    // An earlier run may have stored those with ids that the service recognized.
    return { ...sent, uncertain: sent.uncertain + sent.known }
  }

  /** Finds a request of a batch whose keys have expired, unless it must be sent. */
  async #findSent(events: string[], lines: number[]): Promise<FoundIds | null> {
    const { connection, checkpoint, unacknowledged } = this.#parts
    if (unacknowledged === 'skip') return { ids: [], uncertain: events.length, missing: new Set() }
    const sought = { events, line: lines[0] ?? 0, since: checkpoint.state.begunAt }
    const found = await findStored(connection, sought, this.#giveUp.signal)
    return found && { ids: [formatBatchId(found.place)], uncertain: 0, missing: found.missing }
  }

  /** Records the acknowledged batches up to the first gap. Only one call runs at a time. */
  async #record(): Promise<void> {
    const { checkpoint, rejects, stored } = this.#parts
    for (;;) {
      const { done } = checkpoint.state
      const next = this.#acknowledged.get(done.batches)
      if (!next) return
      this.#acknowledged.delete(done.batches)
      const rejectsBytes = await rejects.write([...next.rejects, ...next.refused].sort((a, b) => a.line - b.line))
      const storedBytes = done.storedBytes === null ? null : await stored.write(next.ids)
      checkpoint.recordDone({
        batches: done.batches + 1,
        ...next.end,
        accepted: done.accepted + next.accepted,
        rejected: done.rejected + next.rejects.length,
        skipped: done.skipped + next.skipped,
        profiles: done.profiles + next.profiles,
        misfits: addCounts(done.misfits, next.misfits),
        known: done.known + next.known,
        refused: done.refused + next.refused.length,
        uncertain: done.uncertain + next.uncertain,
        storedBytes,
        rejectsBytes,
      })
    }
  }
}

function addCounts(some: Record<string, number>, others: Record<string, number>): Record<string, number> {
  const sum = Object.assign(emptyCounts(), some)
  for (const [name, count] of Object.entries(others)) sum[name] = (sum[name] ?? 0) + count
  return sum
}

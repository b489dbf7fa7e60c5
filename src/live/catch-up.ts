import type { Shards } from '../clickhouse/shards.js'
import { type Backoff, retry } from '../lib/backoff.js'
import type { ByteBudget } from '../lib/byte-budget.js'
import { readTailRange } from '../store/event-tail.js'
import type { Listener } from './listener.js'
import { RowParser } from './row-parser.js'
import type { Tail } from './tail.js'

export interface CatchUpOptions {
  shards: Shards
  /** limit of concurrent queries, over all listeners */
  queries: ByteBudget
  onSent: (listeners: readonly Listener[], events: number) => void
  onFailure: (error: unknown) => void
  signal: AbortSignal
}

/** Bytes that are read per query; they stay in memory until the listener has read them. */
const PART_BYTES = 256 * 1024
const PART_EVENTS = 5_000
/** Time limit of a query, ms; a rare event may take long to find. */
const LIMIT_MS = 100_000
const BACKOFF: Backoff = { firstMs: 200, maxMs: 5_000 }

/**
 * Sends a listener the stored events after an id, as fast as it reads, until it can follow the tail.
 * @param after the last id that the listener has
 */
export async function catchUp(listener: Listener, tail: Tail, after: string, options: CatchUpOptions): Promise<void> {
  const { queries, signal, onFailure } = options
  let at = after
  listener.isCatchingUp = true
  const step = async () => {
    await queries.take(1)
    try {
      if (listener.destroyed || at >= tail.goal) return
      const { frames, events, end } = await readPart(listener, { after: at, upTo: tail.goal }, options)
      at = end
      if (events === 0) return
      listener.send(frames)
      options.onSent([listener], events)
    } finally {
      queries.give(1)
    }
  }
  for (;;) {
    if (signal.aborted || listener.destroyed) return
    // The comparison and the join must happen in the same turn of the event loop.
    if (at >= tail.goal) {
      listener.isCatchingUp = false
      return tail.join(listener, at)
    }
    await retry(step, { backoff: BACKOFF, signal, isRetryable: () => !listener.destroyed, onFailure }).catch(
      () => undefined,
    )
    await listener.drained()
  }
}

/** @returns the frames of the first part of a range, and the id up to which they are complete */
async function readPart(
  { projectId, wanted }: Listener,
  { after, upTo }: { after: string; upTo: string },
  { shards, signal }: CatchUpOptions,
): Promise<{ frames: Buffer; events: number; end: string }> {
  const range = { projectId, ...wanted, after, upTo, limit: PART_EVENTS }
  const rows = await readTailRange(shards, range, { signal, limitMs: LIMIT_MS })
  const parser = new RowParser()
  const frames: Buffer[] = []
  let bytes = 0
  let end = after
  for await (const chunk of rows) {
    for (const event of parser.take(chunk as Buffer)) {
      frames.push(event.frame)
      bytes += event.frame.length
      end = event.id
    }
    // Leaving the loop ends the query.
    if (bytes >= PART_BYTES) return { frames: Buffer.concat(frames), events: frames.length, end }
  }
  if (!parser.isWhole) throw new Error('the result ends in the middle of a row')
  return { frames: Buffer.concat(frames), events: frames.length, end: frames.length < PART_EVENTS ? upTo : end }
}

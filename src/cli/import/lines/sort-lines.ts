import { MAX_BATCH } from '../../../contract/limits.js'
import { type Batch, Batches } from '../batches.js'
import { EventSource } from '../event-source.js'
import { LineReader } from '../lines.js'
import { FirstTime, type SourceOptions } from '../native-rows.js'
import type { LineBatch } from './line-batches.js'

/** Sorts the lines of a batch into events, which may have to be rewritten, and rejects. */
export async function sortLines({ body, start, index }: LineBatch, options: SourceOptions): Promise<Batch> {
  const source = new EventSource(options, new FirstTime(options, false))
  const limits = { events: MAX_BATCH, bytes: Number.POSITIVE_INFINITY }
  const batches = new Batches({ reader: new LineReader(start), source }, limits, start, index)
  // A copy, because batches write into it, and the lines may have to be sorted again.
  for await (const batch of batches.read([Buffer.from(body)])) return batch
  throw new Error('the batch has no lines')
}

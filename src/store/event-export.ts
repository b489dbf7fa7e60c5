import type { Readable } from 'node:stream'
import type { ReadOptions } from '../clickhouse/client.js'
import type { Shards } from '../clickhouse/shards.js'
import type { RowFormat } from '../contract/formats.js'
import { countEvents, type EventFilter, findPageStart, isFiltered, ROWS, selectOrdered } from './event-pages.js'
import { STREAMED } from './page.js'

/** A range of a project's events, all of them stored. */
export interface EventRun extends EventFilter {
  projectId: string
  /** the first id that may be in the range; absent: the oldest event */
  startAt?: string
  /** the greatest id that may be in the range */
  upTo: string
  /** the first id after the range; null if it ends at `upTo` */
  before: string | null
}

/**
 * Time limit for the first bytes or for finding the end of a range, ms: a filter that finds little may read all events.
 * Shorter than the 120 s of silence after which clients give up.
 */
const LIMIT_MS = 100_000

/** The id of the event after the first `limit` events of a range; null if there is none. */
export async function findRunEnd(
  shards: Shards,
  run: Omit<EventRun, 'before'>,
  limit: number,
  reading: Pick<ReadOptions, 'signal'>,
): Promise<string | null> {
  const limits = { ...reading, limitMs: LIMIT_MS }
  // Counting uses only the index if nothing was deleted; finding the end reads all ids.
  if (!isFiltered(run) && (await countEvents(shards, run, limits)) <= limit) return null
  return await findPageStart(shards, { ...run, offset: limit }, limits)
}

/** The events of a range as one file of rows in the order of acceptance, in the formats of `GET /public/events`. */
export async function readEventRun(
  shards: Shards,
  format: RowFormat,
  run: EventRun,
  reading: Pick<ReadOptions, 'signal'>,
): Promise<Readable> {
  const { columns, format: name, settings } = ROWS[format]
  const { from, parameters } = selectOrdered(shards, columns, run)
  return await shards.bytes(
    `${from} FORMAT ${name}`,
    parameters,
    { ...settings, ...STREAMED },
    { ...reading, limitMs: LIMIT_MS, project: run.projectId },
  )
}

import type { Readable } from 'node:stream'
import type { ReadOptions } from '../clickhouse/client.js'
import type { Shards } from '../clickhouse/shards.js'
import type { RowFormat } from '../contract/formats.js'
import { countEvents, type EventFilter, findPageStart, isFiltered, ordered, ROWS } from './event-pages.js'
import { STREAMED } from './page.js'

/** A run of a project's events, all of which are stored. */
export interface EventRun extends EventFilter {
  projectId: string
  /** the first id that may be in it; absent: from the oldest event on */
  startAt?: string
  /** the greatest id that may be in it */
  upTo: string
  /** the first id after it; null if it ends at `upTo` */
  before: string | null
}

/**
 * How long the first bytes, or the end of a run, may take, ms: a filter that finds little may have to read all events.
 * Shorter than the 120 s without data after which clients give up.
 */
const LIMIT_MS = 100_000

/** The first id behind the first `limit` events of a run; null if it has no more. */
export async function findRunEnd(
  shards: Shards,
  run: Omit<EventRun, 'before'>,
  limit: number,
  reading: Pick<ReadOptions, 'signal'>,
): Promise<string | null> {
  const limits = { ...reading, limitMs: LIMIT_MS }
  // Counting uses only the index as long as nothing was deleted; finding the end reads all ids.
  if (!isFiltered(run) && (await countEvents(shards, run, limits)) <= limit) return null
  return await findPageStart(shards, { ...run, offset: limit }, limits)
}

/** The events of a run as one file of rows in the order of acceptance, in the formats of `GET /public/events`. */
export async function readEventRun(
  shards: Shards,
  format: RowFormat,
  run: EventRun,
  reading: Pick<ReadOptions, 'signal'>,
): Promise<Readable> {
  const { columns, format: name, settings } = ROWS[format]
  const { from, parameters } = ordered(shards, columns, run)
  return await shards.bytes(
    `${from} FORMAT ${name}`,
    parameters,
    { ...settings, ...STREAMED },
    { ...reading, limitMs: LIMIT_MS, project: run.projectId },
  )
}

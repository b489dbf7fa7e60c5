import type { Readable } from 'node:stream'
import { nameShare, type ReadOptions } from '../clickhouse/client.js'
import { type ClickHouseSettings, LARGE_QUERY, literalArray } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import { idAfter } from '../model/event-id.js'
import { type EventFilter, eventJson, type Names, selectOrdered } from './event-pages.js'
import { PAGE_SETTINGS, STREAMED } from './page.js'

/** A range of a project's events in the order of acceptance. */
export interface TailRange extends EventFilter {
  projectId: string
  /** exclusive; there need not be an event with this id */
  after: string
  /** the greatest id that may be in it */
  upTo: string
  /** greatest number of events */
  limit: number
  /** only events of one of these names or users */
  anyOf?: Names | null
}

/** In a Server-Sent Event, each line break of any kind in the data begins another `data:` line. */
const DATA_LINES = String.raw`replaceAll(replaceAll(replaceAll(properties, '\r\n', '\n'), '\r', '\n'), '\n', '\ndata: ')`

const COLUMNS = String.raw`toString(event_id), event, distinct_id, session_id, timestamp,
  concat('id: ', toString(event_id), '\ndata: ', ${eventJson(DATA_LINES)}, '\n\n')`

/** One thread, so that live streams leave CPU to writes. */
const SETTINGS: ClickHouseSettings = { ...PAGE_SETTINGS, ...STREAMED, ...LARGE_QUERY, max_threads: 1 }

/**
 * The events of a range as Server-Sent Events.
 * @returns RowBinary of id, name, user, session, time and the event's frame, as `RowParser` reads it
 */
export async function readTailRange(shards: Shards, range: TailRange, reading: ReadOptions = {}): Promise<Readable> {
  const { after, limit, ...page } = range
  const { from, parameters } = selectOrdered(shards, COLUMNS, { ...page, startAt: idAfter(after) })
  return await shards.bytes(`${from} LIMIT {limit:UInt32} FORMAT RowBinary`, { ...parameters, limit }, SETTINGS, {
    ...reading,
    // Live streams have their own share of the slots, so that an export of all events does not delay them.
    project: nameShare('live', range.projectId),
  })
}

/** Finds which of the projects have events between two ids. */
export async function findProjectsWithEvents(
  shards: Shards,
  projectIds: string[],
  { after, upTo }: Pick<TailRange, 'after' | 'upTo'>,
  reading: ReadOptions = {},
): Promise<Set<string>> {
  const rows = await shards.rows<{ project: string }>(
    `SELECT DISTINCT toString(project_id) AS project FROM ${shards.table('events')}
     WHERE project_id IN ${literalArray(projectIds)}
       AND toUInt128(event_id) > toUInt128({after:UUID}) AND toUInt128(event_id) <= toUInt128({upTo:UUID})`,
    { after, upTo },
    { ...LARGE_QUERY, max_threads: 1 },
    reading,
  )
  return new Set(rows.map(({ project }) => project))
}

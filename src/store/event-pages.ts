import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { ReadOptions } from '../clickhouse/client.js'
import { type ClickHouseSettings, LARGE_QUERY, literalArray, type Parameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import type { Format, RowFormat } from '../contract/formats.js'
import type { Order } from '../model/cursor.js'
import { CONTEXT_COLUMNS, CONTEXT_JSON, CONTEXT_MEMBER } from './context-sql.js'
import { buildPageQuery, IN_ORDER, ONE_LINE, PAGE_SETTINGS, STREAMED } from './page.js'

export interface EventFilter {
  event?: string
  distinctId?: string
  /** event time in epoch milliseconds, inclusive */
  from?: number
  /** event time in epoch milliseconds, exclusive */
  to?: number
  sessionId?: string
}

/** Names of events and of users. */
export interface Names {
  events: string[]
  distinctIds: string[]
}

export interface EventPage extends EventFilter {
  projectId: string
  /** default: `asc` */
  order?: Order
  /** the greatest id of the page */
  upTo: string
  limit: number
  /** rows to skip after `startAt` */
  offset: number
  /** the first id of the page, from an earlier page */
  startAt?: string
  /** an id that is known to be beyond the page and the first event after it; null if none is known */
  before?: string | null
}

/** The first id of a page, and the first id of the next page; null if there is no such event. */
export interface PageBounds {
  first: string | null
  next: string | null
}

/**
 * Skipping fewer rows than this costs less than a query for the page's start. One thread does it, which is faster than
 * two for 10 000 rows (2 cores).
 */
export const FAR_ROWS = 20_000

const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/
const LEAST_ID = '00000000-0000-0000-0000-000000000000'

/** A filtered page is only sent once it is complete, because it may time out and then be searched in ranges. */
const FILTERED: ClickHouseSettings = { http_response_buffer_size: String(4 * 1024 * 1024) }

/** SQL expression for an event as JSON. @param properties SQL expression for its properties as JSON */
export const eventJson = (properties: string) => `concat(
    '{"eventId":"', toString(event_id),
    '","event":', toJSONString(event),
    ',"distinct_id":', toJSONString(distinct_id),
    ',"properties":', ${properties},
    ',"timestamp":', toString(timestamp),
    if(insert_id = '', '', concat(',"insert_id":', toJSONString(insert_id))),
    if(session_id = '', '', concat(',"session_id":', toJSONString(session_id))),
    ${CONTEXT_MEMBER}, '}')`

/** Columns of CSV and Parquet: the fields of the JSON object, in the same order. */
const COLUMNS = `toString(event_id) AS eventId, event, distinct_id, properties, timestamp, insert_id, session_id,
    ${CONTEXT_JSON} AS context`

/**
 * Bytes of rows that are compressed together, about 250 000 ordinary events. For 900 incompressible events of 1 MB,
 * ClickHouse used 1.1 GB; with its default of 512 MiB, 2.3 GB.
 */
const ROW_GROUP = String(64 * 1024 * 1024)

/** The SQL of each format of rows. */
export const ROWS: Record<RowFormat, { columns: string; format: string; settings: ClickHouseSettings }> = {
  ndjson: { columns: eventJson(ONE_LINE), format: 'TSVRaw', settings: PAGE_SETTINGS },
  // Lines end as in RFC 4180.
  csv: { columns: COLUMNS, format: 'CSVWithNames', settings: { output_format_csv_crlf_end_of_line: 1 } },
  parquet: { columns: COLUMNS, format: 'Parquet', settings: { output_format_parquet_row_group_size_bytes: ROW_GROUP } },
}

/** A page of events as JSON, followed by the first id of the next page. */
export async function readEventPage(shards: Shards, page: EventPage, reading: ReadOptions = {}): Promise<Readable> {
  const { from, parameters } = selectOrdered(
    shards,
    `event_id, event, distinct_id, properties, timestamp, insert_id, session_id, ${CONTEXT_COLUMNS}`,
    page,
  )
  const query = buildPageQuery({ json: eventJson('properties'), nextId: 'toString(event_id)', from })
  const settings = { ...PAGE_SETTINGS, ...rowSettings(page) }
  return await shards.bytes(query, { ...parameters, limit: page.limit, offset: page.offset }, settings, {
    ...reading,
    project: page.projectId,
  })
}

/**
 * An event as JSON; null if there is none with this id.
 * @param event `home` is the number of the shard that should have it, which is searched first
 */
export async function readEvent(
  shards: Shards,
  { projectId, eventId, home = 0 }: { projectId: string; eventId: string; home?: number },
  signal?: AbortSignal,
): Promise<Buffer | null> {
  return await shards.find(home, async ({ clickhouse }) => {
    const rows = await clickhouse.bytes(
      `SELECT ${eventJson('properties')} FROM events
     WHERE project_id = {project:String} AND toUInt128(event_id) = toUInt128({id:UUID})
     LIMIT 1 FORMAT TSVRaw`,
      { project: projectId, id: eventId },
      PAGE_SETTINGS,
      { signal, project: projectId },
    )
    const line = await buffer(rows)
    // Without the newline.
    return line.length === 0 ? null : line.subarray(0, -1)
  })
}

/** All events of a user with these names, as lines of NDJSON that begin with `{"type":"event",`. */
export async function readEventsOfUser(
  shards: Shards,
  { distinctIds, ...user }: { projectId: string; distinctIds: string[]; upTo: string },
  reading: ReadOptions,
): Promise<Readable> {
  const line = `concat('{"type":"event",', substring(${eventJson(ONE_LINE)}, 2))`
  const { from, parameters } = selectOrdered(shards, line, { ...user, distinctIds })
  return await shards.bytes(
    `${from} FORMAT TSVRaw`,
    parameters,
    { ...PAGE_SETTINGS, ...STREAMED, ...LARGE_QUERY },
    reading,
  )
}

/**
 * The events of a page as a file of rows. An NDJSON line equals an event of a JSON page, except that line breaks
 * between the tokens of its properties become spaces.
 * @param bounds the result of findPageBounds for this page
 */
export async function readEventRows(
  shards: Shards,
  rows: RowFormat,
  page: Omit<EventPage, 'offset' | 'before'>,
  { first, next }: PageBounds,
  reading: ReadOptions = {},
): Promise<Readable> {
  const { columns, format, settings } = ROWS[rows]
  const { from, parameters } = selectOrdered(shards, columns, {
    ...page,
    ...(first && { startAt: first }),
    before: next,
  })
  return await shards.bytes(
    `${from} LIMIT {limit:UInt32} FORMAT ${format}`,
    { ...parameters, limit: first === null ? 0 : page.limit },
    { ...settings, ...rowSettings(page) },
    { ...reading, project: page.projectId },
  )
}

/**
 * These events in the form of `readEventPage` or `readEventRows`, without deleted ones.
 * @param ids ids that the store returned
 */
export async function readEventsById(
  shards: Shards,
  format: Format,
  { projectId, order, ids }: Pick<EventPage, 'projectId' | 'order'> & { ids: string[] },
  reading: ReadOptions = {},
): Promise<Readable> {
  const json = { columns: eventJson('properties'), format: 'CustomSeparated', settings: PAGE_SETTINGS }
  const { columns, format: name, settings } = format === 'json' ? json : ROWS[format]
  // A URL has no room for the ids, so they go into the statement. The bounds let ClickHouse use the primary key.
  const list = ids.map((id) => `toUInt128(toUUID('${checkId(id)}'))`).join(', ')
  const sorted = ids.toSorted()
  const range = { upTo: sorted.at(-1) ?? LEAST_ID, first: sorted[0] ?? LEAST_ID }
  const direction = order === 'desc' ? 'DESC' : 'ASC'
  return await shards.bytes(
    `SELECT ${columns} FROM ${shards.table('events')}
     WHERE project_id = {project:String} AND ${idCondition('>=', 'first')} AND ${idCondition('<=', 'upTo')}
       ${ids.length > 0 ? `AND toUInt128(event_id) IN (${list})` : 'AND 0'}
     ORDER BY project_id ${direction}, toUInt128(event_id) ${direction}
     FORMAT ${name}`,
    { project: projectId, ...range },
    { ...settings, ...STREAMED },
    { ...reading, project: projectId },
  )
}

/** The ids of the events of a page in its order, up to `before`, exclusive. */
export async function findEventIds(shards: Shards, page: EventPage, reading: ReadOptions = {}): Promise<string[]> {
  const { from, parameters } = selectOrdered(shards, 'toString(event_id) AS id', page)
  const rows = await shards.rows<{ id: string }>(
    `${from} LIMIT {offset:UInt64}, {limit:UInt32}`,
    { ...parameters, offset: page.offset, limit: page.limit },
    idSettings(page),
    { ...reading, project: page.projectId },
  )
  return rows.map(({ id }) => id)
}

/** Finds where a page begins and ends, reading only ids. */
export async function findPageBounds(shards: Shards, page: EventPage, reading: ReadOptions = {}): Promise<PageBounds> {
  if (page.startAt !== undefined && page.offset === 0) {
    return { first: page.startAt, next: await findPageStart(shards, { ...page, offset: page.limit }, reading) }
  }
  const { from, parameters } = selectOrdered(shards, 'event_id', page)
  const rows = await shards.rows<{ number: string; id: string }>(
    `SELECT number, toString(event_id) AS id
     FROM (
       SELECT rowNumberInAllBlocks() AS number, event_id
       FROM (${from} LIMIT {offset:UInt64}, {limit:UInt32} + 1)
     )
     WHERE number IN (0, {limit:UInt32})`,
    { ...parameters, limit: page.limit, offset: page.offset },
    idSettings(page),
    { ...reading, project: page.projectId },
  )
  const findId = (wanted: number) => rows.find(({ number }) => Number(number) === wanted)?.id ?? null
  return { first: findId(0), next: findId(page.limit) }
}

/** The first id of a page; null if there is none. Rows are skipped cheaply, because only their ids are read. */
export async function findPageStart(
  shards: Shards,
  page: Omit<EventPage, 'limit'>,
  reading: ReadOptions = {},
): Promise<string | null> {
  const [first] = await findEventIds(shards, { ...page, limit: 1 }, reading)
  return first ?? null
}

/**
 * The number of events. Uses only the index if none was deleted. Each shard counts its own; a count around a subquery
 * would send the ids of all shards to one of them.
 */
export async function countEvents(
  shards: Shards,
  events: Omit<EventPage, 'offset' | 'limit'>,
  reading: ReadOptions,
): Promise<number> {
  const { from, parameters } = selectMatching(shards, 'count() AS events', events)
  const [row] = await shards.rows<{ events: string }>(from, parameters, {}, { ...reading, project: events.projectId })
  return Number(row?.events)
}

/** Whether ClickHouse returns nearly every row that it reads, apart from deleted ones. */
function isDense(page: EventFilter & { offset?: number }): boolean {
  return (page.offset ?? 0) < FAR_ROWS && !isFiltered(page)
}

/** A second thread costs 2 to 3 ms, and would have little to read for a dense page. */
function rowSettings(page: EventFilter & { offset?: number }): ClickHouseSettings {
  return { ...STREAMED, ...(isDense(page) && { max_threads: 1 }), ...(isFiltered(page) && FILTERED) }
}

/** Whether the filter may exclude events, which makes ClickHouse read more than it returns. */
export function isFiltered({ event, distinctId, from, to, sessionId }: EventFilter): boolean {
  return [event, distinctId, from, to, sessionId].some((value) => value !== undefined)
}

function checkId(id: string): string {
  if (!UUID.test(id)) throw new Error('not an id of the store')
  return id
}

/** Settings of queries for one id: small blocks, so that few ids beyond it are read. */
function idSettings(page: EventFilter & { offset: number }): ClickHouseSettings {
  return { ...IN_ORDER, ...(isDense(page) && { max_threads: 1, max_block_size: '8192' }) }
}

interface Matching extends Omit<EventPage, 'offset' | 'limit'> {
  distinctIds?: string[]
  anyOf?: Names | null
}

interface Select {
  from: string
  parameters: Parameters
}

/**
 * A SELECT of these columns of events, in the page's order.
 * @param page may have further conditions: only ids before one, events of some users, or events with one of some names
 */
export function selectOrdered(shards: Shards, columns: string, page: Matching): Select {
  const { from, parameters } = selectMatching(shards, columns, page)
  const direction = page.order === 'desc' ? 'DESC' : 'ASC'
  return {
    from: `${from}
    ORDER BY project_id ${direction}, toUInt128(event_id) ${direction}`,
    parameters,
  }
}

/** Like `selectOrdered`, without an order. */
function selectMatching(shards: Shards, columns: string, page: Matching): Select {
  const conditions = ['project_id = {project:String}', idCondition('<=', 'upTo')]
  const parameters: Parameters = { project: page.projectId, upTo: page.upTo }
  const where = (condition: string, name: string, value: string | number | null | undefined) => {
    if (value === undefined || value === null) return
    conditions.push(condition)
    parameters[name] = value
  }
  const isRising = page.order !== 'desc'
  where(idCondition(isRising ? '>=' : '<=', 'startAt'), 'startAt', page.startAt)
  where(idCondition(isRising ? '<' : '>', 'before'), 'before', page.before)
  where('event = {event:String}', 'event', page.event)
  where('distinct_id = {distinctId:String}', 'distinctId', page.distinctId)
  if (page.distinctIds) conditions.push(`distinct_id IN ${literalArray(page.distinctIds)}`)
  if (page.anyOf) {
    const { events, distinctIds } = page.anyOf
    conditions.push(`(event IN ${literalArray(events)} OR distinct_id IN ${literalArray(distinctIds)})`)
  }
  where('session_id = {sessionId:String}', 'sessionId', page.sessionId)
  where('timestamp >= {from:Float64}', 'from', page.from)
  where('timestamp < {to:Float64}', 'to', page.to)
  return { from: `SELECT ${columns} FROM ${shards.table('events')} WHERE ${conditions.join(' AND ')}`, parameters }
}

/** Compares toUInt128(event_id), because the table is sorted by it. */
function idCondition(operator: '<=' | '<' | '>=' | '>', parameter: string): string {
  return `toUInt128(event_id) ${operator} toUInt128({${parameter}:UUID})`
}

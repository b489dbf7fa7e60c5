import type { Readable } from 'node:stream'
import { formatEventId, idHalves, parseEventId } from '../event-id.js'
import type { Entry } from '../journal/journal.js'
import { millisecondsOf, type Position } from '../journal/position.js'
import type { ClickHouse, Parameters } from './clickhouse.js'
import { Fields, literal } from './fields.js'
import { insertEntries } from './insert.js'
import { PAGE_SETTINGS, pageOf } from './page.js'

/** One line per entry; ClickHouse takes the events apart and numbers them, which makes the ids. */
const INSERT = `
INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties)
SELECT
    project_id,
    reinterpret(bitOr(bitShiftLeft(toUInt128(id_low + bitShiftLeft(toUInt64(i - 1), 32)), 64), toUInt128(id_high)), 'UUID'),
    e.event,
    e.distinct_id,
    ifNull(e.timestamp, received_at),
    received_at,
    if(e.properties = '', '{}', e.properties)
FROM input('
    project_id String, id_high UInt64, id_low UInt64, received_at Int64,
    body Tuple(events Array(Tuple(event String, distinct_id String, timestamp Nullable(Float64), properties String)))')
ARRAY JOIN body.events AS e, arrayEnumerate(body.events) AS i
FORMAT JSONEachRow`

/**
 * Stores the events of the entries; a token that was used before stores nothing.
 * @throws StoreError where ClickHouse refused them, StoreUnreachableError where it is not known what became of them
 */
export async function insertEvents(
  clickhouse: ClickHouse,
  journalId: number,
  entries: Entry[],
  token: string,
  signal: AbortSignal,
): Promise<void> {
  const lineOf = ({ projectId, position }: Entry) => {
    const { high, low } = idHalves(position, journalId)
    const head = `{"project_id":${JSON.stringify(projectId)},"id_high":${high},"id_low":${low},"received_at":${millisecondsOf(position)},"body":`
    return { head, tail: '}\n' }
  }
  await insertEntries(clickhouse, INSERT, entries, lineOf, signal, {
    insert_deduplication_token: token,
    deduplicate_insert_select: 'force_enable',
  })
}

/** The last position of a journal, from `first` on, whose events are stored; null where none is. */
export async function lastStoredPosition(
  clickhouse: ClickHouse,
  journalId: number,
  first: Position,
): Promise<Position | null> {
  const rows = await clickhouse.rows<{ id: string }>(
    `SELECT toString(event_id) AS id FROM events
     WHERE toUInt128(event_id) >= toUInt128({first:UUID}) AND bitAnd(toUInt128(event_id), 0xffffffff) = {journal:UInt32}
     ORDER BY toUInt128(event_id) DESC LIMIT 1`,
    { first: formatEventId({ position: first, index: 0, journalId: 0 }), journal: journalId },
  )
  return (rows[0] && parseEventId(rows[0].id)?.position) ?? null
}

export interface EventFilter {
  event?: string
  distinctId?: string
  /** event time in epoch milliseconds, inclusive */
  from?: number
  /** event time in epoch milliseconds, exclusive */
  to?: number
}

export interface EventPage extends EventFilter {
  projectId: string
  /** the greatest id that may be in the answer */
  upTo: string
  limit: number
  /** rows to pass over, from `startAt` on */
  offset: number
  /** the first id of the page, as an earlier page's mark had it */
  startAt?: string
}

const EVENT_JSON = `concat(
    '{"eventId":"', toString(event_id),
    '","event":', toJSONString(event),
    ',"distinct_id":', toJSONString(distinct_id),
    ',"properties":', properties,
    ',"timestamp":', toString(timestamp), '}')`

/** A page of events as JSON texts, in the order of their acceptance; its mark is the first id of the next page. */
export async function readEventPage(clickhouse: ClickHouse, page: EventPage): Promise<Readable> {
  const { from, parameters } = ordered('event_id, event, distinct_id, properties, timestamp', page)
  const query = pageOf({ json: EVENT_JSON, mark: 'toString(event_id)', from })
  return await clickhouse.bytes(query, { ...parameters, limit: page.limit, offset: page.offset }, PAGE_SETTINGS)
}

/**
 * The first id of a page, or null where there is none. Passing over rows is cheap as long as only their ids are read.
 */
export async function findPageStart(clickhouse: ClickHouse, page: EventPage): Promise<string | null> {
  const { from, parameters } = ordered('event_id', page)
  const rows = await clickhouse.rows<{ id: string }>(
    `SELECT toString(event_id) AS id FROM (${from} LIMIT {offset:UInt64}, 1)`,
    { ...parameters, offset: page.offset },
  )
  return rows[0]?.id ?? null
}

function ordered(columns: string, page: EventPage): { from: string; parameters: Parameters } {
  const conditions = ['project_id = {project:String}', idCondition('<=', 'upTo')]
  const parameters: Parameters = { project: page.projectId, upTo: page.upTo }
  const where = (condition: string, name: string, value: string | number | undefined) => {
    if (value === undefined) return
    conditions.push(condition)
    parameters[name] = value
  }
  where(idCondition('>=', 'startAt'), 'startAt', page.startAt)
  where('event = {event:String}', 'event', page.event)
  where('distinct_id = {distinctId:String}', 'distinctId', page.distinctId)
  where('timestamp >= {from:Float64}', 'from', page.from)
  where('timestamp < {to:Float64}', 'to', page.to)
  const from = `SELECT ${columns} FROM events WHERE ${conditions.join(' AND ')} ORDER BY project_id, toUInt128(event_id)`
  return { from, parameters }
}

/** Spelled out for toUInt128(event_id), which is what the table is sorted by. */
function idCondition(operator: '<=' | '>=', parameter: string): string {
  return `toUInt128(event_id) ${operator} toUInt128({${parameter}:UUID})`
}

/** Removes all events of a user that are in the store. */
export async function deleteEventsOfUser(clickhouse: ClickHouse, projectId: string, distinctId: string): Promise<void> {
  await clickhouse.command('DELETE FROM events WHERE project_id = {project:String} AND distinct_id = {user:String}', {
    project: projectId,
    user: distinctId,
  })
}

export async function hasEventsOfUser(clickhouse: ClickHouse, projectId: string, distinctId: string): Promise<boolean> {
  const rows = await clickhouse.rows(
    'SELECT 1 FROM events WHERE project_id = {project:String} AND distinct_id = {user:String} LIMIT 1',
    { project: projectId, user: distinctId },
  )
  return rows.length > 0
}

/** Keeps an entry that could not be stored as what it is, with the reason, so that it can be looked at and replayed. */
export async function insertDeadLetter(
  clickhouse: ClickHouse,
  { projectId, position, kind, body }: Entry,
  reason: string,
  token: string,
): Promise<void> {
  const fields = new Fields()
  const values = [
    fields.text(projectId),
    `${position}`,
    fields.text(kind),
    fields.text(reason),
    literal(body),
    `${millisecondsOf(position)}`,
  ]
  await clickhouse.command(
    `INSERT INTO dead_letters (project_id, position, kind, reason, body, received_at) SELECT ${values.join(', ')}`,
    fields.parameters,
    { insert_deduplication_token: token, deduplicate_insert_select: 'force_enable' },
  )
}

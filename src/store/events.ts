import type { ClickHouse } from '../clickhouse/client.js'
import { orIfDenied, StoreUnreachableError } from '../clickhouse/errors.js'
import { type Parameters, QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import type { Entry } from '../journal/journal.js'
import { formatEventId, idHalves, lastIdAt, parseEventId } from '../model/event-id.js'
import { type Position, START } from '../model/position.js'
import { mayHaveContexts } from '../model/scanned-body.js'
import { CONTEXT_COLUMNS, CONTEXT_TYPES } from './context-sql.js'
import { DELETE_LIMIT_MS, DeletionCounter } from './deleted-events.js'
import { type ChangeScope, hashUsers, logChange } from './event-changes.js'
import { hashName } from './fact-columns.js'
import { deduplicateBy, insertEntries, isInserting } from './insert.js'

const SKIPPED = ', arrayResize(skipped, length(body.events)) AS is_skipped WHERE NOT is_skipped'
const CONTEXT_TYPE = `context Tuple(${Object.entries(CONTEXT_TYPES).map((column) => column.join(' '))})`

/**
 * One line per entry. ClickHouse splits it into events and computes their ids from their indexes. An entry with events
 * to skip has a flag for each event up to the last skipped one: ClickHouse would copy a list of indexes to every event.
 * Contexts are read only if there may be some, because that takes 0.1 µs per event.
 */
const buildInsert = ({ hasSkipped, hasContexts }: { hasSkipped: boolean; hasContexts: boolean }) => `
INSERT INTO events (
    project_id, event_id, event, distinct_id, timestamp, received_at, properties, insert_id, session_id
    ${hasContexts ? `, ${CONTEXT_COLUMNS.join(', ')}` : ''})
SELECT
    project_id,
    reinterpret(bitOr(bitShiftLeft(toUInt128(id_low + bitShiftLeft(toUInt64(i - 1), 32)), 64), toUInt128(id_high)), 'UUID'),
    e.event,
    e.distinct_id,
    ifNull(e.timestamp, received_at),
    received_at,
    if(e.properties = '', '{}', e.properties),
    e.insert_id,
    e.session_id
    ${hasContexts ? `, ${CONTEXT_COLUMNS.map((field) => `e.context.${field}`).join(', ')}` : ''}
FROM input('
    project_id String, id_high UInt64, id_low UInt64, received_at Int64,${hasSkipped ? ' skipped Array(UInt8),' : ''}
    body Tuple(events Array(Tuple(
        event String, distinct_id String, timestamp Nullable(Float64), properties String, insert_id String,
        session_id String${hasContexts ? `, ${CONTEXT_TYPE}` : ''})))')
ARRAY JOIN body.events AS e, arrayEnumerate(body.events) AS i${hasSkipped ? SKIPPED : ''}
FORMAT JSONEachRow`

const INSERT = buildInsert({ hasSkipped: false, hasContexts: false })

/**
 * Stores the events of the entries. Does nothing if the token was used before.
 * @throws StoreError if ClickHouse rejected them, StoreUnreachableError if it is unknown whether they were stored
 */
export async function insertEvents(
  clickhouse: ClickHouse,
  journalId: number,
  entries: Entry[],
  token: string,
  signal: AbortSignal,
): Promise<void> {
  const toLine = ({ projectId, position, receivedAt, skip }: Entry) => {
    const { high, low } = idHalves(position, journalId)
    const rest = skip ? `"skipped":[${flagsAt(skip)}],` : ''
    const head = `{"project_id":${JSON.stringify(projectId)},"id_high":${high},"id_low":${low},"received_at":${receivedAt},${rest}"body":`
    return { head, tail: '}\n' }
  }
  const hasSkipped = entries.some(({ skip }) => skip)
  const hasContexts = entries.some(({ body }) => mayHaveContexts(body))
  const query = hasSkipped || hasContexts ? buildInsert({ hasSkipped, hasContexts }) : INSERT
  await insertEntries(clickhouse, query, entries, toLine, signal, deduplicateBy(token))
}

/** @param indexes in ascending order */
function flagsAt(indexes: readonly number[]): number[] {
  const flags = new Array<number>(1 + (indexes.at(-1) ?? -1)).fill(0)
  for (const index of indexes) flags[index] = 1
  return flags
}

/** Deleted events count as stored, because their rows stay until a purge. */
const DELETED_TOO = { apply_deleted_mask: 0 } as const
/** All bits of an id except the index of the event in its entry. */
const ENTRY_MASK = String(((1n << 128n) - 1n) ^ (((1n << 26n) - 1n) << 32n))

/**
 * The last position of a journal, from `first` on, whose events are stored; null if there is none. Not covered: an
 * INSERT that is running on a replica that does not respond.
 * @throws StoreUnreachableError while an INSERT of the journal is running: its events may still appear
 */
export async function findLastStored(
  clickhouse: ClickHouse,
  journalId: number,
  first: Position,
): Promise<Position | null> {
  if (await orIfDenied(isInserting(clickhouse, `${journalId}:`), false)) {
    throw new StoreUnreachableError('ClickHouse is still working on an earlier INSERT of this journal')
  }
  const rows = await clickhouse.rows<{ id: string }>(
    `SELECT toString(event_id) AS id FROM events
     WHERE toUInt128(event_id) >= toUInt128({first:UUID}) AND bitAnd(toUInt128(event_id), 0xffffffff) = {journal:UInt32}
     ORDER BY toUInt128(event_id) DESC LIMIT 1`,
    { first: formatEventId({ position: first, index: 0, journalId: 0 }), journal: journalId },
    DELETED_TOO,
  )
  return (rows[0] && parseEventId(rows[0].id)?.position) ?? null
}

/**
 * The positions of a journal's entries, from `first` to `last`, whose events are stored. An entry is stored completely
 * or not at all.
 */
export async function findStoredPositions(
  clickhouse: ClickHouse,
  journalId: number,
  { first, last }: { first: Position; last: Position },
): Promise<Set<Position>> {
  const rows = await clickhouse.rows<{ id: string }>(
    `SELECT toString(any(event_id)) AS id FROM events
     WHERE toUInt128(event_id) >= toUInt128({first:UUID}) AND toUInt128(event_id) <= toUInt128({last:UUID})
       AND bitAnd(toUInt128(event_id), 0xffffffff) = {journal:UInt32}
     GROUP BY bitAnd(toUInt128(event_id), {entry:UInt128})`,
    {
      first: formatEventId({ position: first, index: 0, journalId: 0 }),
      last: lastIdAt(last),
      journal: journalId,
      entry: ENTRY_MASK,
    },
    DELETED_TOO,
  )
  return new Set(rows.map(({ id }) => parseEventId(id)?.position ?? START))
}

/** The entry of a project at a position of a journal. */
export interface EntryPlace {
  projectId: string
  position: Position
  journalId: number
}

const OF_ENTRY = `project_id = {project:String}
  AND toUInt128(event_id) >= toUInt128({first:UUID}) AND toUInt128(event_id) <= toUInt128({last:UUID})
  AND bitAnd(toUInt128(event_id), 0xffffffff) = {journal:UInt32}`

function toParameters({ projectId, position, journalId }: EntryPlace): Parameters {
  const first = formatEventId({ position, index: 0, journalId: 0 })
  return { project: projectId, first, last: lastIdAt(position), journal: journalId }
}

/**
 * SQL condition for the events of some entries of a project. The first and the last possible id limit the range of the
 * primary key that is read.
 * @param ids of the first event of each
 */
export function matchEntries(fields: QueryParameters, projectId: string, ids: readonly string[]): string {
  const positions = ids.map((id) => parseEventId(id)?.position ?? START).sort((a, b) => (a < b ? -1 : 1))
  const [first = START, last = START] = [positions[0], positions.at(-1)]
  const least = fields.array([formatEventId({ position: first, index: 0, journalId: 0 })], 'UUID')
  const greatest = fields.array([lastIdAt(last)], 'UUID')
  return `project_id = ${fields.text(projectId)}
    AND toUInt128(event_id) >= toUInt128(${least}[1]) AND toUInt128(event_id) <= toUInt128(${greatest}[1])
    AND bitAnd(toUInt128(event_id), toUInt128('${ENTRY_MASK}')) IN arrayMap(id -> toUInt128(id), ${fields.array([...ids], 'UUID')})`
}

/** Whether events of an entry were stored on any shard, even if they were deleted since but not purged. */
export async function hasEventsOfEntry(shards: Shards, entry: EntryPlace): Promise<boolean> {
  const rows = await shards.rows(
    `SELECT 1 FROM ${shards.table('events')} WHERE ${OF_ENTRY} LIMIT 1`,
    toParameters(entry),
    DELETED_TOO,
  )
  return rows.length > 0
}

/** Stores an entry whose events are late, so that the facts may already be past its position. */
export async function logReplay<T>(
  clickhouse: ClickHouse,
  { projectId, position }: EntryPlace,
  store: () => Promise<T>,
): Promise<T> {
  const first = formatEventId({ position, index: 0, journalId: 0 })
  return await logChange(clickhouse, new Map([[projectId, { kind: 'entry', first, last: lastIdAt(position) }]]), store)
}

/** Ids in one DELETE. They are parameters in its URL, which has room for about 23 000. */
const DELETED_TOGETHER = 10_000

/** Deletes the events at these indexes of an entry on every shard. */
export async function deleteEventsOfEntry(
  shards: Shards,
  entry: EntryPlace,
  indexes: readonly number[] | 'all',
): Promise<void> {
  const { position, journalId } = entry
  const remove = async (condition: string, parameters: Parameters = {}) => {
    const values = { ...toParameters(entry), ...parameters }
    const which = `${OF_ENTRY} ${condition}`
    await shards.each(async ({ clickhouse }) => {
      const events = await clickhouse.rows<{ id: string }>(
        `SELECT toString(event_id) AS id FROM events WHERE ${which}`,
        values,
      )
      if (events.length === 0) return
      const ids = events.map(({ id }) => id)
      await logChange(clickhouse, new Map([[entry.projectId, { kind: 'events', ids }]]), ({ fence, ...change }) =>
        clickhouse.command(`DELETE FROM events WHERE (${which}) AND ${fence}`, { ...values, ...change.parameters }),
      )
    })
  }
  if (indexes === 'all') return await remove('')
  for (let start = 0; start < indexes.length; start += DELETED_TOGETHER) {
    const fields = new QueryParameters()
    const together = indexes.slice(start, start + DELETED_TOGETHER)
    const ids = together.map((index) => formatEventId({ position, index, journalId }))
    await remove(`AND event_id IN ${fields.array(ids, 'UUID')}`, fields.parameters)
  }
}

/** The number of stored events by user, without users who have none. */
export async function countEventsOfUsers(
  shards: Shards,
  projectId: string,
  distinctIds: string[],
): Promise<Map<string, number>> {
  const fields = new QueryParameters()
  const rows = await shards.rows<{ distinct_id: string; count: string }>(
    `SELECT distinct_id, count() AS count FROM ${shards.table('events')}
     WHERE project_id = ${fields.text(projectId)} AND distinct_id IN ${fields.array(distinctIds)}
     GROUP BY distinct_id`,
    fields.parameters,
  )
  return new Map(rows.map(({ distinct_id, count }) => [distinct_id, Number(count)]))
}

/** Deletes all events of these users on this shard. A purge removes them from the disk later. */
export async function deleteEventsOfUsers(
  clickhouse: ClickHouse,
  projectId: string,
  distinctIds: string[],
): Promise<void> {
  const fields = new QueryParameters()
  const condition = `project_id = ${fields.text(projectId)} AND distinct_id IN ${fields.array(distinctIds)}`
  const counter = await DeletionCounter.open(clickhouse, projectId)
  const { parameters } = fields
  const users = await hashUsers(clickhouse, distinctIds)
  const hashes = new QueryParameters()
  const unnamed = {
    condition: `project_id = ${hashes.text(projectId)}
      AND ${hashName('distinct_id')} IN arrayMap(hash -> toUInt64(hash), ${hashes.array(users)})`,
    parameters: hashes.parameters,
  }
  await deleteEvents(clickhouse, counter, {
    projectId,
    scope: { kind: 'users', users },
    condition,
    parameters,
    unnamed,
  })
}

/**
 * Like `deleteEventsOfUsers`, for the events of a project, month by month.
 * @param before only events before this time, whole epoch ms; null: all
 * @param isDue asked before each month; if false, the rest is kept
 * @returns the number of deleted events
 */
export async function deleteEventsBefore(
  clickhouse: ClickHouse,
  projectId: string,
  before: number | null,
  isDue: () => Promise<boolean> = async () => true,
): Promise<number> {
  const which = before === null ? '1' : `timestamp < ${before}`
  const values = { project: projectId }
  const months = await clickhouse.rows<{ id: string }>(
    `SELECT DISTINCT _partition_id AS id FROM events WHERE project_id = {project:String} AND ${which} ORDER BY id`,
    values,
    {},
    { limitMs: DELETE_LIMIT_MS },
  )
  if (months.length === 0) return 0
  const counter = await DeletionCounter.open(clickhouse, projectId)
  let sum = 0
  for (const { id } of months) {
    if (!(await isDue())) break
    const condition = `project_id = {project:String} AND _partition_id = {month:String} AND ${which}`
    const parameters = { ...values, month: id }
    const scope = { kind: 'month' as const, month: id, before }
    sum += await deleteEvents(clickhouse, counter, { projectId, scope, condition, parameters })
  }
  return sum
}

/** Events of a project on one shard. */
interface ChosenEvents {
  projectId: string
  /** what facts have to follow */
  scope: ChangeScope
  /** SQL */
  condition: string
  parameters: Parameters
  /** the same condition without names of users, if it has some */
  unnamed?: { condition: string; parameters: Parameters }
}

/**
 * Deletes events, logged for the facts and counted for the ledger, but none that are stored in between. Each journal
 * stores its events in the order of their ids, but an event of one journal may be stored after a later one of another.
 * @returns the number of deleted events
 */
export async function deleteEvents(
  clickhouse: ClickHouse,
  counter: DeletionCounter,
  { projectId, scope, condition, parameters, unnamed = { condition, parameters } }: ChosenEvents,
): Promise<number> {
  return await logChange(clickhouse, new Map([[projectId, scope]]), async (change) => {
    const journal = 'bitAnd(toUInt128(event_id), 0xffffffff)'
    const found = await clickhouse.rows<{ id: string; count: string; last: string }>(
      `SELECT toString(${journal}) AS id, count() AS count, toString(max(toUInt128(event_id))) AS last
       FROM events WHERE ${condition} GROUP BY id`,
      parameters,
      {},
      { limitMs: DELETE_LIMIT_MS },
    )
    const count = found.reduce((sum, row) => sum + Number(row.count), 0)
    const bounds = found.map(({ id, last }) => `(${journal} = ${id} AND toUInt128(event_id) <= toUInt128('${last}'))`)
    const upTo = `(${bounds.join(' OR ')})`
    await counter.run(projectId, {
      count,
      left: {
        query: `SELECT count() AS count FROM events WHERE ${unnamed.condition} AND ${upTo}`,
        parameters: unnamed.parameters,
      },
      run: async () => {
        const sql = `DELETE FROM events WHERE ${condition} AND ${upTo} AND ${change.fence}`
        await clickhouse.command(sql, { ...parameters, ...change.parameters }, {}, DELETE_LIMIT_MS)
      },
    })
    return count
  })
}

import type { ClickHouse } from '../clickhouse/client.js'
import { QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import { lastIdAt } from '../model/event-id.js'
import { type Position, toMilliseconds } from '../model/position.js'
import { readDeletedOn } from './deleted-events.js'
import { insertRows, nextVersion } from './insert.js'

/** The position up to which a journal has acknowledged the entries that it counts. */
export interface Bound {
  journalId: number
  stored: Position
}

/** Time limit for counting all events, ms; ClickHouse counts some 500 million a second. */
const LIMIT_MS = 10 * 60_000

/** Counts the stored events of each project up to the bounds, without deleted ones. */
export async function countStored(shards: Shards, bounds: readonly Bound[]): Promise<Map<string, number>> {
  const fields = new QueryParameters()
  const after = bounds.map(({ journalId, stored }) => {
    const last = fields.array([lastIdAt(stored)], 'UUID')
    return `(toUInt128(event_id) > toUInt128(${last}[1]) AND bitAnd(toUInt128(event_id), 0xffffffff) = ${journalId})`
  })
  // Only the months of the bounds can have events after them, so the ids of earlier months need not be read.
  const months = bounds.map(({ stored }) => new Date(toMilliseconds(stored)).toISOString().slice(0, 7).replace('-', ''))
  const first = `'${months.sort()[0] ?? '999999'}'`
  return await sumOverShards(
    shards,
    `SELECT project_id AS project, sum(n) AS count FROM (
       SELECT project_id, count() AS n FROM events WHERE _partition_id < ${first} GROUP BY project_id
       UNION ALL
       SELECT project_id, count() AS n FROM events
       WHERE _partition_id >= ${first} AND NOT (${after.join(' OR ') || '0'}) GROUP BY project_id
     ) GROUP BY project`,
    fields,
  )
}

/** Counts the events of each project, up to the bounds, in dead letters that were not replayed. */
export async function countRefused(shards: Shards, bounds: readonly Bound[]): Promise<Map<string, number>> {
  const after = bounds.map(({ journalId, stored }) => `(journal_id = ${journalId} AND position > ${stored})`)
  return await sumOverShards(
    shards,
    `SELECT project_id AS project, sum(events) AS count FROM (
       SELECT any(project_id) AS project_id, argMax(event_count, revision) AS events FROM dead_letters
       WHERE kind = 'events' AND NOT (${after.join(' OR ') || '0'})
         AND (journal_id, position) NOT IN (SELECT journal_id, position FROM dead_letter_replays)
       GROUP BY journal_id, position
     ) GROUP BY project`,
  )
}

/** The number of events of each project that were deleted or are being deleted. */
export async function readDeleted(shards: Shards): Promise<Map<string, number>> {
  const found = await shards.each(({ clickhouse }) => readDeletedOn(clickhouse))
  return sumByProject(found.flatMap((counts) => [...counts]))
}

async function sumOverShards(
  shards: Shards,
  query: string,
  { parameters } = new QueryParameters(),
): Promise<Map<string, number>> {
  const found = await shards.each(({ clickhouse }) =>
    clickhouse.rows<{ project: string; count: string }>(query, parameters, {}, { limitMs: LIMIT_MS }),
  )
  return sumByProject(found.flat().map(({ project, count }) => [project, Number(count)]))
}

function sumByProject(counts: readonly (readonly [string, number])[]): Map<string, number> {
  const sums = new Map<string, number>()
  for (const [project, count] of counts) sums.set(project, (sums.get(project) ?? 0) + count)
  return sums
}

/** Events that the journals of a layout do not count; see `ledger_bases`. */
export interface LedgerBase {
  carried: number
  /** start of the count, epoch ms */
  since: number
}

/** The bases by project. @param first the first shard, whose bases count */
export async function readBases(first: ClickHouse, layout: number): Promise<Map<string, LedgerBase>> {
  const rows = await first.rows<{ project: string; carried: string; since: string }>(
    'SELECT project_id AS project, carried, since FROM ledger_bases FINAL WHERE layout = {layout:UInt32}',
    { layout },
  )
  return new Map(
    rows.map(({ project, carried, since }) => [project, { carried: Number(carried), since: Number(since) }]),
  )
}

/** Replaces the bases of these projects. @param now epoch ms */
export async function writeBases(
  first: ClickHouse,
  layout: number,
  bases: ReadonlyMap<string, LedgerBase>,
  now: number,
): Promise<void> {
  const version = await nextVersion(first, 'ledger_bases', now)
  const rows = [...bases].map(([project_id, base]) => ({ layout, project_id, ...base, version }))
  await insertRows(first, 'ledger_bases', rows)
}

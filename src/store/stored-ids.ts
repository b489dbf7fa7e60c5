import { LARGE_QUERY, literalArray, QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import { lastIdAt } from '../model/event-id.js'
import type { NamedEvent } from '../model/identified-events.js'
import type { Position } from '../model/position.js'

/** Of a project, before a position. */
export interface StoredBefore {
  projectId: string
  before: Position
}

/**
 * How far the time of an event may be from that of its repetition, ms. Both have the time that the client gave, but one of
 * them may have come with a correction of its clock, or in the time zone of a project.
 */
const SLACK_MS = 24 * 60 * 60 * 1000
/** More ranges of time than this are one. */
const MAX_RANGES = 16

/** Whether any event of a project that was accepted before a position has an `insert_id`. */
export async function hasStoredIds(shards: Shards, { projectId, before }: StoredBefore): Promise<boolean> {
  const fields = new QueryParameters()
  const rows = await shards.rows(
    `SELECT 1 FROM ${shards.table('events')}
     WHERE project_id = ${fields.text(projectId)} AND insert_id != '' AND ${isBefore(before, fields)} LIMIT 1`,
    fields.parameters,
  )
  return rows.length > 0
}

/**
 * The pairs of user and `insert_id` that are among these and that events have which were accepted before a position, each
 * as `pairOf` writes it. Events are looked for around the times of these, which spares reading the others.
 */
export async function findStoredIds(
  shards: Shards,
  { projectId, before }: StoredBefore,
  events: readonly NamedEvent[],
): Promise<Set<string>> {
  const fields = new QueryParameters()
  const project = `project_id = ${fields.text(projectId)} AND ${isBefore(before, fields)}`
  const times = timesAround(events, fields)
  const ids = literalArray([...new Set(events.map(({ insertId }) => insertId))])
  const rows = await shards.rows<{ distinctId: string; insertId: string }>(
    `SELECT DISTINCT distinct_id AS distinctId, insert_id AS insertId FROM ${shards.table('events')}
     WHERE ${project}${times && ` AND (${times})`} AND insert_id IN (${ids})`,
    fields.parameters,
    LARGE_QUERY,
  )
  return new Set(rows.map(pairOf))
}

/** One text of a user and an `insert_id`. */
export function pairOf({ distinctId, insertId }: Pick<NamedEvent, 'distinctId' | 'insertId'>): string {
  return `${distinctId.length}:${distinctId}${insertId}`
}

function isBefore(position: Position, fields: QueryParameters): string {
  return `toUInt128(event_id) <= toUInt128(toUUID(${fields.text(lastIdAt(position))}))`
}

/** A condition on the times of the events that are looked for; empty if they may have any. */
function timesAround(events: readonly NamedEvent[], fields: QueryParameters): string {
  const times = events.map(({ timestamp }) => timestamp)
  if (times.includes(null)) return ''
  const rising = (times as number[]).sort((a, b) => a - b)
  let ranges: [from: number, to: number][] = []
  for (const time of rising) {
    const last = ranges.at(-1)
    if (last && time - last[1] <= 2 * SLACK_MS) last[1] = time
    else ranges.push([time, time])
  }
  if (ranges.length > MAX_RANGES) ranges = [[rising[0] ?? 0, rising.at(-1) ?? 0]]
  return ranges
    .map(([from, to]) => `timestamp BETWEEN ${fields.number(from - SLACK_MS)} AND ${fields.number(to + SLACK_MS)}`)
    .join(' OR ')
}

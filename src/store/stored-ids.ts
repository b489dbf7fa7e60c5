import { LARGE_QUERY, literalArray, QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import { DAY_MS } from '../contract/durations.js'
import { lastIdAt } from '../model/event-id.js'
import type { NamedEvent } from '../model/identified-events.js'
import type { Position } from '../model/position.js'

/** Events of a project that were accepted before a position. */
export interface StoredBefore {
  projectId: string
  before: Position
}

/** Events of a project that were accepted after a position. */
export interface StoredAfter {
  projectId: string
  after: Position
  /** whether events are searched that have other times than the given ones, which takes longer */
  atAnyTime?: boolean
}

/**
 * How much the times of an event and its repetition may differ, ms. Both have the client's time, but only one of them
 * may have been corrected for the client's clock or converted from a project's time zone.
 */
const SLACK_MS = DAY_MS
/** Maximum number of days to remember; with more, any day counts as stored. */
const MAX_DAYS = 50_000
/** Time limit, ms. Reading the times of very many events takes some seconds. */
const DAYS_LIMIT_MS = 120_000
/** If there are more time ranges than this, they are merged into one. */
const MAX_RANGES = 16

/** The days on which a project has events, as days since 1970 in UTC. */
export class StoredDays {
  readonly #days: ReadonlySet<number> | null

  /** @param days null for any */
  constructor(days: readonly number[] | null) {
    this.#days = days && new Set(days)
  }

  get areNone(): boolean {
    return this.#days?.size === 0
  }

  /** Whether the project may have stored this event before. */
  mayHave({ timestamp }: Pick<NamedEvent, 'timestamp'>): boolean {
    if (this.#days === null) return true
    if (timestamp === null) return this.#days.size > 0
    const day = Math.floor(timestamp / SLACK_MS)
    return this.#days.has(day - 1) || this.#days.has(day) || this.#days.has(day + 1)
  }
}

/** The days of a project's events accepted before a position; none if no such event has an `insert_id`. */
export async function findStoredDays(shards: Shards, { projectId, before }: StoredBefore): Promise<StoredDays> {
  const fields = new QueryParameters()
  const events = `${shards.table('events')} WHERE project_id = ${fields.text(projectId)} AND ${isBefore(before, fields)}`
  // Do not count this as a read of the project, so that an export does not block its writes.
  const reading = { limitMs: DAYS_LIMIT_MS }
  const named = await shards.rows(
    `SELECT 1 FROM ${events} AND insert_id != '' LIMIT 1`,
    fields.parameters,
    IN_BACKGROUND,
    reading,
  )
  if (named.length === 0) return new StoredDays([])
  const rows = await shards.rows<{ day: number }>(
    `SELECT DISTINCT toInt32(intDiv(timestamp, ${SLACK_MS})) AS day FROM ${events} LIMIT ${MAX_DAYS + 1}`,
    fields.parameters,
    IN_BACKGROUND,
    reading,
  )
  return new StoredDays(rows.length > MAX_DAYS ? null : rows.map(({ day }) => day))
}

/**
 * The pairs of user and `insert_id` that stored events already have, as keys of `toPairKey`. Unless it is for any time,
 * only events close to the times of the given ones are searched.
 */
export async function findStoredIds(
  shards: Shards,
  stored: StoredBefore | StoredAfter,
  events: readonly NamedEvent[],
): Promise<Set<string>> {
  const fields = new QueryParameters()
  const accepted = 'before' in stored ? isBefore(stored.before, fields) : isAfter(stored.after, fields)
  const project = `project_id = ${fields.text(stored.projectId)} AND ${accepted}`
  const times = 'atAnyTime' in stored ? '' : timesAround(events, fields)
  const ids = literalArray([...new Set(events.map(({ insertId }) => insertId))])
  const rows = await shards.rows<{ distinctId: string; insertId: string }>(
    `SELECT DISTINCT distinct_id AS distinctId, insert_id AS insertId FROM ${shards.table('events')}
     WHERE ${project}${times && ` AND (${times})`} AND insert_id IN (${ids})`,
    fields.parameters,
    LARGE_QUERY,
  )
  return new Set(rows.map(toPairKey))
}

/** One thread, so that an import does not slow down reads. */
const IN_BACKGROUND = { max_threads: 1 } as const

/** A string that identifies a pair of user and `insert_id`. */
export function toPairKey({ distinctId, insertId }: Pick<NamedEvent, 'distinctId' | 'insertId'>): string {
  return `${distinctId.length}:${distinctId}${insertId}`
}

function isBefore(position: Position, fields: QueryParameters): string {
  return `toUInt128(event_id) <= toUInt128(toUUID(${fields.text(lastIdAt(position))}))`
}

function isAfter(position: Position, fields: QueryParameters): string {
  return `toUInt128(event_id) > toUInt128(toUUID(${fields.text(lastIdAt(position))}))`
}

/** SQL condition on the times of the events to find; empty if they may have any time. */
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

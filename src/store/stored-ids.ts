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
/** More days than a project's events are from by mistake. */
const MAX_DAYS = 50_000
/** Reading the times of all events of a project takes some seconds if there are very many. */
const DAYS_LIMIT_MS = 120_000
/** More ranges of time than this are one. */
const MAX_RANGES = 16

/** The days, of UTC and since 1970, from which a project has events. */
export class StoredDays {
  readonly #days: ReadonlySet<number> | null

  /** @param days null for any */
  constructor(days: readonly number[] | null) {
    this.#days = days && new Set(days)
  }

  get areNone(): boolean {
    return this.#days?.size === 0
  }

  /** Whether an event that is repeated here may be among them. */
  mayHave({ timestamp }: Pick<NamedEvent, 'timestamp'>): boolean {
    if (this.#days === null) return true
    if (timestamp === null) return this.#days.size > 0
    const day = Math.floor(timestamp / SLACK_MS)
    return this.#days.has(day - 1) || this.#days.has(day) || this.#days.has(day + 1)
  }
}

/** The days of a project's events that were accepted before a position; none if none of these has an `insert_id`. */
export async function findStoredDays(shards: Shards, { projectId, before }: StoredBefore): Promise<StoredDays> {
  const fields = new QueryParameters()
  const events = `${shards.table('events')} WHERE project_id = ${fields.text(projectId)} AND ${isBefore(before, fields)}`
  // Not as a read of the project: whoever exports all its events is not to keep it from sending some.
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
 * The pairs of user and `insert_id` that are among these and that events have which were accepted before a position, each
 * as `toPairKey` writes it. Events are looked for around the times of these, which spares reading the others.
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
  return new Set(rows.map(toPairKey))
}

/** An import is not to slow down what others read. */
const IN_BACKGROUND = { max_threads: 1 } as const

/** One text of a user and an `insert_id`. */
export function toPairKey({ distinctId, insertId }: Pick<NamedEvent, 'distinctId' | 'insertId'>): string {
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

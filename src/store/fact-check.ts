import { randomInt } from 'node:crypto'
import type { ClickHouse } from '../clickhouse/client.js'
import { isStoreError, isTimeout, type UnreadablePart } from '../clickhouse/errors.js'
import { literalArray } from '../clickhouse/parameters.js'
import { type Backoff, backoffMs } from '../lib/backoff.js'
import { DELETE_LIMIT_MS } from './deleted-events.js'
import { requestFacts, SETTLED } from './event-changes.js'
import { toMonth } from './fact-columns.js'

/** Whether the facts of a generation were found to be complete since ClickHouse started. */
export async function isChecked(clickhouse: ClickHouse, generation: number): Promise<boolean> {
  const rows = await clickhouse.rows('SELECT 1 WHERE {generation:UInt32} IN facts_checked', {
    generation,
  })
  return rows.length > 0
}

/**
 * Has the facts of a shard compared with its events again, because events were lost or reappeared without a change in
 * the log. Until then, questions read events.
 * @param options `areEdits`: whether the same happened to edits; facts are then copied again, because a comparison of
 *   numbers does not find these
 */
export async function checkFactsAgain(clickhouse: ClickHouse, { areEdits = false } = {}): Promise<void> {
  // With replicas, there are no facts.
  if (clickhouse.hasReplicas) return
  try {
    if (areEdits) await requestFacts(clickhouse, 'rebuild', '')
    await clickhouse.command('TRUNCATE TABLE facts_checked')
  } catch (error) {
    // A user without the right to do this cannot have copied facts.
    if (!isStoreError(error, 'ACCESS_DENIED')) throw error
  }
}

/**
 * Detaches an unreadable part of a table that says which events facts have; then the facts are rebuilt.
 * @throws StoreError if another process has done that
 */
export async function detachNotes(clickhouse: ClickHouse, { table, part }: UnreadablePart): Promise<void> {
  // The order matters: nobody may read the facts until they are rebuilt.
  await checkFactsAgain(clickhouse)
  await clickhouse.command(`ALTER TABLE ${table} DETACH PART '${part}'`, {}, {}, DELETE_LIMIT_MS)
}

/**
 * The result of comparing the facts of a shard with its events. `changing`: not all could be compared yet, because
 * there are many, or because some are being changed.
 */
export type Comparison = 'equal' | 'different' | 'changing'

/** What is compared in one statement. */
interface Piece {
  /** of acceptance, such as 202611: the partition of both tables */
  month: string
  /** the projects; null for all */
  only: readonly string[] | null
}

/**
 * Compares the number of facts of each project with the number of its copied events, in one month. ClickHouse also
 * starts if parts are damaged or missing, so rows of facts may be missing, and deleted rows may be back.
 * @returns the projects that differ: those whose events are being changed, and whether there are others
 */
async function compareFacts(
  clickhouse: ClickHouse,
  generation: number,
  { month, only }: Piece,
  limitMs: number,
): Promise<{ changing: string[]; isDifferent: boolean }> {
  const before = await readChanges(clickhouse)
  const where = `_partition_id = {month:String} ${only ? `AND project_id IN ${literalArray(only)}` : ''}`
  // Most projects have copied all events of the month: then the names of the projects suffice, which are compressed to
  // almost nothing. Ids take 16 bytes.
  const rows = await clickhouse.rows<{ project: string }>(
    `WITH known AS (
       SELECT project_id, argMax(hi, step) AS last, ${toMonth('last')} AS reached FROM facts_progress
       WHERE generation = {generation:UInt32} GROUP BY project_id
     )
     SELECT project FROM (
       SELECT project_id AS project, toInt64(count()) AS difference FROM event_facts WHERE ${where} GROUP BY project
       UNION ALL
       SELECT project_id AS project, -toInt64(count()) AS difference FROM events
       WHERE ${where} AND project_id IN (SELECT project_id FROM known WHERE reached > toUInt32({month:String})) GROUP BY project
       UNION ALL
       SELECT project_id AS project, -toInt64(countIf(toUInt128(event_id) <= last)) AS difference FROM events
       INNER JOIN (SELECT project_id, last FROM known WHERE reached = toUInt32({month:String})) AS latest USING (project_id)
       WHERE ${where} GROUP BY project
     ) GROUP BY project HAVING sum(difference) != 0`,
    { generation, month },
    { max_threads: 1 },
    { limitMs },
  )
  if (rows.length === 0) return { changing: [], isDifferent: false }
  const after = await readChanges(clickhouse)
  const isOpen = (project: string) => after.get(project)?.startsWith('open') ?? false
  const projects = rows.map(({ project }) => project)
  const changing = projects.filter((project) => after.get(project) !== before.get(project) || isOpen(project))
  return { changing, isDifferent: changing.length < projects.length }
}

/** The months that have events or facts. */
async function listMonths(clickhouse: ClickHouse): Promise<string[]> {
  const rows = await clickhouse.rows<{ month: string }>(
    `SELECT DISTINCT partition_id AS month FROM system.parts
     WHERE database = currentDatabase() AND table IN ('events', 'event_facts') AND active AND rows > 0
       AND NOT startsWith(partition_id, 'patch-') ORDER BY month`,
  )
  return rows.map(({ month }) => month)
}

/** Pauses between two comparisons of projects that are being changed. */
const BACKOFF: Backoff = { firstMs: 1_000, maxMs: 30_000 }
/** A project that was being changed at this many comparisons is stuck; that takes some 20 s. */
const MAX_TRIES = 6
/** How long one call of `run` begins further comparisons, ms: changes are followed in between. */
const RUN_MS = 1_000
/** A comparison that exceeded its time limit gets twice the time, up to this, ms. */
const MAX_LIMIT_MS = 20 * 60_000
/** Numbers from this one on mark comparisons in `facts_checked`; generations are smaller. */
const MARKS = 2 ** 31

/**
 * Compares facts with events, month by month, until each project was equal once in each month. Projects that are being
 * changed are compared again, at growing intervals. What was compared is kept if a comparison fails or another process
 * leads for a while.
 */
export class FactCheck {
  readonly #clickhouse: ClickHouse
  readonly #pauses: Backoff
  /** facts of this generation are compared; 0 before the first comparison */
  #generation = 0
  /** is in `facts_checked` as long as what was compared counts: the table is emptied when rows may be lost or back */
  #mark = MARKS
  /** what is left to compare, and what has to be compared once more after that */
  #left: Piece[] = []
  #again: Piece[] = []
  /** how often projects that were being changed were compared */
  #tries = 0
  /** earliest time of the next comparison, `performance.now()` */
  #nextAt = Number.NEGATIVE_INFINITY
  #limitMs = DELETE_LIMIT_MS

  constructor(clickhouse: ClickHouse, pauses = BACKOFF) {
    this.#clickhouse = clickhouse
    this.#pauses = pauses
  }

  /** SQL for whether what was compared so far counts. */
  get holds(): string {
    return `toUInt32(${this.#mark}) IN facts_checked`
  }

  /** Compares what is left, for a second or one statement. */
  async run(generation: number): Promise<Comparison> {
    const isKnown = generation === this.#generation
    if (!isKnown || (await this.#clickhouse.rows(`SELECT 1 WHERE ${this.holds}`)).length === 0) {
      await this.#begin(generation)
    }
    if (performance.now() < this.#nextAt) return 'changing'
    const until = performance.now() + RUN_MS
    for (let [piece] = this.#left; piece; [piece] = this.#left) {
      if (performance.now() > until) return 'changing'
      const { changing, isDifferent } = await this.#compare(piece)
      if (isDifferent) return 'different'
      this.#left.shift()
      if (changing.length > 0) this.#again.push({ ...piece, only: changing })
    }
    if (this.#again.length === 0) return 'equal'
    this.#left = this.#again.splice(0)
    this.#nextAt = performance.now() + backoffMs(this.#pauses, ++this.#tries)
    return 'changing'
  }

  /** The projects that were being changed each time; they are compared again at the next call of `run`. */
  takeStuck(): string[] {
    if (this.#tries < MAX_TRIES) return []
    this.#tries = 0
    this.#nextAt = Number.NEGATIVE_INFINITY
    return [...new Set(this.#left.flatMap(({ only }) => only ?? []))]
  }

  async #begin(generation: number): Promise<void> {
    this.#generation = 0
    this.#mark = randomInt(MARKS, 2 * MARKS)
    // The order matters: what is lost from now on removes the mark.
    await this.#clickhouse.command(`INSERT INTO facts_checked (generation) VALUES (${this.#mark})`)
    this.#left = (await listMonths(this.#clickhouse)).map((month) => ({ month, only: null }))
    this.#again = []
    this.#tries = 0
    this.#nextAt = Number.NEGATIVE_INFINITY
    this.#generation = generation
  }

  async #compare(piece: Piece): Promise<{ changing: string[]; isDifferent: boolean }> {
    try {
      return await compareFacts(this.#clickhouse, this.#generation, piece, this.#limitMs)
    } catch (error) {
      if (isTimeout(error)) this.#limitMs = Math.min(2 * this.#limitMs, MAX_LIMIT_MS)
      throw error
    }
  }
}

/** By project: a value that differs after each change. */
async function readChanges(clickhouse: ClickHouse): Promise<Map<string, string>> {
  const rows = await clickhouse.rows<{ project: string; last: string; open: string }>(
    `SELECT project_id AS project, toString(max(noted_at)) AS last, countIf(state < ${SETTLED}) AS open
     FROM event_changes FINAL GROUP BY project`,
  )
  return new Map(rows.map(({ project, last, open }) => [project, `${Number(open) > 0 ? 'open' : 'settled'} ${last}`]))
}

import type { ClickHouse } from '../clickhouse/client.js'
import { isStoreError, type UnreadablePart } from '../clickhouse/errors.js'
import { literalArray } from '../clickhouse/parameters.js'
import { type Backoff, backoffMs } from '../lib/backoff.js'
import { DELETE_LIMIT_MS } from './deleted-events.js'
import { requestFacts, SETTLED } from './event-changes.js'

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

/** The result of comparing the facts of a shard with its events. */
export type Comparison = 'equal' | 'different' | 'changing'

/**
 * Compares the number of facts of each project with the number of its copied events. ClickHouse also starts if parts
 * are damaged or missing, so rows of facts may be missing, and deleted rows may be back.
 * @param only the projects to compare; null for all
 * @returns the projects that differ: those whose events are being changed, and whether there are others
 */
async function compareFacts(
  clickhouse: ClickHouse,
  generation: number,
  only: readonly string[] | null = null,
): Promise<{ changing: string[]; isDifferent: boolean }> {
  const before = await readChanges(clickhouse)
  const where = only ? `WHERE project_id IN ${literalArray(only)}` : ''
  const rows = await clickhouse.rows<{ project: string }>(
    `SELECT project FROM (
       SELECT project_id AS project, toInt64(count()) AS difference FROM event_facts ${where} GROUP BY project
       UNION ALL
       SELECT project_id AS project, -toInt64(countIf(toUInt128(event_id) <= hi)) AS difference FROM events
       INNER JOIN (
         SELECT project_id, argMax(hi, step) AS hi FROM facts_progress WHERE generation = {generation:UInt32} GROUP BY project_id
       ) AS known USING (project_id) ${where} GROUP BY project
     ) GROUP BY project HAVING sum(difference) != 0`,
    { generation },
    { max_threads: 1 },
    { limitMs: DELETE_LIMIT_MS },
  )
  if (rows.length === 0) return { changing: [], isDifferent: false }
  const after = await readChanges(clickhouse)
  const isOpen = (project: string) => after.get(project)?.startsWith('open') ?? false
  const projects = rows.map(({ project }) => project)
  const changing = projects.filter((project) => after.get(project) !== before.get(project) || isOpen(project))
  return { changing, isDifferent: changing.length < projects.length }
}

/** First and longest pause between two comparisons of projects that are being changed, ms. */
const BACKOFF: Backoff = { firstMs: 1_000, maxMs: 30_000 }
/** Uncertainty of the time of a start, ms: the server reports its uptime in whole seconds. */
const START_MS = 1_500

/**
 * Compares facts with events until each project was equal once. Projects that are being changed are compared again, at
 * growing intervals.
 */
export class FactCheck {
  readonly #clickhouse: ClickHouse
  /** the projects that have not been equal yet; null before the first comparison */
  #left: string[] | null = null
  #tries = 0
  /** earliest time of the next comparison, `performance.now()` */
  #nextAt = 0
  /** when the server on which the others were equal had started, `performance.now()` */
  #startedAt = 0
  #generation = 0

  constructor(clickhouse: ClickHouse) {
    this.#clickhouse = clickhouse
  }

  async run(generation: number): Promise<Comparison> {
    const [server] = await this.#clickhouse.rows<{ age: number }>('SELECT uptime() AS age')
    const startedAt = performance.now() - 1000 * (server?.age ?? 0)
    // The new server process may have lost other parts.
    if (Math.abs(startedAt - this.#startedAt) > START_MS || generation !== this.#generation) {
      this.#left = null
      this.#tries = 0
      this.#startedAt = startedAt
      this.#generation = generation
    } else if (performance.now() < this.#nextAt) return 'changing'
    const { changing, isDifferent } = await compareFacts(this.#clickhouse, generation, this.#left)
    // Once all were equal, the next comparison starts over with all.
    this.#left = changing.length > 0 ? changing : null
    if (isDifferent) return 'different'
    if (changing.length === 0) {
      this.#tries = 0
      return 'equal'
    }
    this.#nextAt = performance.now() + backoffMs(BACKOFF, ++this.#tries)
    return 'changing'
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

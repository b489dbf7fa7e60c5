import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { ClickHouse } from '../clickhouse/client.js'
import { StoreError } from '../clickhouse/errors.js'
import type { Parameters } from '../clickhouse/parameters.js'

/** Time limit for deleting the events of one month, and for counting them. */
export const DELETE_LIMIT_MS = 110_000
/** A deletion reaches ClickHouse within this time after it was noted, ms, unless its process hangs. */
const NOTED_MS = 1_000
const POLL_MS = 100
/** How long a deletion waits for earlier ones, ms. */
const WAIT_LIMIT_MS = 30_000

/** A query that returns a number in its column `count`. */
interface Count {
  query: string
  parameters: Parameters
}

/** A deletion of events of a project on one server. */
export interface Deletion {
  /** number of events that exist and will be deleted */
  count: number
  /** counts how many of them still exist */
  left: Count
  /** whether `left` is stored, so that the ledger survives a kill: it must be short and must not name users */
  isResumable: boolean
  /** @returns false if it deleted nothing, because another process was first */
  run(): Promise<boolean>
}

/** A row of `deleted_events`. */
interface Note {
  counter: string
  revision: number
  count: number
  pending: number
  left_query: string
}

/**
 * Counts the events that are deleted on a server, for the ledger. A deletion is noted before it is carried out, together
 * with the query that counts what it has left. So the ledger is exact even if ClickHouse refuses a deletion, or a process
 * is killed at any step of it.
 *
 * Not promised: concurrent deletions of the same events count them twice, and so does one that is repeated after a kill if
 * it is not resumable, or if ClickHouse is still carrying it out half a minute later. The ledger reports these events as
 * not received, without raising an alarm.
 *
 * A counter runs one deletion at a time.
 */
export class DeletionCounter {
  readonly #clickhouse: ClickHouse
  readonly #id = randomUUID()
  /** by project: the number of deleted events, and the number of the last note */
  readonly #noted = new Map<string, { count: number; revision: number }>()

  constructor(clickhouse: ClickHouse) {
    this.#clickhouse = clickhouse
  }

  /**
   * A counter for events that an interrupted deletion may have counted already. Call this before counting what will be
   * deleted.
   */
  static async open(clickhouse: ClickHouse, projectId: string): Promise<DeletionCounter> {
    await settleInterrupted(clickhouse, projectId)
    return new DeletionCounter(clickhouse)
  }

  /** Carries out a deletion, and counts it. @throws its error */
  async run(projectId: string, { count, left, isResumable, run }: Deletion): Promise<void> {
    if (count === 0) return
    // A deletion that is not resumable costs one note instead of two if all goes well.
    let counted = isResumable ? 0 : count
    await this.#begin(projectId, counted, isResumable ? { pending: count, left_query: JSON.stringify(left) } : NOTHING)
    const settle = async (deleted: number) => {
      const more = deleted - counted
      counted = deleted
      if (isResumable || more !== 0) await this.#note(projectId, more, NOTHING)
    }
    let isDone: boolean
    try {
      isDone = await run()
    } catch (error) {
      // After a timeout or a lost connection, ClickHouse may still be deleting, so the note stays.
      const isRefused = error instanceof StoreError
      const rest = isRefused ? await readCount(this.#clickhouse, left).catch(() => null) : null
      if (rest !== null) await settle(count - rest).catch(() => undefined)
      throw error
    }
    await settle(isDone ? count : 0)
  }

  /** Like `#note`, but counts nothing if it fails, because nothing will be deleted then. */
  async #begin(projectId: string, deleted: number, pending: Pick<Note, 'pending' | 'left_query'>): Promise<void> {
    try {
      await this.#note(projectId, deleted, pending)
    } catch (error) {
      const noted = this.#noted.get(projectId)
      if (noted) noted.count -= deleted
      throw error
    }
  }

  /** @param deleted number of events to add */
  async #note(projectId: string, deleted: number, pending: Pick<Note, 'pending' | 'left_query'>): Promise<void> {
    const { count, revision } = this.#noted.get(projectId) ?? { count: 0, revision: 0 }
    const next = { count: count + deleted, revision: revision + 1 }
    this.#noted.set(projectId, next)
    await writeNote(this.#clickhouse, projectId, { counter: this.#id, ...next, ...pending })
  }
}

const NOTHING = { pending: 0, left_query: '' }

async function writeNote(clickhouse: ClickHouse, project: string, note: Note): Promise<void> {
  const row = JSON.stringify({ project_id: project, ...note })
  await clickhouse.command(`INSERT INTO deleted_events FORMAT JSONEachRow\n${row}`)
}

/** Notes what interrupted deletions of a project have deleted, and that they are over. */
async function settleInterrupted(clickhouse: ClickHouse, project: string): Promise<void> {
  const read = async () =>
    await clickhouse.rows<Record<keyof Note, string> & { age: string }>(
      `SELECT counter, revision, count, pending, left_query, date_diff('millisecond', noted_at, now64(3)) AS age
       FROM deleted_events FINAL WHERE project_id = {project:String} AND left_query != ''`,
      { project },
    )
  const found = await read()
  if (found.length === 0) return
  const youngest = Math.min(...found.map(({ age }) => Math.max(0, Number(age))))
  // A ledger that is less exact is better than a user who is not erased.
  if (!(await waitForDeletions(clickhouse, NOTED_MS - youngest))) return
  // A deletion that was not interrupted has ended by itself.
  for (const { counter, revision, count, pending, left_query } of await read()) {
    const deleted = Number(pending) - (await readCount(clickhouse, JSON.parse(left_query)))
    // The counter itself would write the same.
    const next = { counter, revision: Number(revision) + 1, count: Number(count) + deleted }
    await writeNote(clickhouse, project, { ...next, ...NOTHING })
  }
}

/** Waits until a server has carried out the deletions that it has after a pause. @returns false if they take too long */
async function waitForDeletions(clickhouse: ClickHouse, pauseMs: number): Promise<boolean> {
  await wait(Math.max(0, pauseMs))
  const began = performance.now()
  for (;;) {
    const ms = performance.now() - began
    const running = await clickhouse.rows(
      `SELECT 1 FROM system.processes
       WHERE current_database = currentDatabase() AND query_kind IN ('Delete', 'Alter') AND elapsed > {seconds:Float64}
       UNION ALL
       SELECT 1 FROM system.mutations
       WHERE database = currentDatabase() AND table = 'dead_letters' AND NOT is_done`,
      { seconds: ms / 1000 },
    )
    if (running.length === 0) return true
    if (ms > WAIT_LIMIT_MS) return false
    await wait(POLL_MS)
  }
}

/** The number of deleted events by project. */
export async function readDeletedOn(clickhouse: ClickHouse): Promise<Map<string, number>> {
  const rows = await clickhouse.rows<{ project: string; sum: string; left_query: string }>(
    `SELECT project_id AS project, sum(count + pending) AS sum, left_query
     FROM deleted_events FINAL GROUP BY project, left_query`,
  )
  const counts = new Map<string, number>()
  for (const { project, sum, left_query } of rows) {
    const left = left_query === '' ? 0 : await readCount(clickhouse, JSON.parse(left_query))
    counts.set(project, (counts.get(project) ?? 0) + Number(sum) - left)
  }
  return counts
}

async function readCount(clickhouse: ClickHouse, { query, parameters }: Count): Promise<number> {
  const [row] = await clickhouse.rows<{ count: string }>(query, parameters, {}, { limitMs: DELETE_LIMIT_MS })
  return Number(row?.count ?? 0)
}

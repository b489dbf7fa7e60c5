import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { ClickHouse } from '../clickhouse/client.js'
import { StoreError } from '../clickhouse/errors.js'
import { type Parameters, QueryParameters } from '../clickhouse/parameters.js'
import { DAY_MS } from '../contract/durations.js'
import { measureTime, readClocks, type Times } from '../lib/clocks.js'
import { oneAtATime } from '../lib/one-at-a-time.js'
import { insertRows } from './insert.js'

/** Time limit for deleting the events of one month, and for counting them. */
export const DELETE_LIMIT_MS = 110_000
/** A deletion reaches ClickHouse within this time after its note, ms, unless its process hangs. */
const NOTED_MS = 1_000
const POLL_MS = 100
/** How long a deletion waits for earlier ones, ms. */
const WAIT_LIMIT_MS = 30_000

/** Id of a project's counter that holds the sum of unused counters. */
const SUM = '00000000-0000-0000-0000-000000000000'
/** A counter counts as unused this long after its last note, ms. */
const LAST_USE_MS = DAY_MS
/** How many counters are summed at a time. */
const SUMMED = 1_000

/** A query that returns a number in its column `count`. */
interface Count {
  query: string
  parameters: Parameters
}

/** A deletion of events of a project on one server. */
export interface Deletion {
  /** number of events that exist and will be deleted */
  count: number
  /** counts those of them that still exist. It is stored until the deletion is settled, so it must not name users */
  left: Count
  /** @returns false if it deleted nothing, because another process was first */
  run(): Promise<unknown>
}

/** A row of `deleted_events`. */
interface Note {
  counter: string
  revision: number
  count: number
  pending: number
  left_query: string
}

/** Ids of the counters whose deletions this process is carrying out: their notes are not those of interrupted ones. */
const active = new Set<string>()
/**
 * Settles one note at a time. If two callers settled the same one, the first could go on to delete more events, and the
 * second would count those as deleted by the note.
 */
const inTurn = oneAtATime()

/**
 * Counts the events that are deleted on a server, for the ledger. A deletion is noted before it is carried out,
 * together with the query that counts the events it has not deleted yet. So the ledger is exact even if ClickHouse
 * refuses a deletion, or a process is killed at any step of it.
 *
 * Not promised: events are counted twice if they are deleted concurrently, or if a deletion is repeated after a kill
 * and still running half a minute later, or repeated immediately by another process that deletes single events. The ledger
 * reports such events as not received, without raising an alarm.
 *
 * A counter runs one deletion at a time. One that was unused for half a day is replaced, so that it can be summed.
 */
export class DeletionCounter {
  readonly #clickhouse: ClickHouse
  readonly #readTimes: () => Times
  /** by project: the counter's id, the number of deleted events, and the number and times of the last note */
  readonly #noted = new Map<string, { counter: string; count: number; revision: number; times: Times }>()

  constructor(clickhouse: ClickHouse, readTimes = readClocks) {
    this.#clickhouse = clickhouse
    this.#readTimes = readTimes
  }

  /**
   * Opens a counter after settling interrupted deletions, which may have counted the same events. Call this before
   * counting what will be deleted.
   * @param limitMs how long to wait for those that ClickHouse may still be carrying out; 0: leaves them unsettled
   */
  static async open(clickhouse: ClickHouse, projectId: string, limitMs = WAIT_LIMIT_MS): Promise<DeletionCounter> {
    await settleInterrupted(clickhouse, projectId, limitMs)
    return new DeletionCounter(clickhouse)
  }

  /**
   * Settles interrupted deletions like `open`, for a counter that remains open. It waits only the first time and after
   * its own deletion was interrupted: otherwise, one that ClickHouse may still be carrying out is another process's.
   */
  async settle(projectId: string): Promise<void> {
    await settleInterrupted(this.#clickhouse, projectId, this.#noted.has(projectId) ? 0 : WAIT_LIMIT_MS)
    this.#use(projectId)
  }

  /** Carries out a deletion, and counts it. @throws its error */
  async run(projectId: string, { count, left, run }: Deletion): Promise<void> {
    if (count === 0) return
    const counter = this.#use(projectId)
    active.add(counter)
    try {
      await this.#note(projectId, 0, { pending: count, left_query: JSON.stringify(left) })
      const isDone = (await run()) !== false
      await this.#settle(projectId, isDone ? count : 0)
    } catch (error) {
      // After a timeout or a lost connection, ClickHouse may still be deleting, so the note stays.
      const rest = error instanceof StoreError ? await readCount(this.#clickhouse, left).catch(() => null) : null
      if (rest === null) this.#noted.delete(projectId)
      else await this.#settle(projectId, count - rest)
      throw error
    } finally {
      active.delete(counter)
    }
  }

  /** If this fails, the note stays until a later deletion settles it, so this counter must not change it again. */
  async #settle(projectId: string, deleted: number): Promise<void> {
    await this.#note(projectId, deleted, NOTHING).catch(() => this.#noted.delete(projectId))
  }

  /** @returns the id of the project's counter, a new one if the old one may have been summed */
  #use(projectId: string): string {
    const times = this.#readTimes()
    const known = this.#noted.get(projectId)
    if (known && measureTime(known.times, times) <= LAST_USE_MS / 2) return known.counter
    const counter = randomUUID()
    this.#noted.set(projectId, { counter, count: 0, revision: 0, times })
    return counter
  }

  /** @param deleted number of events to add */
  async #note(projectId: string, deleted: number, pending: Pick<Note, 'pending' | 'left_query'>): Promise<void> {
    const noted = this.#noted.get(projectId)
    if (!noted) throw new Error(`no counter of ${projectId} is in use`)
    noted.count += deleted
    // Outranks the row of a process that took this deletion for an interrupted one, in whatever order they arrive.
    noted.revision += 2
    noted.times = this.#readTimes()
    const { counter, revision, count } = noted
    await writeNotes(this.#clickhouse, [{ project_id: projectId, counter, revision, count, ...pending }])
  }
}

const NOTHING = { pending: 0, left_query: '' }

async function writeNotes(clickhouse: ClickHouse, notes: (Note & { project_id: string })[]): Promise<void> {
  await insertRows(clickhouse, 'deleted_events', notes)
}

/**
 * Replaces the unused counters of a server by one sum for each project, after settling old interrupted deletions.
 * Otherwise each erasure would leave a row forever. Only one process may do this at a time.
 */
export async function sumDeletions(clickhouse: ClickHouse): Promise<void> {
  const interrupted = await clickhouse.rows<{ project: string }>(
    `SELECT DISTINCT project_id AS project FROM deleted_events FINAL
     WHERE left_query != '' AND noted_at < now64(3) - {age:UInt32}`,
    { age: LAST_USE_MS / 1000 },
  )
  for (const { project } of interrupted) await settleInterrupted(clickhouse, project, WAIT_LIMIT_MS)
  for (let count = SUMMED; count === SUMMED; ) count = await sumSome(clickhouse)
}

/** @returns how many counters were summed */
async function sumSome(clickhouse: ClickHouse): Promise<number> {
  const read = async (where: string, parameters: Parameters) =>
    await clickhouse.rows<{ project: string; counter: string; revision: string; count: string }>(
      `SELECT project_id AS project, counter, revision, count FROM deleted_events FINAL WHERE ${where}`,
      parameters,
    )
  const settled = await read(
    `counter != {sum:UUID} AND left_query = '' AND noted_at < now64(3) - {age:UInt32} LIMIT {limit:UInt32}`,
    { sum: SUM, age: LAST_USE_MS / 1000, limit: SUMMED },
  )
  if (settled.length === 0) return 0
  const projects = new QueryParameters()
  const isIn = `project_id IN ${projects.array([...new Set(settled.map(({ project }) => project))])}`
  const sums = await read(`counter = {sum:UUID} AND ${isIn}`, { ...projects.parameters, sum: SUM })
  const totals = new Map(sums.map((sum) => [sum.project, { revision: Number(sum.revision), count: Number(sum.count) }]))
  for (const { project, count } of settled) {
    const total = totals.get(project) ?? { revision: 0, count: 0 }
    totals.set(project, { ...total, count: total.count + Number(count) })
  }
  // In one INSERT, so that nothing is ever counted twice or left out.
  await writeNotes(clickhouse, [
    ...settled.map(({ project: project_id, counter, revision }) => {
      return { project_id, counter, revision: Number(revision) + 1, count: 0, ...NOTHING }
    }),
    ...[...totals].map(([project_id, { revision, count }]) => {
      return { project_id, counter: SUM, revision: revision + 1, count, ...NOTHING }
    }),
  ])
  // If the process is killed before this, the remaining counters are summed again later, as 0.
  const ids = new QueryParameters()
  const isSummed = `toString(counter) IN ${ids.array(settled.map(({ counter }) => counter))}`
  const settings = { mutations_sync: '1' }
  await clickhouse.command(`ALTER TABLE deleted_events DELETE WHERE ${isSummed}`, ids.parameters, settings)
  return settled.length
}

/**
 * Records how much the interrupted deletions of a project have deleted, and that they are over.
 * @param limitMs how long to wait for those that ClickHouse may still be carrying out; 0: leaves them unsettled
 */
async function settleInterrupted(clickhouse: ClickHouse, project: string, limitMs: number): Promise<void> {
  const read = async () => {
    const notes = await clickhouse.rows<Record<keyof Note, string> & { age: string }>(
      `SELECT counter, revision, count, pending, left_query, date_diff('millisecond', noted_at, now64(3)) AS age
       FROM deleted_events FINAL WHERE project_id = {project:String} AND left_query != ''`,
      { project },
    )
    return notes.filter(({ counter }) => !active.has(counter))
  }
  const found = (await read()).filter(({ age }) => Number(age) >= NOTED_MS - limitMs)
  if (found.length === 0) return
  const youngest = Math.min(...found.map(({ age }) => Math.max(0, Number(age))))
  // Do not wait any longer: an inexact ledger is better than a user who is not erased.
  if (!(await waitForDeletions(clickhouse, NOTED_MS - youngest, limitMs))) return
  const names = new Set(found.map(nameNote))
  await inTurn(async () => {
    // Read again: deletions that were not interrupted have settled their own notes, and may have begun others.
    for (const note of (await read()).filter((note) => names.has(nameNote(note)))) {
      const { counter, revision, count, pending, left_query } = note
      const deleted = Number(pending) - (await readCount(clickhouse, JSON.parse(left_query)))
      // If the process of the counter is alive after all, it knows better: its next revision is 2 higher.
      const next = { counter, revision: Number(revision) + 1, count: Number(count) + deleted }
      await writeNotes(clickhouse, [{ project_id: project, ...next, ...NOTHING }])
    }
  })
}

const nameNote = ({ counter, revision }: { counter: string; revision: string }) => `${counter} ${revision}`

/**
 * After a pause, waits until a server has carried out the deletions that it is running then.
 * @returns false if they take too long
 */
async function waitForDeletions(clickhouse: ClickHouse, pauseMs: number, limitMs: number): Promise<boolean> {
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
    if (ms >= limitMs) return false
    await wait(POLL_MS)
  }
}

/** The number of deleted events by project. */
export async function readDeletedOn(clickhouse: ClickHouse): Promise<Map<string, number>> {
  const rows = await clickhouse.rows<{ project: string; sum: string; notes: string; left_query: string }>(
    `SELECT project_id AS project, sum(count + pending) AS sum, count() AS notes, left_query
     FROM deleted_events FINAL GROUP BY project, left_query`,
  )
  const counts = new Map<string, number>()
  for (const { project, sum, notes, left_query } of rows) {
    const left = left_query === '' ? 0 : await readCount(clickhouse, JSON.parse(left_query))
    counts.set(project, (counts.get(project) ?? 0) + Number(sum) - left * Number(notes))
  }
  return counts
}

async function readCount(clickhouse: ClickHouse, { query, parameters }: Count): Promise<number> {
  const [row] = await clickhouse.rows<{ count: string }>(query, parameters, {}, { limitMs: DELETE_LIMIT_MS })
  return Number(row?.count ?? 0)
}

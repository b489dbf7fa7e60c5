import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { ClickHouse } from '../clickhouse/client.js'
import { orIfDenied, StoreError, StoreUnreachableError } from '../clickhouse/errors.js'
import { literalArray, type Parameters, QueryParameters } from '../clickhouse/parameters.js'
import { type Backoff, backoffMs } from '../lib/backoff.js'
import { hashName } from './fact-columns.js'
import type { ColumnSource } from './fact-values.js'
import { insertRows } from './insert.js'

/** What a change affects: events of a project on one shard, or only their facts. */
export type ChangeScope =
  | { kind: 'events'; ids: string[] }
  /** all events of these users, by their hashes */
  | { kind: 'users'; users: string[] }
  /** the events that were accepted in a month, such as 202611: those before a time (epoch ms), or all */
  | { kind: 'month'; month: string; before: number | null }
  /** an entry that was stored late; its events have ids from `first` to `last` */
  | { kind: 'entry'; first: string; last: string }
  /** deleted entries, by the ids of their first events */
  | { kind: 'entry'; deleted: string[] }
  /**
   * no events, but session calls that were stored out of order or will leave the disk: calls of these sessions
   * (hashes), or of any (null). If there is no project, all session facts are filled again
   */
  | { kind: 'calls'; keys: string[] | null }
  /** no events, but session calls last changed before a time (epoch ms) are deleted */
  | { kind: 'calls'; before: number }
  /**
   * no events: an operator has the facts of all projects rebuilt, or one project excluded from the facts or included
   * again
   */
  | { kind: 'rebuild' | 'leave_out' | 'take_in' }
  /** no events: frequently asked values get a column in the facts */
  | { kind: 'column'; source: ColumnSource }

/** A change that facts have to follow. */
export interface EventChange {
  id: string
  projectId: string
  scope: ChangeScope
  /** whether its process has reported that it has ended */
  hasEnded: boolean
  /** whether its further statements fail; those that have begun may still finish */
  isAbandoned: boolean
}

const POLL_MS = 50
const BEGUN = 0
/** The state of a change whose further statements fail; those that ClickHouse has begun may still finish. */
export const ABANDONED = 1
/** The state of a change that has ended. */
export const ENDED = 2
/** The state of a change that facts have followed. */
export const SETTLED = 3
/**
 * SQL for whether the log has a change as begun and nothing later. False also for a change that was removed from the log
 * after it was settled.
 */
const IS_BEGUN = `count() > 0 AND max(state) = ${BEGUN}`
/** Evaluated before ClickHouse plans a statement, so that an abandoned one fails even if it would find no events. */
const FENCE = `(SELECT throwIf(NOT (${IS_BEGUN}), 'This change of events took too long.') = 0
  FROM event_changes WHERE id = {change:UUID})`
/**
 * How long logging the end of an edit waits for the start of the next one, ms. A question may have to wait for the same
 * time.
 */
const END_DELAY_MS = 20
/** How long `close` waits until the ends of all changes are logged, ms. */
const CLOSE_MS = 2_000
/** Pauses between attempts to record that a change is over, while ClickHouse does not respond. */
const BACKOFF: Backoff = { firstMs: 500, maxMs: 10_000 }
const MAX_NOTES = 20

/** The events that a change affects, by project. */
type Scopes = ReadonlyMap<string, ChangeScope>

/** A change that is being carried out. */
export interface RunningChange {
  /** a condition for its statements: they fail once the change is abandoned */
  fence: string
  parameters: Parameters
  /** to be called if ClickHouse may still be running a statement of the change when `run` ends */
  abandon(): void
  /** reports which of the announced events were actually changed */
  narrow(scopes: Scopes): void
}

type RunChange<T> = (change: RunningChange) => Promise<T>

/**
 * Runs a change of stored events that is logged before it begins and when it has ended. From its beginning until facts
 * have followed it, questions of the project read `events`. Every UPDATE and DELETE needs the fence, because the copier
 * abandons a change that takes too long; an INSERT cannot have one.
 * @param scopes by project: the events that may change
 * @throws the error of the log, before anything changed, or of `run`; StoreError if it was abandoned
 */
export async function logChange<T>(clickhouse: ClickHouse, scopes: Scopes, run: RunChange<T>): Promise<T> {
  const change = new LoggedChange(scopes, (rows) => writeNotes(clickhouse, rows))
  await change.begin()
  try {
    return await change.run(run)
  } finally {
    await change.end(async () => {
      const sql = `SELECT 1 FROM event_changes WHERE id = {id:UUID} HAVING ${IS_BEGUN}`
      return (await clickhouse.rows(sql, { id: change.id })).length > 0
    })
  }
}

/**
 * Logs changes of one shard that follow one another, as edits do. For its caller, a change is over when `run` returns.
 * Its end is logged afterwards: by the INSERT that begins the next change, or soon after if there is none. Until then
 * the facts stay closed, so a question that begins after the change sees it. If the process dies before that, the
 * copier abandons the change.
 */
export class ChangeLog {
  readonly #clickhouse: ClickHouse
  readonly #ended: { rows: NoteRow[]; resolve(): void; reject(error: unknown): void }[] = []
  readonly #ending = new Set<Promise<void>>()
  #timer: NodeJS.Timeout | undefined

  constructor(clickhouse: ClickHouse) {
    this.#clickhouse = clickhouse
  }

  /** Like `logChange`, but does not wait until the end is logged. Every statement needs the fence. */
  async run<T>(scopes: Scopes, run: RunChange<T>): Promise<T> {
    const change = new LoggedChange(scopes, (rows) => this.#noteSoon(rows))
    await change.begin((rows) => this.#write(rows))
    try {
      return await change.run(run)
    } finally {
      const ending = change.end()
      this.#ending.add(ending)
      void ending.finally(() => this.#ending.delete(ending))
    }
  }

  /** Logs the remaining ends, within 2 s. */
  async close(): Promise<void> {
    void this.#write([]).catch(() => undefined)
    await Promise.race([Promise.all(this.#ending), wait(CLOSE_MS, undefined, { ref: false })])
  }

  #noteSoon(rows: NoteRow[]): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#ended.push({ rows, resolve, reject })
      // The caller of `end` gets the error.
      this.#timer ??= setTimeout(() => void this.#write([]).catch(() => undefined), END_DELAY_MS)
    })
  }

  /** Writes these notes together with the waiting ones. */
  async #write(rows: NoteRow[]): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const ended = this.#ended.splice(0)
    try {
      await writeNotes(this.#clickhouse, [...ended.flatMap((one) => one.rows), ...rows])
    } catch (error) {
      for (const { reject } of ended) reject(error)
      throw error
    }
    for (const { resolve } of ended) resolve()
  }
}

/** A row of `event_changes`. */
interface NoteRow {
  project_id: string
  id: string
  kind: ChangeScope['kind']
  scope: string
  state: number
}

type Write = (rows: NoteRow[]) => Promise<void>

async function writeNotes(clickhouse: ClickHouse, rows: readonly NoteRow[]): Promise<void> {
  await insertRows(clickhouse, 'event_changes (project_id, id, kind, scope, state)', rows)
}

/** Logs a change that concerns only facts, for the leader to follow. */
async function request(clickhouse: ClickHouse, project_id: string, { kind, ...scope }: ChangeScope): Promise<void> {
  await writeNotes(clickhouse, [{ project_id, id: randomUUID(), kind, scope: JSON.stringify(scope), state: ENDED }])
}

/** A running change and its entries in the log. */
class LoggedChange {
  readonly id = randomUUID()
  readonly #write: Write
  #scopes: Scopes
  #state = ENDED

  constructor(scopes: Scopes, write: Write) {
    this.#scopes = scopes
    this.#write = write
  }

  async begin(write = this.#write): Promise<void> {
    await write(this.#rows(this.id, BEGUN))
  }

  async run<T>(run: RunChange<T>): Promise<T> {
    const abandon = () => {
      this.#state = ABANDONED
    }
    const narrow = (scopes: Scopes) => {
      this.#scopes = scopes
    }
    try {
      return await run({ fence: FENCE, parameters: { change: this.id }, abandon, narrow })
    } catch (error) {
      // After a timeout or a lost connection, ClickHouse may still be running the statement.
      if (!(error instanceof StoreError)) abandon()
      throw error
    }
  }

  /**
   * Logs that it has ended; keeps trying in the background if ClickHouse does not respond.
   * @param isBegun whether the log has it as begun. If not, facts may have followed it before a statement without the
   *   fence, so it is logged as another change
   */
  async end(isBegun = async () => true): Promise<void> {
    const note = async () => {
      const id = (await isBegun()) ? this.id : randomUUID()
      await this.#write(this.#rows(id, this.#state))
    }
    await note().catch(() => void retryInBackground(note))
  }

  #rows(id: string, state: number): NoteRow[] {
    return Array.from(this.#scopes, ([project_id, { kind, ...scope }]) => {
      // If none of the events existed, there is nothing for the facts to follow.
      const hasNone = 'ids' in scope && scope.ids.length === 0
      return { project_id, id, kind, scope: JSON.stringify(scope), state: hasNone ? SETTLED : state }
    })
  }
}

/** Retries a note in the background. If it never succeeds, the copier finds out later that the change is over. */
async function retryInBackground(note: () => Promise<void>): Promise<void> {
  for (let attempt = 1; attempt < MAX_NOTES; attempt++) {
    await wait(backoffMs(BACKOFF, attempt), undefined, { ref: false })
    const isNoted = await note().then(
      () => true,
      () => false,
    )
    if (isNoted) return
  }
}

/** Requests a change that concerns only facts. @param projectId empty: all projects */
export async function requestFacts(
  clickhouse: ClickHouse,
  kind: 'rebuild' | 'leave_out' | 'take_in',
  projectId: string,
): Promise<void> {
  if (kind !== 'rebuild') {
    await clickhouse.command(
      `INSERT INTO facts_left_out SELECT {project:String}, {kind:String} = 'leave_out', max(version) + 1
       FROM facts_left_out WHERE project_id = {project:String}`,
      { project: projectId, kind },
    )
  }
  await request(clickhouse, projectId, { kind })
}

/** Requests that session facts of these calls are filled again, if there are any. @param scope as in ChangeScope */
export async function noteCalls(
  clickhouse: ClickHouse,
  projectId: string,
  scope: { keys: string[] | null } | { before: number },
): Promise<void> {
  await request(clickhouse, projectId, { kind: 'calls', ...scope })
}

/** Requests a column of facts with these values. */
export async function requestColumn(clickhouse: ClickHouse, source: ColumnSource): Promise<void> {
  await request(clickhouse, '', { kind: 'column', source })
}

/** The projects that are not copied. */
export async function readLeftOut(clickhouse: ClickHouse): Promise<Set<string>> {
  const rows = await clickhouse.rows<{ project: string }>(
    'SELECT project_id AS project FROM facts_left_out FINAL WHERE is_left_out = 1',
  )
  return new Set(rows.map(({ project }) => project))
}

/** The hashes of users, as facts have them. */
export async function hashUsers(clickhouse: ClickHouse, distinctIds: string[]): Promise<string[]> {
  const fields = new QueryParameters()
  const [row] = await clickhouse.rows<{ users: string[] }>(
    `SELECT arrayMap(name -> toString(${hashName('name')}), ${fields.array(distinctIds)}) AS users`,
    fields.parameters,
  )
  return row?.users ?? []
}

/** How many changes are read at a time, and bytes of their scopes: after an outage of days, all would need GBs. */
const READ_TOGETHER = { changes: 2_000, bytes: 16 * 1024 * 1024 }

/**
 * The first changes of a shard that facts have not followed yet, in the order in which they were logged.
 * @param except leaves out the changes of these projects
 */
export async function readOpenChanges(
  clickhouse: ClickHouse,
  except: readonly string[] = [],
  limit = READ_TOGETHER,
): Promise<EventChange[]> {
  const rows = await clickhouse.rows<{
    project: string
    id: string
    kind: ChangeScope['kind']
    scope: string
    state: number
  }>(
    `SELECT project_id AS project, toString(id) AS id, kind, scope, state FROM (
       SELECT *, sum(length(scope)) OVER earlier AS bytes, row_number() OVER earlier AS number FROM (
         SELECT * FROM event_changes FINAL WHERE state < ${SETTLED} AND project_id NOT IN ${literalArray(except)}
         ORDER BY noted_at, id LIMIT ${limit.changes}
       ) WINDOW earlier AS (ORDER BY noted_at, id ROWS UNBOUNDED PRECEDING)
     ) WHERE number = 1 OR bytes <= ${limit.bytes} ORDER BY number`,
  )
  return rows.map(({ project, id, kind, scope, state }) => ({
    id,
    projectId: project,
    scope: { kind, ...JSON.parse(scope) } as ChangeScope,
    hasEnded: state === ENDED,
    isAbandoned: state === ABANDONED,
  }))
}

/** How long followed changes stay in the working log, s: questions that began before them run again anyway. */
const KEPT_S = 600
/** How long ClickHouse may take to remove them, s, before that counts as a failure. */
const REMOVAL_S = 3_600
/**
 * The kind of a note that changes of a project were forgotten. Each has a new id, so the ids of a project's changes are
 * never again the same as before, by which questions notice changes.
 */
const FORGOTTEN = 'forgotten'

/**
 * Removes changes that facts followed a while ago from the working log, which keeps it short for questions.
 * `event_change_log` still has them.
 */
export async function forgetSettledChanges(clickhouse: ClickHouse): Promise<void> {
  const [old] = await clickhouse.rows<{ before: string }>(
    `SELECT toUnixTimestamp64Milli(now64(3)) - 1000 * ${KEPT_S} AS before FROM event_changes
     WHERE state = ${SETTLED} AND noted_at < now64(3) - ${KEPT_S} AND kind != '${FORGOTTEN}' LIMIT 1`,
  )
  if (!old) return
  // If ClickHouse is busy with merges, earlier removals may not have ended: more of them would only pile up.
  const removals = clickhouse.rows<{ failed: number }>(
    `SELECT max(latest_fail_reason != '' OR create_time < now() - ${REMOVAL_S}) AS failed FROM system.mutations
     WHERE database = currentDatabase() AND table = 'event_changes' AND NOT is_done HAVING count() > 0`,
  )
  const [earlier] = await orIfDenied(removals, [])
  if (earlier?.failed === 1) throw new Error('an earlier removal fails or does not end: see system.mutations')
  if (earlier) return
  const cutoff = `fromUnixTimestamp64Milli(toInt64(${Number(old.before)}))`
  const isOld = `state = ${SETTLED} AND noted_at < ${cutoff}`
  await clickhouse.command(
    `INSERT INTO event_changes (project_id, id, kind, scope, state)
     SELECT project, generateUUIDv4(), '${FORGOTTEN}', '', ${SETTLED} FROM (
       SELECT DISTINCT project_id AS project FROM event_changes WHERE ${isOld} AND kind != '${FORGOTTEN}'
     )`,
  )
  const renoted = `SELECT project_id FROM event_changes WHERE kind = '${FORGOTTEN}' AND noted_at >= ${cutoff}`
  const isGone = `${isOld} AND project_id IN (${renoted})`
  // Edits of several projects share an id.
  const ofGone = `state < ${SETTLED} AND (project_id, id) IN (SELECT project_id, id FROM event_changes WHERE ${isGone})`
  // The order matters: a change without its last row would be open again.
  for (const rows of [ofGone, isGone]) {
    await clickhouse.command(`ALTER TABLE event_changes DELETE WHERE ${rows}`, {}, { mutations_sync: '2' })
  }
}

/**
 * Waits until facts have followed every change that was logged before the call, if the store has ever had facts. That
 * includes changes that may still be running, because they may have deleted events, too.
 * @throws StoreUnreachableError if that takes longer than `limitMs`
 */
export async function waitForFacts(clickhouse: ClickHouse, limitMs: number, signal: AbortSignal): Promise<void> {
  const leaders = await clickhouse.rows('SELECT 1 FROM facts_state LIMIT 1')
  if (leaders.length === 0) return
  const readIds = async () => {
    const open = `SELECT toString(id) AS text FROM event_changes FINAL WHERE state < ${SETTLED}`
    return (await clickhouse.rows<{ text: string }>(open)).map(({ text }) => text)
  }
  const deadline = performance.now() + limitMs
  for (let left = await readIds(); left.length > 0; ) {
    if (performance.now() > deadline) {
      throw new StoreUnreachableError('facts have not followed all deletions yet')
    }
    await wait(POLL_MS, undefined, { signal })
    const open = new Set(await readIds())
    left = left.filter((id) => open.has(id))
  }
}

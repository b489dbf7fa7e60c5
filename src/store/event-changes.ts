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
  /** whether its further statements have no effect; those that have begun may still finish */
  isAbandoned: boolean
  /** time since it was logged or abandoned by the server's clock, ms */
  ageMs: number
}

const POLL_MS = 50
const BEGUN = 0
/** The state of a change whose further statements have no effect; those that ClickHouse has begun may still finish. */
export const ABANDONED = 1
/** The state of a change that has ended. */
export const ENDED = 2
/** The state of a change that facts have followed. */
export const SETTLED = 3
/** If a change takes longer than this, it checks at its end whether it was abandoned, ms. */
const SUSPICIOUS_MS = 3_000
/**
 * After this time, the fence stops every new statement of an abandoned change, ms. Before that, a statement may begin
 * while the abandonment is being stored.
 */
export const FENCE_DELAY_MS = 1_000
/** Text that every statement of a change of kind `events` contains. */
export const FENCED = 'FROM event_changes WHERE id ='
const FENCE = `(SELECT count() > 0 AND max(state) = ${BEGUN} ${FENCED} {change:UUID})`
/**
 * How long logging the end of an edit waits for the start of the next one, ms. A question may have to wait for the same
 * time.
 */
const END_DELAY_MS = 20
/** How long `close` waits for all ends to be logged, ms. */
const CLOSE_MS = 2_000
/** Pauses between attempts to record that a change is over, while ClickHouse does not respond. */
const BACKOFF: Backoff = { firstMs: 500, maxMs: 10_000 }
const MAX_NOTES = 20

/** The events that a change affects, by project. */
type Scopes = ReadonlyMap<string, ChangeScope>

/** A change that is being carried out. */
export interface RunningChange {
  /** a condition for each of its statements: they have no effect once the change is abandoned */
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
 * have followed it, questions of the project read `events`. @param scopes by project: the events that may change. Every
 * statement of a change of kind `events` must contain the fence, because the copier abandons such a change if its
 * process does not end it within seconds. It abandons other kinds after minutes; if an abandoned change ends later, it
 * is logged again.
 * @throws the error of the log, before anything changed, or of `run`; StoreUnreachableError if one of kind `events` was
 * abandoned
 */
export async function logChange<T>(clickhouse: ClickHouse, scopes: Scopes, run: RunChange<T>): Promise<T> {
  const change = new LoggedChange(clickhouse, scopes, (rows) => writeNotes(clickhouse, rows))
  await change.begin()
  try {
    return await change.run(run)
  } finally {
    await change.end()
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

  /** Like `logChange`, but does not wait until the end is logged. */
  async run<T>(scopes: Scopes, run: RunChange<T>): Promise<T> {
    const change = new LoggedChange(this.#clickhouse, scopes, (rows) => this.#noteSoon(rows))
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
  readonly #clickhouse: ClickHouse
  readonly #id = randomUUID()
  readonly #write: Write
  #scopes: Scopes
  #state = ENDED
  #began = 0
  #wasAbandoned = false

  constructor(clickhouse: ClickHouse, scopes: Scopes, write: Write) {
    this.#clickhouse = clickhouse
    this.#scopes = scopes
    this.#write = write
  }

  async begin(write = this.#write): Promise<void> {
    this.#began = performance.now()
    await write(this.#rows(this.#id, BEGUN))
  }

  async run<T>(run: RunChange<T>): Promise<T> {
    const abandon = () => {
      this.#state = ABANDONED
    }
    const narrow = (scopes: Scopes) => {
      this.#scopes = scopes
    }
    try {
      const result = await run({ fence: FENCE, parameters: { change: this.#id }, abandon, narrow })
      if ([...this.#scopes.values()].some(({ kind }) => kind === 'events')) await this.#look()
      if (this.#wasAbandoned) throw new StoreUnreachableError('A change of events took too long.')
      return result
    } catch (error) {
      // After a timeout or a lost connection, ClickHouse may still be running the statement.
      if (!(error instanceof StoreError)) abandon()
      throw error
    }
  }

  /** Logs that it has ended; keeps trying in the background if ClickHouse does not respond. */
  async end(): Promise<void> {
    await this.#end().catch(() => void retryInBackground(() => this.#end()))
  }

  async #end(): Promise<void> {
    await this.#look()
    const looked = performance.now()
    await this.#write(this.#rows(this.#id, this.#state))
    // The facts may have followed the change before it was over.
    if (this.#wasAbandoned || performance.now() - looked > FENCE_DELAY_MS)
      await this.#write(this.#rows(randomUUID(), this.#state))
  }

  /** Looks whether the copier took this process for dead, so that the change's statements may have had no effect. */
  async #look(): Promise<void> {
    const isSuspicious = this.#scopes.size > 0 && performance.now() - this.#began > SUSPICIOUS_MS
    if (this.#wasAbandoned || !isSuspicious) return
    // A change that was settled long ago is forgotten.
    const begun = await this.#clickhouse.rows(`SELECT 1 WHERE ${FENCE}`, { change: this.#id })
    this.#wasAbandoned = begun.length === 0
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

/**
 * The changes of a shard that facts have not followed yet, in the order in which they were logged.
 * @param except leaves out the changes of these projects
 */
export async function readOpenChanges(clickhouse: ClickHouse, except: readonly string[] = []): Promise<EventChange[]> {
  const rows = await clickhouse.rows<{
    project: string
    id: string
    kind: ChangeScope['kind']
    scope: string
    state: number
    age: string
  }>(
    `SELECT project_id AS project, toString(id) AS id, kind, scope, state, date_diff('millisecond', noted_at, now64(3)) AS age
     FROM event_changes FINAL WHERE state < ${SETTLED} AND project_id NOT IN ${literalArray(except)} ORDER BY noted_at`,
  )
  return rows.map(({ project, id, kind, scope, state, age }) => ({
    id,
    projectId: project,
    scope: { kind, ...JSON.parse(scope) } as ChangeScope,
    hasEnded: state === ENDED,
    isAbandoned: state === ABANDONED,
    ageMs: Number(age),
  }))
}

/** How long followed changes stay in the working log, s, because running questions compare with it. */
const KEPT_S = 600

/**
 * Removes changes that facts followed a while ago from the working log, which keeps it short for questions.
 * `event_change_log` still has them.
 */
export async function forgetSettledChanges(clickhouse: ClickHouse): Promise<void> {
  const [old] = await clickhouse.rows<{ before: string }>(
    `SELECT toUnixTimestamp64Milli(now64(3)) - 1000 * ${KEPT_S} AS before FROM event_changes
     WHERE state = ${SETTLED} AND noted_at < now64(3) - ${KEPT_S} LIMIT 1`,
  )
  if (!old) return
  // If ClickHouse is busy with merges, earlier removals may not have ended: more of them would only pile up.
  const removals = clickhouse.rows(
    `SELECT 1 FROM system.mutations
     WHERE database = currentDatabase() AND table = 'event_changes' AND NOT is_done LIMIT 1`,
  )
  if ((await orIfDenied(removals, [])).length > 0) return
  const isOld = `state = ${SETTLED} AND noted_at < fromUnixTimestamp64Milli(toInt64(${Number(old.before)}))`
  // The order matters: a change without its last row would be open again.
  for (const rows of [`state < ${SETTLED} AND id IN (SELECT id FROM event_changes WHERE ${isOld})`, isOld]) {
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
  const deadline = performance.now() + limitMs
  for (let left = await readOpenChanges(clickhouse); left.length > 0; ) {
    if (performance.now() > deadline) {
      throw new StoreUnreachableError('facts have not followed all deletions yet')
    }
    await wait(POLL_MS, undefined, { signal })
    const open = new Set((await readOpenChanges(clickhouse)).map(({ id }) => id))
    left = left.filter(({ id }) => open.has(id))
  }
}

import type { ClickHouse } from '../clickhouse/client.js'
import { findUnreadablePart, isTimeout, orIfDenied, StoreError } from '../clickhouse/errors.js'
import {
  type ClickHouseSettings,
  literal,
  literalArray,
  type Parameters,
  QueryParameters,
} from '../clickhouse/parameters.js'
import { DAY_MS } from '../contract/durations.js'
import { DELETE_LIMIT_MS } from './deleted-events.js'
import { ENDED, noteCalls } from './event-changes.js'
import { FACTS_COMMENT } from './fact-backlog.js'
import { toDay } from './fact-columns.js'
import { STILL_LEADS } from './fact-points.js'
import { findFirstDay, SESSION_FACT_COLUMNS, type SessionDay, type SessionFactsMaker } from './session-facts.js'

/** UTC days as numbers since 1970, from `first` up to `last`. */
export interface DayRange {
  first: number
  last: number
}

/** The data from which a range of days is filled. */
export interface SessionSource {
  maker: SessionFactsMaker
  /** all facts of steps up to this one have been copied */
  step: number
  /** all rows of `sessions` up to this version are stored, unless a change of calls is logged */
  calls: string
  repairsTexts: boolean
}

/** Runs a statement only while this process leads; see FactLead. */
type Change = (statement: string, parameters?: Parameters, settings?: ClickHouseSettings) => Promise<void>

/**
 * Filling a day reads events from one day before it to two days after it. So a fact can affect the sessions that start
 * from two days before its own day to one day after.
 */
const WINDOW = { before: 1, after: 2 }
/** Numbers of fills are ordered by epoch, as versions of `facts_state` are. */
const FILLS_OF_EPOCH = 2n ** 32n
/** Limits of a fill. If it exceeds them, the next fills are smaller; a single day that is too large gets no rows. */
const FILL_LIMITS: ClickHouseSettings = {
  max_execution_time: 60,
  max_memory_usage: String(1024 ** 3),
  // A day of more than a million events needs more memory to group its sessions.
  max_bytes_before_external_group_by: String(640 * 1024 ** 2),
}
/** For TRUNCATE: by default, ClickHouse refuses to empty a table of more than 50 GB. */
export const ANY_SIZE = { max_table_size_to_drop: '0' } as ClickHouseSettings
/** Maximum number of pairs of fill and day whose rows one statement deletes. */
const DELETED_TOGETHER = 2_000

/**
 * SELECT of all rows of `session_fact_days` with the time at which they were superseded or voided; null for current
 * ones. The earliest time counts, in case the clock was set back: a voiding row must not be removed before the rows
 * that it voids.
 */
const ALL_DAYS = `SELECT project_id, definition, day, fill, step,
  multiIf(count() OVER later > 0, toNullable(min(noted_at) OVER later), step = 0, noted_at, NULL) AS ended_at
  FROM session_fact_days
  WINDOW later AS (
    PARTITION BY project_id, definition, day ORDER BY fill ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
  )`

/**
 * The days with rows in `session_facts`, which the leader of the facts maintains. A day is noted once its rows are
 * stored, and voided before any of the facts that they depend on changes.
 */
export class SessionDays {
  readonly #clickhouse: ClickHouse
  readonly #change: Change
  readonly #assertLeads: () => Promise<void>
  readonly #epoch: number
  #fills = 0n
  #voids = 0
  /** whether there may be rows of fills that were not noted, such as those of an earlier leader */
  #mayHaveOrphans = true
  /** projects that may have days or rows; only the leader adds any */
  readonly #projects = new Set<string>()

  /**
   * @param lead `change` runs a statement that has no effect in a later epoch; `assertLeads` is called before
   *   statements without that check
   */
  constructor(clickhouse: ClickHouse, lead: { epoch: number; change: Change; assertLeads(): Promise<void> }) {
    this.#clickhouse = clickhouse
    this.#change = lead.change
    this.#assertLeads = lead.assertLeads
    this.#epoch = lead.epoch
  }

  /** Projects that may have days or rows. */
  get projects(): readonly string[] {
    return [...this.#projects]
  }

  /** Counts the calls that may have voided days. */
  get voids(): number {
    return this.#voids
  }

  /**
   * Finds the projects that have days or rows. Rows without days are from before ClickHouse last started, or from an
   * unfinished fill.
   */
  async load(): Promise<void> {
    for (const project of await this.#listProjects('session_fact_days')) this.#projects.add(project)
    const withRows = await this.#orDiscard(() => this.#listProjects('session_facts'), [])
    if (this.#projects.size === 0 && withRows.length > 0) await this.#truncate()
    else for (const project of withRows) this.#projects.add(project)
  }

  async #listProjects(table: string): Promise<string[]> {
    const query = `SELECT DISTINCT project_id AS project FROM ${table}`
    const rows = await this.#clickhouse.rows<{ project: string }>(query, {}, {}, { limitMs: DELETE_LIMIT_MS })
    return rows.map(({ project }) => project)
  }

  /** Forgets all days and removes all rows, because the facts were rebuilt. */
  async clear(): Promise<void> {
    this.#voids++
    await this.#change('ALTER TABLE session_fact_days DELETE WHERE 1')
    await this.#truncate()
    this.#projects.clear()
  }

  async #truncate(): Promise<void> {
    await this.#assertLeads()
    // The next leader waits until this statement has ended.
    const settings = { ...ANY_SIZE, log_comment: FACTS_COMMENT }
    await this.#clickhouse.command('TRUNCATE TABLE session_facts', {}, settings, DELETE_LIMIT_MS)
    // It cannot check the epoch, so it may have removed the rows of a later leader, which has to fill them again.
    await this.#assertLeads().catch(async (error: unknown) => {
      await noteCalls(this.#clickhouse, '', { keys: null })
      throw error
    })
  }

  /**
   * Deletes rows. If ClickHouse cannot (a part is unreadable, or the disk has no room for another one) or not in time
   * (it is busy with merges), removes all rows; they are filled again.
   */
  async #delete(which: string): Promise<void> {
    try {
      await this.#change(`ALTER TABLE session_facts DELETE WHERE ${which}`, {}, { mutations_sync: '2' })
    } catch (error) {
      if (!(error instanceof StoreError) && !isTimeout(error)) throw error
      await this.discard()
    }
  }

  /**
   * Has ClickHouse delete rows that are no longer read, in the background. If an earlier deletion has failed, removes all
   * rows, as above.
   */
  async #deleteLater(which: string): Promise<void> {
    const removals = this.#clickhouse.rows<{ failed: number }>(
      `SELECT max(latest_fail_reason != '') AS failed FROM system.mutations
       WHERE database = currentDatabase() AND table = 'session_facts' AND NOT is_done HAVING count() > 0`,
    )
    const earlier = await orIfDenied(removals, [])
    if (earlier[0]?.failed === 1) await this.discard()
    if (earlier.length > 0) return
    await this.#change(`ALTER TABLE session_facts DELETE WHERE ${which}`, {}, { mutations_sync: '0' })
  }

  /** Removes all rows. Running questions may be reading them, so a change of each project is logged first. */
  async discard(): Promise<void> {
    await this.#void('1')
    await this.#change(
      `INSERT INTO event_changes (project_id, id, kind, scope, state)
       SELECT project, generateUUIDv4(), 'calls', '{"keys":null}', ${ENDED}
       FROM (SELECT arrayJoin(${literalArray([...this.#projects])}) AS project) WHERE ${STILL_LEADS}`,
    )
    await this.#truncate()
  }

  /** Fills some days, and notes them. */
  async fill(projectId: string, { first, last }: DayRange, source: SessionSource): Promise<void> {
    const { maker, step, calls, repairsTexts } = source
    const range = { from: first * DAY_MS, to: (last + 1) * DAY_MS, step, repairsTexts }
    const { definition, sql, parameters, settings } = await maker.select(projectId, range)
    const fill = this.#nextFill()
    const given: Record<string, string> = {
      project_id: literal(projectId),
      definition: `toUInt64('${BigInt(definition)}')`,
      fill: `toUInt64('${fill}')`,
    }
    this.#projects.add(projectId)
    this.#mayHaveOrphans = true
    const selected = SESSION_FACT_COLUMNS.map((name) => (name in given ? `${given[name]} AS ${name}` : name))
    await this.#change(
      `INSERT INTO session_facts (${SESSION_FACT_COLUMNS.join(', ')})
       SELECT ${selected.join(', ')} FROM (${sql}) WHERE ${STILL_LEADS}`,
      parameters,
      { ...settings, ...FILL_LIMITS },
    )
    await this.#change(
      `INSERT INTO session_fact_days (project_id, definition, day, fill, step, calls)
       SELECT ${given.project_id}, ${given.definition}, toDate32(arrayJoin(range(${first}, ${last + 1}))), ${given.fill},
         ${step}, toUInt64('${BigInt(calls)}')
       WHERE ${STILL_LEADS}`,
    )
  }

  /** Voids all days whose sessions may include events of these days. @param days by project */
  async voidAround(days: ReadonlyMap<string, Iterable<number>>): Promise<void> {
    const conditions = Array.from(days)
      .filter(([projectId]) => this.#projects.has(projectId))
      .map(([projectId, some]) => matchDays(projectId, widen(some)))
    if (conditions.length > 0) await this.#void(conditions.join(' OR '))
  }

  /** Like `voidAround`, for the days of matching events. @param facts condition on columns of `event_facts` */
  async voidFacts(projectId: string, facts: string, parameters: Parameters): Promise<void> {
    if (!this.#projects.has(projectId)) return
    const days = widen(await this.#find('event_facts', facts, parameters))
    if (days.length > 0) await this.#void(matchDays(projectId, days))
  }

  /** Voids the matching days of a project. @param which condition on columns of `session_fact_days` */
  async void(projectId: string, which = '1'): Promise<void> {
    if (!this.#projects.has(projectId)) return
    const matching = `project_id = ${literal(projectId)} AND ${which}`
    const found = await this.#clickhouse.rows(`SELECT 1 FROM session_fact_days WHERE ${matching} AND step > 0 LIMIT 1`)
    if (found.length > 0) await this.#void(matching)
  }

  /** Voids the days whose sessions may include calls that were last changed before a time, epoch ms. */
  async expire(projectId: string, before: number): Promise<void> {
    await this.void(projectId, `toInt32(day) < ${findFirstDay(before)}`)
  }

  /**
   * Voids the days whose sessions may include matching events or calls of these users, and removes their rows from the
   * disk.
   * @param facts condition on columns of `event_facts`
   * @param users their hashes
   */
  async erase(
    projectId: string,
    { facts, parameters, users = [] }: { facts: string; parameters: Parameters; users?: readonly string[] },
  ): Promise<void> {
    if (!this.#projects.has(projectId)) return
    const days = new Set(widen(await this.#find('event_facts', facts, parameters)))
    if (users.length > 0) {
      const fields = new QueryParameters()
      const isOne = `IN CAST(${fields.array([...users])}, 'Array(UInt64)')`
      const byUser = `project_id = ${fields.text(projectId)} AND (user ${isOne} OR caller ${isOne})`
      for (const day of await this.#findOwn(byUser, fields.parameters)) days.add(day)
    }
    await this.#erase(projectId, [...days])
  }

  /** Like `erase`, for sessions of the session calls. @param keys hashes of the sessions; null: all of the project */
  async eraseCalls(projectId: string, keys: readonly string[] | null): Promise<void> {
    if (!this.#projects.has(projectId)) return
    if (keys === null) {
      await this.void(projectId)
      await this.#delete(`project_id = ${literal(projectId)}`)
      return
    }
    const fields = new QueryParameters()
    const which = `project_id = ${fields.text(projectId)} AND key IN CAST(${fields.array([...keys])}, 'Array(UInt64)')`
    await this.#erase(projectId, await this.#findOwn(which, fields.parameters))
  }

  async #erase(projectId: string, days: readonly number[]): Promise<void> {
    if (days.length === 0) return
    const which = matchDays(projectId, days)
    await this.#void(which)
    await this.#delete(which)
  }

  /** The days of matching rows; none if ClickHouse could not read the rows, so that all were removed. */
  async #findOwn(which: string, parameters: Parameters): Promise<number[]> {
    return await this.#orDiscard(() => this.#find('session_facts', which, parameters), [])
  }

  async #orDiscard<T>(read: () => Promise<T>, otherwise: T): Promise<T> {
    try {
      return await read()
    } catch (error) {
      if (findUnreadablePart(error)?.table !== 'session_facts') throw error
      await this.discard()
      return otherwise
    }
  }

  async #find(table: string, which: string, parameters: Parameters): Promise<number[]> {
    const rows = await this.#clickhouse.rows<{ number: number }>(
      `SELECT DISTINCT toInt32(day) AS number FROM ${table} WHERE ${which}`,
      parameters,
      { max_threads: 1 },
      { limitMs: DELETE_LIMIT_MS },
    )
    return rows.map(({ number }) => number)
  }

  async #void(which: string): Promise<void> {
    this.#voids++
    await this.#change(
      `INSERT INTO session_fact_days (project_id, definition, day, fill, step, calls)
       SELECT project_id, definition, day, toUInt64('${this.#nextFill()}'), 0, 0 FROM (
         SELECT project_id, definition, day FROM session_fact_days WHERE ${which}
         GROUP BY project_id, definition, day HAVING argMax(step, fill) > 0
       ) WHERE ${STILL_LEADS}`,
    )
  }

  /**
   * Removes rows that were superseded or voided so long ago that no question reads them, and outdated requests.
   * @param keptS how long ago, s
   */
  async prune(keptS: number): Promise<void> {
    const [clock] = await this.#clickhouse.rows<{ at: string }>(
      `SELECT toUnixTimestamp64Milli(now64(3)) - 1000 * toInt64(${keptS}) AS at`,
    )
    const cutoff = `fromUnixTimestamp64Milli(toInt64(${Number(clock?.at ?? 0)}))`
    const kept = `SELECT fill, day FROM (${ALL_DAYS}) WHERE step > 0 AND (isNull(ended_at) OR ended_at >= ${cutoff})`
    const find = () =>
      this.#clickhouse.rows<{ number: string; at: number }>(
        `SELECT DISTINCT toString(fill) AS number, toInt32(day) AS at FROM session_facts
         WHERE (fill, day) NOT IN (${kept}) LIMIT ${DELETED_TOGETHER}`,
        {},
        { max_threads: 1 },
        { limitMs: DELETE_LIMIT_MS },
      )
    const ended = `SELECT project_id, definition, day, fill FROM (${ALL_DAYS}) WHERE ended_at < ${cutoff}`
    const isAnyOld = (await this.#clickhouse.rows(`${ended} LIMIT 1`)).length > 0
    // This reads all rows.
    const old = isAnyOld || this.#mayHaveOrphans ? await this.#orDiscard(find, []) : []
    // The next call checks whether any are left.
    this.#mayHaveOrphans = old.length > 0
    if (old.length > 0) {
      const rows = old.map(({ number, at }) => `(${number}, ${at})`)
      await this.#deleteLater(`(fill, toInt32(day)) IN (${rows.join(', ')})`)
    }
    await this.#deleteIfAny('session_fact_days', `(project_id, definition, day, fill) IN (${ended})`)
    const newest = 'SELECT project_id, max(asked_at) FROM session_facts_asked GROUP BY project_id'
    await this.#deleteIfAny('session_facts_asked', `(project_id, asked_at) NOT IN (${newest})`)
  }

  async #deleteIfAny(table: string, which: string): Promise<void> {
    const found = await this.#clickhouse.rows(`SELECT 1 FROM ${table} WHERE ${which} LIMIT 1`)
    if (found.length > 0) await this.#change(`ALTER TABLE ${table} DELETE WHERE ${which}`)
  }

  #nextFill(): bigint {
    return BigInt(this.#epoch) * FILLS_OF_EPOCH + ++this.#fills
  }
}

/** How many events and calls a day has. */
export interface DayCount {
  events: number
  /** events and calls that the rows of the day may be missing, from all days that filling it reads */
  later: number
}

/**
 * Counts the events and calls of a project by day. A call counts as often as ClickHouse keeps versions of it.
 * @param days with rows
 */
export async function countSessionDays(
  clickhouse: ClickHouse,
  projectId: string,
  days: readonly SessionDay[],
): Promise<Map<number, DayCount>> {
  const ofProject = 'WHERE project_id = {project:String}'
  const startedOn = `toInt32(${toDay('started_at')})`
  const selects = [
    `SELECT toInt32(day) AS at, count() AS counted, 0 AS missed FROM event_facts ${ofProject} GROUP BY at`,
    `SELECT ${startedOn} AS at, count() AS counted, 0 AS missed FROM sessions ${ofProject} AND is_deleted = 0 GROUP BY at`,
  ]
  if (days.length > 0) {
    const steps = toReach(days, ({ step }) => String(step))
    const calls = toReach(days, ({ calls }) => calls)
    const near = `ARRAY JOIN range(-${WINDOW.after}, ${WINDOW.before + 1}) AS distance`
    selects.push(
      // The index on steps skips rows that all days include.
      `SELECT toInt32(day) + distance AS at, 0 AS counted, countIf(step > ${steps.of('at')}) AS missed FROM event_facts ${near}
       ${ofProject} AND step > ${steps.least} GROUP BY at`,
      `SELECT ${startedOn} + distance AS at, 0 AS counted, countIf(version > ${calls.of('at')}) AS missed FROM sessions ${near}
       ${ofProject} AND is_deleted = 0 AND version > ${calls.least} GROUP BY at`,
    )
  }
  const rows = await clickhouse.rows<{ at: number; count: string; lacking: string }>(
    `SELECT at, sum(counted) AS count, sum(missed) AS lacking FROM (${selects.join(' UNION ALL ')}) GROUP BY at`,
    { project: projectId },
    { max_threads: 1 },
    { limitMs: DELETE_LIMIT_MS },
  )
  return new Map(rows.map(({ at, count, lacking }) => [Number(at), { events: Number(count), later: Number(lacking) }]))
}

/** SQL for the last step or version that the rows of a day include, and for the lowest one of all days. */
function toReach(days: readonly SessionDay[], take: (day: SessionDay) => string) {
  const numbers = `CAST([${days.map(({ day }) => day).join(', ')}], 'Array(Int32)')`
  const values = `CAST([${days.map(take).join(', ')}], 'Array(UInt64)')`
  const of = (day: string) => `transform(toInt32(${day}), ${numbers}, ${values}, toUInt64(0))`
  return { of, least: `arrayMin(${values})` }
}

/** All days whose fill reads one of these days. */
function widen(days: Iterable<number>): number[] {
  const wide = new Set<number>()
  for (const day of days) for (let i = -WINDOW.after; i <= WINDOW.before; i++) wide.add(day + i)
  return [...wide]
}

function matchDays(projectId: string, days: readonly number[]): string {
  return `(project_id = ${literal(projectId)} AND toInt32(day) IN (${days.join(', ')}))`
}

import { setTimeout as wait } from 'node:timers/promises'
import type { ClickHouse } from '../clickhouse/client.js'
import { findUnreadablePart, orIfDenied, StoreError } from '../clickhouse/errors.js'
import {
  type ClickHouseSettings,
  literal,
  literalArray,
  literalRows,
  type Parameters,
  QueryParameters,
} from '../clickhouse/parameters.js'
import { DAY_MS } from '../contract/durations.js'
import type { Log } from '../lib/log.js'
import { DELETE_LIMIT_MS } from './deleted-events.js'
import { ABANDONED, type ChangeScope, type EventChange, SETTLED } from './event-changes.js'
import { matchEntries } from './events.js'
import { FACTS_COMMENT, type FactRange } from './fact-backlog.js'
import { type Comparison, checkFactsAgain, type FactCheck, isChecked } from './fact-check.js'
import { hashName, insertFacts, toDay, toMonth } from './fact-columns.js'
import { STILL_LEADS } from './fact-points.js'
import { LeadColumns } from './lead-columns.js'
import { LeadState } from './lead-state.js'
import { FACT_NOTES, FACT_TABLES, hasDetachedParts } from './parts.js'
import { ANY_SIZE, SessionDays } from './session-days.js'

/** Another process leads now. */
export class LeadLostError extends Error {
  override readonly name = 'LeadLostError'
  constructor() {
    super('another process copies facts now')
  }
}

/** The sorting key of an event in the facts, by which its row is found without a search. */
interface FactKey {
  id: string
  event: string
  /** its UTC day, such as 2026-11-26 */
  day: string
  /** the hash of its user, see `hashName` */
  user: string
}

/** SELECT lists of the keys: from `events`, and from facts. */
const KEY_OF_EVENT = `toString(event_id) AS id, event, toString(${toDay('timestamp')}) AS day,
  toString(${hashName('distinct_id')}) AS user`
const KEY_OF_FACT = 'toString(event_id) AS id, event, toString(day) AS day, toString(user) AS user'

/** How often a leader records that it still leads: others take over after ten seconds without it. */
export const BEAT_MS = 3_000
const POLL_MS = 50
/**
 * How many events' facts one statement recomputes; the last change in it may exceed this. The statement names the
 * events.
 */
export const EVENTS_TOGETHER = 2_000
/** Projects in such a statement, which has a condition for each. */
const PROJECTS_TOGETHER = 50
/** How long to wait for statements of earlier leaders, ms. */
const OTHERS_LIMIT_MS = 2 * DELETE_LIMIT_MS
/** The kinds of changes that the log keeps: those of events. */
const LOGGED: readonly ChangeScope['kind'][] = ['events', 'users', 'month', 'entry']
/** One thread, so that copying leaves the other cores to events and questions. */
const COPYING: ClickHouseSettings = {
  max_threads: 1,
  max_insert_threads: '1',
  max_partitions_per_insert_block: '0',
  min_insert_block_size_rows: '1000000',
  min_insert_block_size_bytes: String(256 * 1024 * 1024),
}

/** Of a table that says which events facts have, a detached part voids facts at each start of ClickHouse. */
const NOT_DROPPED =
  'detached parts of a table about facts cannot be removed, so facts may be copied again at each start of ClickHouse: ' +
  'allow the user of CLICKHOUSE_URL the setting allow_drop_detached, or drop these parts'

export interface LeadOptions {
  /** identifies this process */
  process: string
  /** whether other processes may lead */
  isShared: boolean
  log: Pick<Log, 'warn'>
  /** ends the wait for statements of other processes */
  signal: AbortSignal
}

/**
 * The lead on the facts of one shard: the right to change them. If another process has taken over, the former leader
 * can change nothing even before it notices, because each statement checks the epoch in the store.
 *
 * A step is begun, carried out and finished. The next leader removes the rows of an unfinished step: they have the
 * number of the step, and only finishing it moves `progress`.
 */
export class FactLead {
  /** by project: facts have its events with ids up to here */
  readonly progress = new Map<string, bigint>()
  /** the days with session facts */
  readonly sessions: SessionDays
  readonly columns: LeadColumns
  readonly #clickhouse: ClickHouse
  readonly #state: LeadState
  readonly #log: Pick<Log, 'warn'>

  private constructor(clickhouse: ClickHouse, state: LeadState, log: Pick<Log, 'warn'>) {
    this.#clickhouse = clickhouse
    this.#log = log
    this.#state = state
    this.columns = new LeadColumns(clickhouse, () => this.assertLeads())
    this.sessions = new SessionDays(clickhouse, {
      epoch: state.current.epoch,
      change: (statement, parameters, settings) => this.#change(statement, parameters, { ...settings, ...COPYING }),
      assertLeads: () => this.assertLeads(),
    })
  }

  /** Whether this process also led before. */
  get isContinued(): boolean {
    return this.#state.isContinued
  }

  get epoch(): number {
    return this.#state.current.epoch
  }

  /** All steps up to this number are finished or have been removed. */
  get step(): number {
    return this.#state.current.begun
  }

  /**
   * Takes the lead, and removes everything that the previous leader left unfinished.
   * @returns null if another process leads
   */
  static async take(clickhouse: ClickHouse, { process, isShared, log, signal }: LeadOptions): Promise<FactLead | null> {
    const state = await LeadState.claim(clickhouse, process, isShared)
    if (!state) return null
    const lead = new FactLead(clickhouse, state, log)
    // Without this, another process would take over during a long wait or statement, and processes might replace each
    // other forever.
    const beating = isShared && setInterval(() => void state.beat().catch(() => undefined), BEAT_MS)
    try {
      await lead.#waitForOthers(signal)
      await state.catchUp()
      await lead.#load()
    } finally {
      if (beating) clearInterval(beating)
    }
    await state.confirm()
    await lead.assertLeads()
    return lead
  }

  /** Waits for ClickHouse to finish the statements of earlier leaders. */
  async #waitForOthers(signal: AbortSignal): Promise<void> {
    const deadline = performance.now() + OTHERS_LIMIT_MS
    for (;;) {
      const running = this.#clickhouse.rows(
        `SELECT 1 FROM system.processes
         WHERE current_database = currentDatabase() AND Settings['log_comment'] = '${FACTS_COMMENT}' LIMIT 1`,
      )
      if ((await orIfDenied(running, [])).length === 0) return
      if (performance.now() > deadline) throw new Error('ClickHouse does not end what an earlier process has sent')
      await wait(POLL_MS, undefined, { signal })
    }
  }

  async #load(): Promise<void> {
    await this.columns.load()
    const [server] = await this.#clickhouse.rows<{ written_by: string }>(
      `SELECT concat(version(), ' ', if(startsWith(engine, 'Replicated'), '', toString(uuid))) AS written_by
       FROM system.tables WHERE database = currentDatabase() AND name = 'event_facts'`,
    )
    const engine = server?.written_by ?? ''
    // Another version of ClickHouse may write values differently, and a table from a backup may be older or newer than
    // the events.
    if (this.#state.current.engine !== engine) return await this.rebuild(engine)
    const rows = await this.#clickhouse.rows<{ project: string; reached: string; last: number }>(
      `SELECT project_id AS project, toString(argMax(hi, step)) AS reached, max(step) AS last FROM facts_progress
       WHERE generation = {generation:UInt32} GROUP BY project_id`,
      { generation: this.#state.current.generation },
    )
    for (const { project, reached } of rows) this.progress.set(project, BigInt(reached))
    const done = rows.reduce((most, { last }) => Math.max(most, last), 0)
    try {
      await this.#change(`DELETE FROM event_facts WHERE step > ${done}`)
    } catch (error) {
      if (findUnreadablePart(error)?.table !== 'event_facts') throw error
      return await this.rebuild()
    }
    // Without rows, the session facts may be of an earlier generation.
    if (rows.length > 0) await this.sessions.load()
    else await this.sessions.clear()
  }

  /** Removes all facts, so that they are copied again. @param engine the version of ClickHouse that will write them */
  async rebuild(engine = this.#state.current.engine): Promise<void> {
    this.progress.clear()
    // The order matters: a question that misses rows then notices that its generation is over.
    await this.#state.beginGeneration(engine)
    await this.sessions.clear()
    await this.assertLeads()
    // The next leader waits until this statement has ended.
    const settings = { ...ANY_SIZE, log_comment: FACTS_COMMENT }
    await this.#clickhouse.command('TRUNCATE TABLE event_facts', {}, settings, DELETE_LIMIT_MS)
    // It cannot check the epoch, so it may have removed the facts of a later leader.
    if (!(await this.#state.stillLeads())) await checkFactsAgain(this.#clickhouse)
    await this.columns.drop()
    await this.#noteChecked()
  }

  /**
   * Allows questions to read facts, if ClickHouse has not lost any at its last start.
   * @returns `equal` if they may be read now; `different` if they have to be rebuilt
   */
  async check(comparison: FactCheck): Promise<Comparison> {
    const { generation } = this.#state.current
    if (await isChecked(this.#clickhouse, generation)) return 'equal'
    // If a change was lost, facts may lack an edit, which does not show in their number.
    if (await hasDetachedParts(this.#clickhouse, FACT_NOTES)) return 'different'
    const found = await comparison.run(generation)
    if (found !== 'equal') return found
    // A question may have detached an unreadable part in the meantime.
    if (await hasDetachedParts(this.#clickhouse, FACT_NOTES)) return 'different'
    await this.#noteChecked(comparison.holds)
    return (await isChecked(this.#clickhouse, generation)) ? 'equal' : 'changing'
  }

  /** @param condition in SQL; if it does not hold, nothing is noted */
  async #noteChecked(condition = '1'): Promise<void> {
    await this.#dropDetached()
    await this.#change(
      `INSERT INTO facts_checked (generation)
       SELECT ${this.#state.current.generation} WHERE ${condition} AND ${STILL_LEADS}`,
    )
  }

  /** Removes detached parts: they are no longer needed, and may contain data that is erased later. */
  async #dropDetached(): Promise<void> {
    await this.assertLeads()
    for (const table of FACT_TABLES) {
      const drop = `ALTER TABLE ${table} DROP DETACHED PARTITION ALL`
      await this.#clickhouse.command(drop, {}, { allow_drop_detached: 1 }).catch(async (error: unknown) => {
        if (!(error instanceof StoreError)) throw error
        // The next start tries again.
        if (await hasDetachedParts(this.#clickhouse, [table])) this.#log.warn({ err: error, table }, NOT_DROPPED)
      })
    }
  }

  /** Records that this process still leads, so that no other takes over. */
  async beat(): Promise<void> {
    await this.#state.beat()
    await this.assertLeads()
  }

  /** Lets another process lead immediately. */
  async release(): Promise<void> {
    await this.#state.release()
  }

  /** @throws LeadLostError */
  async assertLeads(): Promise<void> {
    if (!(await this.#state.stillLeads())) throw new LeadLostError()
  }

  /** Copies events as one step. @throws LeadLostError */
  async copy(ranges: readonly FactRange[]): Promise<void> {
    const fields = new QueryParameters()
    const where = ranges.map(({ projectId, lo, hi }) => {
      const id = 'toUInt128(event_id)'
      return `(project_id = ${fields.text(projectId)} AND ${id} > ${uint128(lo)} AND ${id} <= ${uint128(hi)})`
    })
    await this.#step(ranges, where.join(' OR '), fields.parameters)
  }

  /** @param where the events to copy, as a condition in SQL; `before` runs within the step, before they are copied */
  async #step(
    reached: readonly Omit<FactRange, 'lo'>[],
    where: string,
    parameters: Parameters,
    before: () => Promise<void> = async () => undefined,
  ): Promise<void> {
    const step = await this.#state.beginStep()
    await before()
    const insert = insertFacts(this.columns.all(), `(${where}) AND ${STILL_LEADS}`, String(step))
    await this.#change(insert, parameters, COPYING)
    await this.#finish(step, reached)
  }

  async #finish(step: number, reached: readonly Omit<FactRange, 'lo'>[]): Promise<void> {
    const rows = reached.map(({ projectId, hi }) => [projectId, String(hi)])
    await this.#change(
      `INSERT INTO facts_progress (generation, project_id, step, hi)
       SELECT ${this.#state.current.generation}, reached.1, ${step}, toUInt128(reached.2)
       FROM (SELECT arrayJoin(${literalRows(rows, 'String, String')}) AS reached) WHERE ${STILL_LEADS}`,
    )
    await this.assertLeads()
    for (const { projectId, hi } of reached) this.progress.set(projectId, hi)
  }

  /**
   * Updates the facts of changed events, and settles the changes; at least the first one.
   * @returns the number of changes that were followed
   * @throws LeadLostError
   */
  async follow(changes: readonly EventChange[]): Promise<number> {
    const events = new Map<string, FactKey[]>()
    const named = new Map<string, Set<string>>()
    const followed: EventChange[] = []
    let count = 0
    for (const change of changes) {
      const { projectId, scope } = change
      if (scope.kind === 'events') {
        const ids = named.get(projectId) ?? new Set()
        for (const id of scope.ids) ids.add(id)
        // Events that are not copied yet will be copied in their changed form.
        if (this.progress.has(projectId)) named.set(projectId, ids)
        count += scope.ids.length
      } else {
        const found = await this.#followOne(projectId, scope)
        if (found.length > 0) events.set(projectId, [...(events.get(projectId) ?? []), ...found])
        count += found.length
      }
      followed.push(change)
      if (count >= EVENTS_TOGETHER || new Set([...events.keys(), ...named.keys()]).size >= PROJECTS_TOGETHER) break
    }
    for (const [projectId, ids] of named) {
      if (!this.progress.has(projectId)) continue
      const found = await this.#findKeys(projectId, ids)
      if (found.length > 0) events.set(projectId, [...(events.get(projectId) ?? []), ...found])
    }
    if (events.size > 0) await this.#rewrite(events)
    await this.#settle(followed)
    // Without this check, changes that another process follows would be found again and again.
    await this.assertLeads()
    return followed.length
  }

  /** The keys of events of a project, even if they were deleted. */
  async #findKeys(projectId: string, ids: ReadonlySet<string>): Promise<FactKey[]> {
    const find = async (list: string, table: string, missing: readonly string[], settings: ClickHouseSettings = {}) => {
      const query = `SELECT ${list} FROM ${table} WHERE project_id = {project:String} AND event_id IN ${distinct(missing, 'UUID')}`
      return await this.#clickhouse.rows<FactKey>(query, { project: projectId }, settings, { limitMs: DELETE_LIMIT_MS })
    }
    // A deleted event stays in `events` until its part is merged.
    const stored = await find(KEY_OF_EVENT, 'events', [...ids], { apply_deleted_mask: 0 })
    const known = new Set(stored.map(({ id }) => id))
    const missing = [...ids].filter((id) => !known.has(id))
    // This reads all facts of the project.
    return missing.length === 0 ? stored : [...stored, ...(await find(KEY_OF_FACT, 'event_facts', missing))]
  }

  /** @returns the events whose facts have to be recomputed */
  async #followOne(projectId: string, scope: Exclude<ChangeScope, { kind: 'events' }>): Promise<FactKey[]> {
    if (scope.kind === 'rebuild') await this.rebuild()
    if (scope.kind === 'column') await this.columns.tryToAdd(scope.source)
    if (scope.kind === 'calls') {
      if (projectId === '') await this.sessions.discard()
      else if ('before' in scope) await this.sessions.expire(projectId, scope.before)
      else await this.sessions.eraseCalls(projectId, scope.keys)
    }
    // Events that are not copied yet will be copied in their changed form.
    const hi = this.progress.get(projectId)
    if (hi === undefined) return []
    switch (scope.kind) {
      case 'entry':
        if ('deleted' in scope) {
          const fields = new QueryParameters()
          const which = matchEntries(fields, projectId, scope.deleted)
          const { parameters } = fields
          await this.sessions.voidFacts(projectId, which, parameters)
          await this.#deleteAllBut(`SELECT event_id FROM events WHERE ${which}`, which, parameters)
          return []
        }
        return await this.#clickhouse.rows<FactKey>(
          `SELECT ${KEY_OF_EVENT} FROM events
           WHERE project_id = {project:String} AND toUInt128(event_id) >= toUInt128({first:UUID})
             AND toUInt128(event_id) <= least(toUInt128({last:UUID}), {hi:UInt128})`,
          { project: projectId, first: scope.first, last: scope.last, hi: String(hi) },
        )
      case 'users': {
        const fields = new QueryParameters()
        const project = fields.text(projectId)
        const facts = `project_id = ${project} AND user IN CAST(${fields.array(scope.users)}, 'Array(UInt64)')`
        // Look them up by their ids, because events cannot be found by the hash of their user.
        const left = `SELECT event_id FROM events WHERE project_id = ${project}
          AND toUInt128(event_id) IN (SELECT toUInt128(event_id) FROM event_facts WHERE ${facts})`
        const { parameters } = fields
        await this.sessions.erase(projectId, { facts, parameters, users: scope.users })
        await this.#deleteAllBut(left, facts, parameters)
        return []
      }
      case 'month': {
        const isBefore = scope.before === null ? '1' : `timestamp < ${Math.trunc(scope.before)}`
        const events = `project_id = {project:String} AND ${isBefore}`
        const left = `SELECT event_id FROM events WHERE ${events} AND _partition_id = {month:String}`
        const facts = `${events} AND ${toMonth('toUInt128(event_id)')} = toUInt32({month:String})`
        const parameters = { project: projectId, month: scope.month }
        await this.sessions.erase(projectId, { facts, parameters })
        await this.#deleteAllBut(left, facts, parameters)
        return []
      }
      case 'leave_out':
        await this.remove(projectId)
        return []
      case 'rebuild':
      case 'take_in':
      case 'column':
      case 'calls':
        return []
      default:
        throw new Error(`no such change: ${scope satisfies never}`)
    }
  }

  /** Removes the facts of a project, so that they are copied again unless the project is left out. */
  async remove(projectId: string): Promise<void> {
    await this.sessions.eraseCalls(projectId, null)
    // From now on, questions of the project only read `events`.
    await this.#finish(await this.#state.beginStep(), [{ projectId, hi: 0n }])
    await this.#change('DELETE FROM event_facts WHERE project_id = {project:String}', { project: projectId })
  }

  /** Deletes facts whose events are gone. @param left SELECT of the ids that still exist */
  async #deleteAllBut(left: string, facts: string, parameters: Parameters): Promise<void> {
    await this.#change(`DELETE FROM event_facts WHERE ${facts} AND event_id NOT IN (${left})`, parameters)
  }

  /** Recomputes facts from the current events, if they still exist. */
  async #rewrite(events: ReadonlyMap<string, FactKey[]>): Promise<void> {
    const facts = Array.from(events, ([projectId, keys]) => `(${matchFacts(projectId, keys)})`).join(' OR ')
    const reached = Array.from(events.keys(), (projectId) => ({ projectId, hi: this.progress.get(projectId) ?? 0n }))
    const stored = reached.map(({ projectId, hi }) => {
      const ids = (events.get(projectId) ?? []).map(({ id }) => id)
      return `(project_id = ${literal(projectId)} AND event_id IN ${distinct(ids, 'UUID')}
        AND toUInt128(event_id) <= ${uint128(hi)})`
    })
    const days = new Map(
      Array.from(events, ([projectId, keys]) => [projectId, keys.map(({ day }) => toDayNumber(day))]),
    )
    await this.sessions.voidAround(days)
    await this.#step(reached, stored.join(' OR '), {}, () => this.#change(`DELETE FROM event_facts WHERE (${facts})`))
  }

  /** Abandons a change: its further statements fail. Those that ClickHouse has begun may still finish. */
  async abandon({ id, projectId, scope: { kind, ...scope } }: EventChange): Promise<void> {
    await this.#change(
      `INSERT INTO event_changes (project_id, id, kind, scope, state)
       SELECT {project:String}, {id:UUID}, {kind:String}, ${literal(JSON.stringify(scope))}, ${ABANDONED} WHERE ${STILL_LEADS}`,
      { project: projectId, id, kind },
    )
  }

  /** Records that facts have followed changes, and logs the changes. */
  async #settle(changes: readonly EventChange[]): Promise<void> {
    if (changes.length === 0) return
    const rows = changes.map(({ projectId, id, scope: { kind, ...scope } }) => {
      return [projectId, id, kind, JSON.stringify(scope)]
    })
    const settled = `FROM (SELECT arrayJoin(${literalRows(rows, 'String, String, String, String')}) AS change)
      WHERE ${STILL_LEADS}`
    // Log them first: if the process dies in between, the next leader follows them again.
    await this.#change(
      `INSERT INTO event_change_log (project_id, id, kind, scope)
       SELECT change.1, toUUID(change.2), change.3, change.4 ${settled} AND change.3 IN ${literalArray(LOGGED)}`,
    )
    await this.#change(
      `INSERT INTO event_changes (project_id, id, kind, scope, state)
       SELECT change.1, toUUID(change.2), change.3, change.4, ${SETTLED} ${settled}`,
    )
  }

  /** Runs a statement that has no effect if another process leads. An UPDATE or DELETE gets the condition here. */
  async #change(statement: string, parameters: Parameters = {}, settings: ClickHouseSettings = {}): Promise<void> {
    const query = statement.startsWith('INSERT') ? statement : `${statement} AND ${STILL_LEADS}`
    const all = { ...parameters, epoch: this.#state.current.epoch }
    await this.#clickhouse.command(query, all, { ...settings, log_comment: FACTS_COMMENT }, DELETE_LIMIT_MS)
  }
}

/** SQL for a number that is too large for a plain literal. */
function uint128(value: bigint): string {
  return `toUInt128('${value}')`
}

/** Days since 1970. @param day such as 2026-11-26 */
function toDayNumber(day: string): number {
  return Date.parse(`${day}T00:00:00Z`) / DAY_MS
}

type ListType = 'String' | 'UUID' | 'Date32' | 'UInt64'

/** SQL for a set of values. They are in the statement, because a request has little room for parameters. */
function distinct(values: readonly string[], type: ListType): string {
  const list = literalArray([...new Set(values)])
  return type === 'String' ? list : `CAST(${list}, 'Array(${type})')`
}

/** SQL for the rows of facts that are these events. */
function matchFacts(projectId: string, events: readonly FactKey[]): string {
  const list = (key: keyof FactKey, type: ListType) =>
    distinct(
      events.map((event) => event[key]),
      type,
    )
  return `project_id = ${literal(projectId)} AND event IN ${list('event', 'String')} AND day IN ${list('day', 'Date32')}
    AND user IN ${list('user', 'UInt64')} AND event_id IN ${list('id', 'UUID')}`
}

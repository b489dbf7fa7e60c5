import { DAY_MS } from '../contract/durations.js'
import { MAX_TIMESTAMP } from '../contract/limits.js'
import type { PageName } from '../contract/page-fields.js'
import { hashName, toDay } from '../store/fact-columns.js'
import type { SessionDay } from '../store/session-facts.js'
import { Statement } from './statement.js'
import { joinUserHashes, joinUsers } from './users-join.js'

/** Maximum number of different event names of a session in session facts. */
const MAX_NAMES = 32
/** Maximum number of days that a statement lists; longer ranges are not answered from session facts. */
const MAX_DAYS = 4_000

/** The fields of the first and the last page view that are in session facts. */
export const ENTRY_FIELDS = [
  ...['host', 'path', 'referrer', 'source', 'medium', 'campaign', 'term', 'content', 'channel'],
] as readonly PageName[]
export const EXIT_FIELDS = ['host', 'path'] as readonly PageName[]

/** The column of session facts with a field of a session's page; null if there is none. */
export function findPageColumn(chosen: 'first' | 'last' | 'entry' | 'exit', name: PageName): string | null {
  const fields = chosen === 'entry' ? ENTRY_FIELDS : chosen === 'exit' ? EXIT_FIELDS : []
  return fields.includes(name) ? `${chosen}_${name}` : null
}

/** An event may change sessions that start this many days after it. */
const DISTANCES = [-2, -1, 0, 1]
const MAX = 2n ** 64n - 1n

/** The sessions that a question reads. */
export interface SessionRange {
  /**
   * epoch ms of the range that the question reads events of, from which sessions reach a day to either side; absent: no
   * lower bound
   */
  from?: number | undefined
  to: number
  /** whether it counts only sessions, and not their events; default: no */
  areAlone?: boolean | undefined
}

interface Column {
  name: string
  sql: string
}

/**
 * The sessions of the days that session facts cover. The facts of a session are valid until more of the session is
 * stored; the question groups the events of all changed sessions itself.
 *
 * All events and calls of a session with a row are within a day, so a question that counts the session, or one of its
 * events, reads all of them. A new event may belong to a session that starts up to a day before or after it, or may show
 * that a session that started two days before lasts longer than a day.
 */
export class SessionFacts {
  readonly #statement: Statement
  readonly #range: Pick<SessionRange, 'from' | 'to'>
  readonly #definition: string
  /** the first day, since 1970, of the lists */
  readonly #first: number
  /** by day: the fill whose rows count; 0 for none */
  readonly #fills: bigint[] = []
  /**
   * by day: the step and the version of calls up to which all sessions that its data may change are complete; 0 for
   * none
   */
  readonly #steps: bigint[] = []
  readonly #calls: bigint[] = []
  /** the keys of the sessions whose facts are outdated; null: the statement finds them itself */
  #changed: readonly string[] | null = null

  /** @returns null if no day of the range, which sessions reach a day beyond, is covered */
  static find(statement: Statement, range: SessionRange): SessionFacts | null {
    const { facts } = statement.context
    const days = facts?.findSessions?.() ?? []
    if (days.length === 0) return null
    const found = new SessionFacts(statement, range, days)
    if (found.#fills.every((fill) => fill === 0n)) return null
    // Sessions found earlier do not include those of events stored in the meantime, so the question would count such
    // events without their sessions.
    if (range.areAlone || !facts?.hasLater) {
      const own = new Statement(statement.context)
      const query = own.query(new SessionFacts(own, range, days).#selectChanged())
      found.#changed = facts?.findChanged?.(query) ?? null
    }
    return found
  }

  private constructor(statement: Statement, { from, to }: SessionRange, days: readonly SessionDay[]) {
    this.#statement = statement
    this.#range = { ...(from !== undefined && { from: from - DAY_MS }), to: to + DAY_MS }
    this.#definition = days[0]?.definition ?? '0'
    const covered = days.map(({ day }) => day)
    // A session that starts a day before the events of the question may reach into them.
    this.#first = Math.max(Math.min(...covered), toDayNumber((this.#range.from ?? 0) - DAY_MS))
    const last = Math.min(Math.max(...covered), toDayNumber(this.#range.to))
    if (last - this.#first >= MAX_DAYS) return
    const byDay = new Map(days.map((day) => [day.day, day]))
    for (let day = this.#first; day <= last; day++) {
      const own = byDay.get(day)
      const near = own ? DISTANCES.flatMap((distance) => byDay.get(day + distance) ?? []) : []
      this.#fills.push(BigInt(own?.fill ?? 0))
      this.#steps.push(near.map(({ step }) => BigInt(step)).reduce(least, own ? MAX : 0n))
      this.#calls.push(near.map(({ calls }) => BigInt(calls)).reduce(least, own ? MAX : 0n))
    }
  }

  /** The keys of the sessions that `selectOthers` leaves out: operand of IN; null if there are none. */
  get changed(): string | null {
    if (this.#changed === null) {
      // The statement finds them twice: no session may be missing or counted twice because it changes in between.
      this.#statement.set({ enable_shared_storage_snapshot_in_query: 1 })
      return this.#selectChanged()
    }
    return this.#changed.length === 0 ? null : `CAST(${this.#statement.texts(this.#changed)}, 'Array(UInt64)')`
  }

  /**
   * SELECT of the keys of the sessions whose facts are outdated or missing: operand of IN. It may include a few others.
   */
  #selectChanged(): string {
    const { project, context } = this.#statement
    const { facts } = context
    const ofProject = `project_id = ${project}`
    const oldest = this.#calls.filter((_, i) => this.#fills[i] !== 0n).reduce(least, MAX)
    const conditions = {
      event_facts: [
        ...this.#bounds('day', toDay),
        `step > ${this.#ofDay(this.#steps, 'toInt32(day)')}`,
        ...(facts?.step ? [`step <= ${this.#statement.ofShard(facts.step, 'UInt32')}`] : []),
        // The last column is read only for the rows that are left.
        'session != 0',
      ],
      // The row of a session that was deleted does not say when it began.
      sessions: [
        `(is_deleted = 1 AND version > toUInt64('${oldest}') OR ${[
          ...this.#bounds('started_at', (time) => time),
          `version > ${this.#ofDay(this.#calls, `toInt32(intDiv(started_at, ${DAY_MS}))`)}`,
        ].join(' AND ')})`,
      ],
    }
    const parts = [
      `SELECT session AS key FROM event_facts PREWHERE ${[ofProject, ...conditions.event_facts].join(' AND ')}`,
      `SELECT ${hashName('session_id')} AS key FROM sessions WHERE ${[ofProject, ...conditions.sessions].join(' AND ')}`,
      `SELECT key FROM session_facts WHERE ${this.#isCurrent} AND is_irregular`,
    ]
    if (facts?.hasLater) {
      const isLater = `toUInt128(event_id) > ${this.#statement.ofShard(facts.hi, 'UInt128')}`
      parts.push(
        `SELECT ${hashName('session_id')} AS key FROM events PREWHERE ${ofProject} AND ${isLater} AND session_id != ''`,
      )
    }
    return `(${parts.join(' UNION ALL ')})`
  }

  /**
   * SELECT of all other sessions.
   * @param columns with their SQL over `session_facts AS e`, see `userSql` and `userHashSql`
   * @param user whether the columns need the user's name or hash
   */
  selectOthers(columns: readonly Column[], user: 'name' | 'hash' | null): string {
    const statement = this.#statement
    const { changed } = this
    const conditions = [this.#isCurrent, 'NOT is_irregular', ...(changed === null ? [] : [`key NOT IN ${changed}`])]
    const joins = { name: () => joinUsers(statement, null, null), hash: () => joinUserHashes(statement, 'e.user') }
    const list = columns.map(({ name, sql }) => `${sql} AS ${name}`).join(', ')
    return `SELECT ${list} FROM session_facts AS e ${user ? joins[user]() : ''} WHERE ${conditions.join(' AND ')}`
  }

  /**
   * Conditions for data that may change sessions of the range, which begin up to a day before it.
   * @param toValue SQL of a time, epoch ms, as the column has it
   */
  #bounds(column: string, toValue: (time: string) => string): string[] {
    const { from, to } = this.#range
    const lower = from === undefined ? [] : [`${column} >= ${this.#time(from - DAY_MS, toValue)}`]
    return [...lower, `${column} <= ${this.#time(to, toValue)}`]
  }

  #time(time: number, toValue: (time: string) => string): string {
    // No day is outside of these bounds.
    return toValue(this.#statement.number(Math.min(Math.max(time, 0), MAX_TIMESTAMP)))
  }

  get #isCurrent(): string {
    const day = (number: number) => toDay(this.#statement.number(number * DAY_MS))
    const last = this.#first + this.#fills.length - 1
    return `project_id = ${this.#statement.project} AND definition = toUInt64('${this.#definition}')
      AND day >= ${day(this.#first)} AND day <= ${day(last)} AND fill = ${this.#ofDay(this.#fills, 'toInt32(day)')}`
  }

  /**
   * SQL for the value of a day in a list of values by day; 0 for days outside the list.
   * @param day SQL for days since 1970
   */
  #ofDay(values: readonly bigint[], day: string): string {
    const list = `CAST(${this.#statement.texts(['0', ...values.map(String), '0'])}, 'Array(UInt64)')`
    return `arrayElement(${list}, least(greatest(${day} - ${this.#statement.integer(this.#first - 2)}, 1), ${values.length + 2}))`
  }
}

/** SQL for whether a session has one of these events; null: any. */
export function hadEvent(statement: Statement, names: readonly string[] | null): string {
  return names === null ? 'toUInt8(events > 0)' : `toUInt8(hasAny(names, ${statement.texts([...names])}))`
}

/** SQL for the distinct names of a session's events, and for whether there are too many. */
export function groupNames(name: string, condition: string): { names: string; areMany: string } {
  const names = `groupUniqArrayIf(${MAX_NAMES + 1})(${name}, ${condition})`
  return { names, areMany: `length(${names}) > ${MAX_NAMES}` }
}

function toDayNumber(time: number): number {
  return Math.floor(time / DAY_MS)
}

function least(one: bigint, other: bigint): bigint {
  return one < other ? one : other
}

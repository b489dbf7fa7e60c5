import { setTimeout as wait } from 'node:timers/promises'
import { StoreUnreachableError, type UnreadablePart } from '../clickhouse/errors.js'
import type { Shards } from '../clickhouse/shards.js'
import { DAY_MS, HOUR_MS } from '../contract/durations.js'
import type { Journal } from '../journal/journal.js'
import { measureTime, readClocks, type Times } from '../lib/clocks.js'
import { RecentValues } from '../lib/recent-values.js'
import type { Position } from '../model/position.js'
import { readShardOrder } from '../store/distributed.js'
import { requestColumn } from '../store/event-changes.js'
import { compareWithPoint, readFactsPoint, type ShardPoint } from '../store/fact-points.js'
import { FactRepairs } from '../store/fact-repairs.js'
import {
  type ColumnSource,
  mayHaveColumn,
  nameValueColumn,
  noteColumnsUsed,
  readValueColumns,
} from '../store/fact-values.js'
import { FACT_TABLES } from '../store/parts.js'
import { readSessionDays, requestSessionFacts, type SessionDay } from '../store/session-facts.js'

/** How long a point is reused, ms; questions read later events from `events`. */
const POINT_MS = 1_000
/**
 * How long a point is reused if it covers everything accepted so far, ms: only a change of stored events can make it
 * outdated.
 */
const COMPLETE_POINT_MS = 10_000
/** For this long after a step, another one is expected, ms. */
const MOVING_MS = 5_000
/** Maximum number of projects whose points are remembered. */
const MAX_POINTS = 1_000
/** How long a question waits for the facts to follow a change of its project, ms. */
const CHANGE_LIMIT_MS = 1_000
const POLL_MS = 10
/** How long the names of columns are remembered, ms. */
const COLUMNS_MS = 10_000
/** A property gets a column after this many slow questions about it. */
const ENOUGH_QUESTIONS = 3
/** How many properties' slow questions are counted, and how many projects' requests. */
const COUNTED = 1_000
/**
 * How many columns the questions of one project may ask for within ASKED_MS, in this process. A column that is unused
 * for as long can be replaced by one of any project.
 */
const MAX_ASKED = 20
const ASKED_MS = DAY_MS
/** Minimum time before we repeat a request for a column or session facts, or record again that they are in use, ms. */
const REPEAT_MS = HOUR_MS

/**
 * How long the known days of session facts are used before they are read again, ms. Superseded rows are kept for much
 * longer.
 */
const SESSION_DAYS_MS = 10_000
/** Minimum time before a request for session facts is repeated while there are none, ms. */
const ASKED_AGAIN_MS = 60_000

/** The part of a project's facts that questions may read, by shard in the order of `shardNum()`. */
export interface FactsPoint {
  /** null: no facts of this shard may be read */
  shards: readonly (ShardPoint | null)[]
  /** the numbers of these shards */
  order: readonly number[]
  /** whether the facts contain rows of later steps, so that a read has to exclude them by step */
  isStepping: boolean
  /** whether steps follow each other so fast that a read without a bound by step would probably be wasted */
  isMoving: boolean
  /** whether the project may have events that are not in the facts */
  hasLater: boolean
  /** the days with session facts, if questions of the project have asked for them before */
  sessionDays: readonly SessionDay[]
}

/** The last point of a project. */
interface Known {
  point: Omit<FactsPoint, 'isMoving'>
  /** just before it was read */
  readAt: Times
  /** just before it was last read or confirmed, `performance.now()` */
  at: number
  /** when the last read found that a new step had begun, `performance.now()` */
  movedAt: number
  /** the last position accepted before the read, if everything of the project up to it was stored */
  appended: Position | null
}

/**
 * Finds out which facts questions may read. Facts follow `events` in the background, so a question reads the facts of a
 * project up to a point, and later events from `events`. After a change of stored events, the project's facts may not
 * be read until they have followed it.
 */
export class FactsReader {
  readonly #shards: Shards
  readonly #journals: readonly Pick<Journal, 'wakeWriter'>[]
  readonly #repairs: Pick<FactRepairs, 'repair'>
  #columns: { names: ReadonlySet<string>; readAt: number } = { names: new Set(), readAt: Number.NEGATIVE_INFINITY }
  /** by project; the most recently read one is last */
  readonly #points = new Map<string, Known>()
  /**
   * projects whose facts may not be read, because there are none or they have not followed a change in time; and when
   * that was found out, `performance.now()`, the latest last
   */
  readonly #without = new Map<string, number>()
  /** by column: number of slow questions about it, and when it was requested */
  readonly #slow = new RecentValues<{ questions: number; askedAt: number }>(COUNTED)
  /** by project: the columns that were requested, and when */
  readonly #asked = new RecentValues<Map<string, number>>(COUNTED)
  /** by column: when its use was noted */
  readonly #used = new RecentValues<number>(COUNTED)
  /** by project whose questions need session facts: number of slow ones, and when session facts were requested */
  readonly #ofSessions = new RecentValues<{ questions: number; askedAt: number }>(COUNTED)
  /** the numbers of the shards in the order of the tables over all shards, as last read; null if never */
  #order: readonly number[] | null = null

  /** @param journals to wake the process that copies @param repairs default: they are not logged */
  constructor(
    shards: Shards,
    journals: readonly Pick<Journal, 'wakeWriter'>[],
    repairs = new FactRepairs({ warn: () => undefined }),
  ) {
    this.#shards = shards
    this.#journals = journals
    this.#repairs = repairs
  }

  /**
   * Finds the point up to which a project's facts may be read; null if only `events` may be read. Waits up to a second
   * for the facts to follow a change. The point may be a second old, or ten if nothing was accepted since: later events
   * are read from `events`, and a read is checked afterwards and repeated if the facts have changed. So most questions
   * need no statement before their own, and a cheap one after it.
   * @param appended the last position that was accepted, if everything of the project up to there is stored
   * @param signal aborted when the client disconnects, which ends the wait
   */
  async point(projectId: string, appended: Position | null = null, signal?: AbortSignal): Promise<FactsPoint | null> {
    const known = this.#points.get(projectId)
    if (known && isFresh(known, appended)) return toPoint(known, appended)
    if (performance.now() - (this.#without.get(projectId) ?? Number.NEGATIVE_INFINITY) < POINT_MS) return null
    const deadline = performance.now() + CHANGE_LIMIT_MS
    for (;;) {
      const readAt = readClocks()
      const found = await this.#shards.each(({ clickhouse }) => readFactsPoint(clickhouse, projectId))
      const isWaiting = found.some(({ point, isOpen }) => point && isOpen)
      // If the client is gone, the wait below throws.
      if (!isWaiting || (performance.now() > deadline && !signal?.aborted)) {
        // Read the days after the point: whatever voids them is a later change, or was followed before the point.
        const sessionDays = await this.#readSessionDays(projectId)
        const next = await this.#note(projectId, found, { readAt, appended, sessionDays })
        return next && toPoint(next, appended)
      }
      for (const journal of this.#journals) journal.wakeWriter()
      await wait(POLL_MS, undefined, { signal }).catch((cause: unknown) => {
        throw new StoreUnreachableError('The client disconnected.', { cause })
      })
    }
  }

  /** Remembers a point. @param found by the number of the shard */
  async #note(
    projectId: string,
    found: readonly { point: ShardPoint | null; isOpen: boolean }[],
    { readAt, appended, sessionDays }: Pick<Known, 'readAt' | 'appended'> & Pick<FactsPoint, 'sessionDays'>,
  ): Promise<Known | null> {
    const at = readAt.monotonic
    const before = this.#points.get(projectId)
    this.#points.delete(projectId)
    this.#without.delete(projectId)
    const points = found.map(({ point, isOpen }) => (isOpen ? null : point))
    if (!points.some(Boolean)) {
      this.#without.set(projectId, at)
      removeOldest(this.#without)
      return null
    }
    const order = this.#order ?? (await this.#readOrder())
    const shards = order.map((number) => points[number] ?? null)
    const hasMoved = before !== undefined && shards.some((one, i) => one?.begun !== before.point.shards[i]?.begun)
    const movedAt = hasMoved ? at : (before?.movedAt ?? Number.NEGATIVE_INFINITY)
    const point = {
      shards,
      order,
      // A shard whose facts may not be read has none up to step 0.
      isStepping: shards.some((one) => !one || one.isStepping),
      hasLater: shards.some((one) => !one || one.hasLater),
      sessionDays,
    }
    const known = { point, readAt, at, movedAt, appended }
    // While a change is being followed, each question reads the point again.
    if (found.every(({ isOpen }) => !isOpen)) this.#points.set(projectId, known)
    removeOldest(this.#points)
    return known
  }

  /** There are no session facts with several shards, because a session's events may be on any of them. */
  async #readSessionDays(projectId: string): Promise<readonly SessionDay[]> {
    if (this.#shards.areSeveral || !this.#ofSessions.get(projectId)) return []
    const [days = []] = await this.#shards.each(({ clickhouse }) => readSessionDays(clickhouse, projectId))
    return days
  }

  /** An operator may change the order while the service runs. */
  async #readOrder(): Promise<readonly number[]> {
    const order = this.#shards.areSeveral ? await readShardOrder(this.#shards) : [0]
    this.#order = order
    return order
  }

  /**
   * Whether a read that used this point is valid: the facts up to the point have not changed since.
   * @param isBounded whether rows of greater steps were left out
   */
  async stillHolds(projectId: string, point: FactsPoint, isBounded: boolean): Promise<boolean> {
    const at = performance.now()
    const comparing = this.#shards.each(async ({ number, clickhouse }) => {
      const one = point.shards[point.order.indexOf(number)]
      return one ? await compareWithPoint(clickhouse, projectId, one) : 'same'
    })
    const [compared, order] = await Promise.all([comparing, this.#readOrder()])
    const isSameOrder = order.join() === point.order.join()
    const found: typeof compared = isSameOrder ? compared : compared.map(() => 'other')
    const known = this.#points.get(projectId)
    if (known?.point.shards === point.shards) {
      // If no step has begun, the point is still current.
      if (found.includes('other')) this.#points.delete(projectId)
      else if (found.includes('stepped')) known.movedAt = at
      else if (!point.isStepping) known.at = at
    }
    return found.every((one) => one === 'same' || (one === 'stepped' && isBounded)) && (isBounded || !point.isStepping)
  }

  /** The names of the columns of facts that hold values of properties. */
  async readColumns(): Promise<ReadonlySet<string>> {
    if (performance.now() - this.#columns.readAt > COLUMNS_MS) {
      const table = this.#shards.table('event_facts')
      const found = await this.#shards.each(({ clickhouse }) => readValueColumns(clickhouse, table))
      this.#columns = { names: intersect(found), readAt: performance.now() }
    }
    return this.#columns.names
  }

  /** Forgets the columns, because one that a question has read is gone. */
  forgetColumns(): void {
    this.#columns.readAt = Number.NEGATIVE_INFINITY
  }

  /**
   * Has a part of facts, or of a table about them, replaced, because a question could not read it. The copier may never
   * meet the damage, because it reads other columns. Never rejects.
   */
  async noteDamage({ table, part }: UnreadablePart): Promise<void> {
    if (table === null || !FACT_TABLES.includes(table)) return
    if (table === 'session_facts') this.#points.clear()
    const isSure = !this.#shards.areSeveral
    const repairs = this.#shards.all.map((shard) => this.#repairs.repair(shard, { table, part }, { isSure }))
    if ((await Promise.all(repairs)).includes(true)) for (const journal of this.#journals) journal.wakeWriter()
  }

  /**
   * Counts a project's slow question about these values. After enough of them, a value gets a column, or an existing
   * column is completed for older facts. No project can take all columns.
   */
  async noteSlow(projectId: string, sources: readonly ColumnSource[]): Promise<void> {
    const now = performance.now()
    for (const source of sources.filter(mayHaveColumn)) {
      const name = nameValueColumn(source)
      const { questions, askedAt } = this.#slow.get(name) ?? { questions: 0, askedAt: Number.NEGATIVE_INFINITY }
      // The property gets no column if all are in use.
      const isEnough = questions + 1 >= ENOUGH_QUESTIONS && now - askedAt > REPEAT_MS
      const isDue = isEnough && this.#mayAsk(projectId, name, now)
      this.#slow.set(name, isDue ? { questions: 0, askedAt: now } : { questions: questions + 1, askedAt })
      if (isDue) await this.#shards.each(({ clickhouse }) => requestColumn(clickhouse, source))
    }
  }

  /**
   * Notes that a question could use session facts. They are requested after several slow questions of a project.
   * @param isUsed whether it has read some
   */
  async noteSessions(projectId: string, { isUsed, isSlow }: { isUsed: boolean; isSlow: boolean }): Promise<void> {
    if (this.#shards.areSeveral) return
    const now = performance.now()
    const none = { questions: 0, askedAt: Number.NEGATIVE_INFINITY }
    const known = this.#ofSessions.get(projectId)
    // The remembered point has no session days yet.
    if (!known) this.#points.delete(projectId)
    const { questions, askedAt } = known ?? none
    // ClickHouse forgets requests when it restarts.
    const isDue = isUsed
      ? now - askedAt > REPEAT_MS
      : isSlow && questions + 1 >= ENOUGH_QUESTIONS && now - askedAt > ASKED_AGAIN_MS
    const next = { questions: isSlow ? questions + 1 : questions, askedAt }
    this.#ofSessions.set(projectId, isDue ? { questions: 0, askedAt: now } : next)
    if (isDue) await this.#shards.each(({ clickhouse }) => requestSessionFacts(clickhouse, projectId))
  }

  /** Whether a project may request a column; if so, the request is counted. */
  #mayAsk(projectId: string, name: string, now: number): boolean {
    const known = [...(this.#asked.get(projectId) ?? [])].filter(([, at]) => now - at < ASKED_MS)
    const asked = new Map(known)
    if (asked.size >= MAX_ASKED && !asked.has(name)) return false
    this.#asked.set(projectId, asked.set(name, now))
    return true
  }

  /** Notes from time to time which columns questions have read, so that unused ones can make room for others. */
  async noteUsed(names: readonly string[]): Promise<void> {
    const now = performance.now()
    const due = names.filter((name) => now - (this.#used.get(name) ?? Number.NEGATIVE_INFINITY) > REPEAT_MS)
    if (due.length === 0) return
    for (const name of due) this.#used.set(name, now)
    await this.#shards.each(({ clickhouse }) => noteColumnsUsed(clickhouse, due))
  }
}

function intersect(sets: readonly ReadonlySet<string>[]): ReadonlySet<string> {
  const [first = new Set<string>(), ...others] = sets
  return new Set([...first].filter((name) => others.every((set) => set.has(name))))
}

function removeOldest(byProject: Map<string, unknown>): void {
  const [oldest] = byProject.keys()
  if (byProject.size > MAX_POINTS && oldest !== undefined) byProject.delete(oldest)
}

/** Whether a point, including its information about later events, can be reused without reading it again. */
function isFresh({ point, at, readAt, appended: before }: Known, appended: Position | null): boolean {
  // While the host was suspended, superseded rows may have been removed.
  if (measureTime(readAt) > SESSION_DAYS_MS) return false
  const now = performance.now()
  const isSame = appended !== null && appended === before
  if (isSame && !point.hasLater && !point.isStepping) return now - at < COMPLETE_POINT_MS
  const mayBeSure = appended !== null && !isSame && !point.hasLater
  return now - (mayBeSure ? readAt.monotonic : at) < POINT_MS
}

/** @param appended the last position that was accepted now */
function toPoint({ point, movedAt, appended: before }: Known, appended: Position | null): FactsPoint {
  // If nothing was accepted since then, nothing was stored since then.
  const isSure = appended !== null && appended === before
  const isMoving = performance.now() - movedAt < MOVING_MS
  return { ...point, isMoving, hasLater: point.hasLater || !isSure }
}

import type { ClickHouse } from '../clickhouse/client.js'
import { isPassing, isStoreError, isTimeout, isTooLarge, StoreError } from '../clickhouse/errors.js'
import { DAY_MS, HOUR_MS } from '../contract/durations.js'
import { type Backoff, backoffMs } from '../lib/backoff.js'
import { toDay } from '../lib/day.js'
import type { Log } from '../lib/log.js'
import type { Position } from '../model/position.js'
import type { FactLead } from '../store/fact-lead.js'
import { countSessionDays, type DayCount, type DayRange } from '../store/session-days.js'
import {
  findFirstDay,
  readRequestingProjects,
  readSessionDays,
  type SessionDay,
  type SessionFactsMaker,
} from '../store/session-facts.js'

export interface SessionFillerOptions {
  /** the shard */
  clickhouse: ClickHouse
  maker: SessionFactsMaker
  log: Pick<Log, 'info' | 'warn'>
  /** default: `SESSIONS_PACE` */
  pace?: SessionsPace | undefined
  /** how long a question may take, s */
  questionS?: number | undefined
}

/** How often the session facts of a project are checked. */
export interface SessionsPace {
  /** minimum pause between two checks, ms */
  everyMs: number
  /** the pause after a check, as a multiple of the time that the check and its fills took */
  pauseFactor: number
}

const SESSIONS_PACE: SessionsPace = { everyMs: 30_000, pauseFactor: 20 }

/** How often the filler reads which projects need session facts, ms. */
const ASKED_MS = 5_000
/** Interval at which old rows are removed, as a multiple of the minimum pause. */
const PRUNE_FACTOR = 6
/** Superseded and void rows are kept for this time, s, plus the time that a question may take until it reads them. */
const KEPT_S = 600
/** Limits of one statement: days, and their events. That takes some seconds of CPU, and 600 MB of memory. */
const MAX_RANGE_DAYS = 8
const MAX_RANGE_EVENTS = 500_000
/**
 * After a fill has failed, its project gets smaller fills for this long, ms; a single day that failed twice is not
 * retried.
 */
const FAILED_MS = HOUR_MS
/** After this many failures in a row, the whole project pauses for FAILED_MS. */
const MAX_FAILURES = 5
/** Pauses of a project after failures that say nothing about its fills, such as a restart of ClickHouse. */
const RETRY: Backoff = { firstMs: 1_000, maxMs: FAILED_MS }
/** Maximum number of failed days that are remembered. */
const MAX_FAILED = 10_000
/**
 * A day is filled again when the events that arrived since its last fill exceed both this number and this share of all
 * its events. Until then, questions group the sessions of these events themselves. Recent days keep getting events, so
 * they wait for more.
 */
const MANY = {
  recent: { events: 5_000, part: 0.1 },
  older: { events: 500, part: 0.01 },
}
/** How many days count as recent, including today and tomorrow. */
const RECENT_DAYS = 4
/** Oldest day that can have rows, in days before today: ten years. */
const MAX_DAYS = 3_660

/** The days of a project that have to be filled. */
interface Plan {
  definition: string
  /** ranges of days, the next one last */
  ranges: DayRange[]
  /** time that the check and its fills have taken so far, ms */
  tookMs: number
}

/**
 * Keeps the session facts of the projects that need them up to date: it chooses which days to fill next, newest first,
 * and fills them with one statement at a time.
 */
export class SessionFiller {
  readonly #options: SessionFillerOptions
  readonly #pace: SessionsPace
  /** projects that need session facts, in the order of their turns: when to check each next, `performance.now()` */
  readonly #checkAt = new Map<string, number>()
  readonly #plans = new Map<string, Plan>()
  /** by project: the state at the last check that found nothing to do */
  readonly #idleStates = new Map<string, string>()
  /** by project: a lower limit of days per statement, until a time (`performance.now()`) */
  readonly #maxDays = new Map<string, { days: number; until: number }>()
  /** by project: number of consecutive failed fills */
  readonly #failures = new Map<string, number>()
  /** by project: number of consecutive checks and fills that failed for other reasons */
  readonly #interruptions = new Map<string, number>()
  /** by project and day: when a failed day may be retried, `performance.now()` */
  readonly #failed = new Map<string, number>()
  /** keys of the days whose last fill failed for the first time */
  readonly #doubtful = new Set<string>()
  #askedAt = Number.NEGATIVE_INFINITY
  #prunedAt = performance.now()

  constructor(options: SessionFillerOptions) {
    this.#options = options
    this.#pace = options.pace ?? SESSIONS_PACE
  }

  /** Drops all plans, because another process may lead, or the facts were rebuilt. */
  reset(): void {
    this.#plans.clear()
    this.#idleStates.clear()
  }

  /** Whether there may be days to fill. Also removes old rows from time to time. */
  async isDue(lead: FactLead): Promise<boolean> {
    if (performance.now() - this.#askedAt > Math.min(ASKED_MS, this.#pace.everyMs)) {
      this.#askedAt = performance.now()
      await this.#readAsking()
    }
    if (performance.now() - this.#prunedAt > PRUNE_FACTOR * this.#pace.everyMs) {
      this.#prunedAt = performance.now()
      await this.#retire(lead)
      await lead.sessions.prune(KEPT_S + (this.#options.questionS ?? 0))
    }
    const now = performance.now()
    return this.#plans.size > 0 || [...this.#checkAt.values()].some((at) => at <= now)
  }

  /**
   * Fills some days of one project, if any are due.
   * @param stored position up to which everything is stored
   * @returns whether there is more to do
   */
  async fill(lead: FactLead, stored: Position): Promise<boolean> {
    const projectId = (await this.#findPlan(lead, stored)) ?? [...this.#plans.keys()][0]
    if (projectId === undefined) return false
    const began = performance.now()
    const plan = this.#plans.get(projectId)
    // The project moves to the end of the queue.
    this.#plans.delete(projectId)
    const range = plan?.ranges.pop()
    if (plan && range && this.#options.maker.define(projectId) === plan.definition) {
      if (plan.ranges.length > 0) this.#plans.set(projectId, plan)
      await this.#fill(lead, projectId, { range, stored })
      plan.tookMs += performance.now() - began
    }
    const isOver = plan && !this.#plans.has(projectId) && !this.#interruptions.has(projectId)
    if (isOver) this.#pause(projectId, plan.tookMs)
    return this.#plans.size > 0
  }

  async #readAsking(): Promise<void> {
    const asking = await readRequestingProjects(this.#options.clickhouse)
    for (const projectId of this.#checkAt.keys()) if (!asking.has(projectId)) this.#forget(projectId)
    for (const projectId of asking) {
      if (!this.#checkAt.has(projectId)) this.#checkAt.set(projectId, Number.NEGATIVE_INFINITY)
    }
  }

  #forget(projectId: string): void {
    const byProject = [this.#checkAt, this.#plans, this.#idleStates, this.#maxDays, this.#failures, this.#interruptions]
    for (const known of byProject) known.delete(projectId)
  }

  /** Schedules the next check of a project. @param tookMs duration of the last one and its fills */
  #pause(projectId: string, tookMs: number): void {
    const hasFailed = (this.#failures.get(projectId) ?? 0) >= MAX_FAILURES
    const { everyMs, pauseFactor } = this.#pace
    const pauseMs = hasFailed ? FAILED_MS : Math.max(everyMs, pauseFactor * tookMs)
    this.#checkAt.set(projectId, performance.now() + pauseMs)
  }

  /** Schedules the next check of a project after a failure that says nothing about it. */
  #retrySoon(projectId: string): void {
    const failures = (this.#interruptions.get(projectId) ?? 0) + 1
    this.#interruptions.set(projectId, failures)
    this.#checkAt.set(projectId, performance.now() + backoffMs(RETRY, failures))
  }

  /** Checks the projects that are due, until one has days to fill. */
  async #findPlan(lead: FactLead, stored: Position): Promise<string | undefined> {
    for (const [projectId, at] of this.#checkAt) {
      const began = performance.now()
      if (at > began || this.#plans.has(projectId)) continue
      const definition = this.#options.maker.define(projectId)
      const ranges = await this.#choose(lead, { projectId, definition, stored }).catch((error: unknown) => {
        // The other projects still get their turns.
        this.#retrySoon(projectId)
        if (!(error instanceof StoreError) && !isTimeout(error)) throw error
        this.#options.log.warn(
          { err: error, project: projectId },
          'the session facts of a project could not be checked; retrying',
        )
        return null
      })
      if (ranges === null) continue
      if (ranges.length === 0) this.#interruptions.delete(projectId)
      const tookMs = performance.now() - began
      if (ranges.length > 0) {
        this.#plans.set(projectId, { definition, ranges, tookMs })
        return projectId
      }
      this.#pause(projectId, tookMs)
    }
    return undefined
  }

  /** The ranges of days to fill, newest last. */
  async #choose(
    lead: FactLead,
    { projectId, definition, stored }: { projectId: string; definition: string; stored: Position },
  ): Promise<DayRange[]> {
    const { clickhouse } = this.#options
    if ((lead.progress.get(projectId) ?? 0n) === 0n) return []
    const today = Math.floor(Date.now() / DAY_MS)
    // Whatever makes a day stale changes one of these.
    const state = [lead.epoch, lead.step, lead.sessions.voids, stored, today, definition].join(' ')
    if (this.#idleStates.get(projectId) === state) return []
    const all = await readSessionDays(clickhouse, projectId)
    const days = new Map(all.filter((day) => day.definition === definition).map((day) => [day.day, day]))
    const first = this.#firstDay(projectId)
    const counts = await countSessionDays(clickhouse, projectId, [...days.values()])
    const now = performance.now()
    const candidates = findStale(days, counts, { first, today }).filter(
      (day) => (this.#failed.get(toKey(projectId, day)) ?? 0) <= now,
    )
    if (candidates.length === 0) this.#idleStates.set(projectId, state)
    const limit = this.#maxDays.get(projectId)
    return toRanges(candidates, counts, limit && limit.until > now ? limit.days : MAX_RANGE_DAYS).reverse()
  }

  /** The first day that may have rows: nothing of that day or the day before can have expired. */
  #firstDay(projectId: string): number {
    return Math.max(Math.floor(Date.now() / DAY_MS) - MAX_DAYS, findFirstDay(this.#options.maker.since(projectId)))
  }

  /**
   * Voids days of projects that no longer need session facts, days of other definitions, and days whose data may
   * expire.
   */
  async #retire(lead: FactLead): Promise<void> {
    for (const projectId of lead.sessions.projects) {
      if (!this.#checkAt.has(projectId)) await lead.sessions.void(projectId)
      else {
        const isOld = `toInt32(day) < ${this.#firstDay(projectId)}`
        const isOther = `definition != ${BigInt(this.#options.maker.define(projectId))}`
        await lead.sessions.void(projectId, `(${isOld} OR ${isOther})`)
      }
    }
  }

  /** Fills a range of days. If that fails, the next ranges are smaller. */
  async #fill(
    lead: FactLead,
    projectId: string,
    { range, stored }: { range: DayRange; stored: Position },
  ): Promise<void> {
    // Days may have expired since the plan was made.
    const first = Math.max(range.first, this.#firstDay(projectId))
    try {
      if (first <= range.last) {
        const left = { first, last: range.last }
        await this.#tryBoth(lead, projectId, { range: left, stored })
      }
      this.#failures.delete(projectId)
      this.#interruptions.delete(projectId)
      this.#doubtful.delete(toKey(projectId, range.first))
    } catch (error) {
      this.#noteFailure(projectId, range, error)
      // ClickHouse may still be running the statement; the next leader waits for it.
      if (!(error instanceof StoreError)) throw error
    }
    // Without this, a process that has lost the lead would retry forever.
    await lead.assertLeads()
  }

  async #tryBoth(
    lead: FactLead,
    projectId: string,
    { range, stored }: { range: DayRange; stored: Position },
  ): Promise<void> {
    const source = { maker: this.#options.maker, step: lead.step, calls: String(stored) }
    try {
      await lead.sessions.fill(projectId, range, { ...source, repairsTexts: false })
    } catch (error) {
      if (!isStoreError(error, 'FUNCTION_THROW_IF_VALUE_IS_NON_ZERO')) throw error
      await lead.sessions.fill(projectId, range, { ...source, repairsTexts: true })
    }
  }

  /** Makes the next ranges smaller, or postpones a single day that failed, unless something else was the cause. */
  #noteFailure(projectId: string, { first, last }: DayRange, error: unknown): void {
    const isOwn = !isPassing(error) || (isTooLarge(error) && last > first)
    this.#plans.delete(projectId)
    // A column was dropped.
    if (!isOwn || isStoreError(error, 'UNKNOWN_IDENTIFIER')) {
      this.#retrySoon(projectId)
      if (error instanceof StoreError)
        this.#options.log.warn({ err: error, project: projectId }, 'session facts could not be filled; retrying')
      return
    }
    const days = last - first + 1
    const key = toKey(projectId, first)
    if (days === 1 && !this.#doubtful.delete(key)) {
      // Something else may be the cause, such as a ClickHouse that hangs or stops.
      this.#doubtful.add(key)
      this.#retrySoon(projectId)
      return
    }
    const failures = (this.#failures.get(projectId) ?? 0) + 1
    this.#failures.set(projectId, failures)
    const until = performance.now() + FAILED_MS
    if (failures >= MAX_FAILURES) this.#pause(projectId, 0)
    if (days > 1) {
      const fewer = Math.ceil(days / 2)
      this.#maxDays.set(projectId, { days: fewer, until })
      const message = `session facts of several days could not be filled at once; trying ${fewer} at a time`
      this.#options.log.info({ err: error, project: projectId, days }, message)
      return
    }
    if (this.#failed.size >= MAX_FAILED) this.#failed.clear()
    this.#failed.set(key, until)
    const day = toDay(first * DAY_MS)
    this.#options.log.warn(
      { err: error, project: projectId, day },
      'the session facts of a day could not be filled; retrying in an hour, and until then questions group its events',
    )
  }
}

function toKey(projectId: string, day: number): string {
  return `${day} ${projectId}`
}

/** The days without rows, or whose rows lack too many events; newest first. Days without events and calls need none. */
function findStale(
  days: ReadonlyMap<number, SessionDay>,
  counts: ReadonlyMap<number, DayCount>,
  { first, today }: { first: number; today: number },
): number[] {
  const isStale = (day: number, { events, later }: DayCount) => {
    const many = day > today + 1 - RECENT_DAYS ? MANY.recent : MANY.older
    return events > 0 && (!days.has(day) || later > Math.max(many.events, many.part * events))
  }
  return Array.from(counts)
    .filter(([day, count]) => day >= first && day <= today + 1 && isStale(day, count))
    .map(([day]) => day)
    .sort((one, other) => other - one)
}

/** Joins neighbouring days into ranges that fit one statement. @param days the newest first */
function toRanges(days: readonly number[], counts: ReadonlyMap<number, DayCount>, maxDays: number): DayRange[] {
  const countEvents = ({ first, last }: DayRange) => {
    let sum = 0
    for (let day = first; day <= last; day++) sum += counts.get(day)?.events ?? 0
    return sum
  }
  const ranges: DayRange[] = []
  for (const day of days) {
    const range = ranges.at(-1)
    const wider = range && { ...range, first: day }
    const fits =
      wider && range.first === day + 1 && wider.last - day < maxDays && countEvents(wider) <= MAX_RANGE_EVENTS
    if (fits) range.first = day
    else ranges.push({ first: day, last: day })
  }
  return ranges
}

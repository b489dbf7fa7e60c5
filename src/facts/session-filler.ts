import type { ClickHouse } from '../clickhouse/client.js'
import { isStoreError, StoreError } from '../clickhouse/errors.js'
import type { Log } from '../lib/log.js'
import type { Position } from '../model/position.js'
import type { Barrier } from '../reads/read-barrier.js'
import type { FactLead } from '../store/fact-lead.js'
import { countSessionDays, DAY_MS, type DayCount, type DayRange, WINDOW } from '../store/session-days.js'
import {
  findFirstDay,
  readAskingProjects,
  readSessionDays,
  type SessionDay,
  type SessionFactsMaker,
} from '../store/session-facts.js'

export interface SessionFillerOptions {
  /** the shard */
  clickhouse: ClickHouse
  barrier: Pick<Barrier, 'reach'>
  maker: SessionFactsMaker
  log: Pick<Log, 'warn'>
  /** shortest pause between two looks at a project, ms */
  everyMs?: number | undefined
}

/** How often it is checked which projects ask for sessions, ms. */
const ASKED_MS = 5_000
/** Shortest pause between two looks at a project, ms. */
const LOOK_MS = 30_000
/** The pause is this many times as long as the last look took, with the fills that it led to. */
const PAUSE_FACTOR = 20
/** Old rows are removed once in so many shortest pauses. */
const PRUNE_FACTOR = 6
/** Days in one statement, and events that it may read: some seconds of CPU. */
const MOST_DAYS = 8
const MOST_EVENTS = 2_000_000
/** How long smaller fills are made after one that failed, and a day is not tried again that failed alone, ms. */
const FAILED_MS = 3_600_000
/** After so many failures in a row, nothing of the project is tried for as long. */
const MAX_FAILURES = 5
/** Failed days that are remembered. */
const MAX_FAILED = 10_000
/**
 * A day is made again once more events are later than its rows than both this number and this part of the day's own events:
 * questions group the sessions of these. The last days have new events all the time, so they wait for more.
 */
const MANY = {
  lately: { events: 5_000, part: 0.1 },
  before: { events: 500, part: 0.01 },
}
/** The last days, including today and tomorrow. */
const LATELY_DAYS = 4
/** Days before today that may have rows: ten years. */
const MAX_DAYS = 3_660

/** What is to be made of a project. */
interface Plan {
  definition: string
  /** ranges of days, the next one last */
  ranges: DayRange[]
  /** what the look and its fills took so far, ms */
  tookMs: number
}

/**
 * Chooses the days whose sessions are made next, for the projects that ask for them: the newest first, one statement at a
 * time.
 */
export class SessionFiller {
  readonly #options: SessionFillerOptions
  /** by project that asks, in the order of their turns: when to look at it, `performance.now()` */
  readonly #lookAt = new Map<string, number>()
  readonly #plans = new Map<string, Plan>()
  /** by project: what the last look depended on that led to nothing */
  readonly #seen = new Map<string, string>()
  /** by project: the days of a statement, until a time, `performance.now()` */
  readonly #most = new Map<string, { days: number; until: number }>()
  /** by project: fills that failed in a row */
  readonly #failures = new Map<string, number>()
  /** by project and day: not to be tried until a time, `performance.now()` */
  readonly #failed = new Map<string, number>()
  #askedAt = Number.NEGATIVE_INFINITY
  #prunedAt = performance.now()

  constructor(options: SessionFillerOptions) {
    this.#options = options
  }

  /** Forgets what it was to do, because another process may lead or the facts are others. */
  reset(): void {
    this.#plans.clear()
    this.#seen.clear()
  }

  /** Whether something may have to be made. Also removes what is old, from time to time. */
  async isDue(lead: FactLead): Promise<boolean> {
    if (performance.now() - this.#askedAt > Math.min(ASKED_MS, this.#everyMs)) {
      this.#askedAt = performance.now()
      await this.#readAsking()
    }
    if (performance.now() - this.#prunedAt > PRUNE_FACTOR * this.#everyMs) {
      this.#prunedAt = performance.now()
      await this.#retire(lead)
      await lead.sessions.prune()
    }
    const now = performance.now()
    return this.#plans.size > 0 || [...this.#lookAt.values()].some((at) => at <= now)
  }

  /** Makes the sessions of some days of one project, if there are any to be made. @returns whether there is more to do */
  async fill(lead: FactLead): Promise<boolean> {
    const projectId = (await this.#look(lead)) ?? [...this.#plans.keys()][0]
    if (projectId === undefined) return false
    const began = performance.now()
    const plan = this.#plans.get(projectId)
    // Moves it to the end of the queue.
    this.#plans.delete(projectId)
    const range = plan?.ranges.pop()
    if (plan && range && this.#options.maker.define(projectId) === plan.definition) {
      if (plan.ranges.length > 0) this.#plans.set(projectId, plan)
      await this.#fill(lead, projectId, range)
      plan.tookMs += performance.now() - began
    }
    if (plan && !this.#plans.has(projectId)) this.#pause(projectId, plan.tookMs)
    return this.#plans.size > 0
  }

  get #everyMs(): number {
    return this.#options.everyMs ?? LOOK_MS
  }

  async #readAsking(): Promise<void> {
    const asking = await readAskingProjects(this.#options.clickhouse)
    for (const projectId of this.#lookAt.keys()) if (!asking.has(projectId)) this.#forget(projectId)
    for (const projectId of asking) {
      if (!this.#lookAt.has(projectId)) this.#lookAt.set(projectId, Number.NEGATIVE_INFINITY)
    }
  }

  #forget(projectId: string): void {
    for (const known of [this.#lookAt, this.#plans, this.#seen, this.#most, this.#failures]) known.delete(projectId)
  }

  /** Plans the next look at a project. @param tookMs the last one, with its fills */
  #pause(projectId: string, tookMs: number): void {
    const hasFailed = (this.#failures.get(projectId) ?? 0) >= MAX_FAILURES
    const pauseMs = hasFailed ? FAILED_MS : Math.max(this.#everyMs, PAUSE_FACTOR * tookMs)
    this.#lookAt.set(projectId, performance.now() + pauseMs)
  }

  /** Looks at the projects that are due, up to the first one that something has to be made of. */
  async #look(lead: FactLead): Promise<string | undefined> {
    for (const [projectId, at] of this.#lookAt) {
      const began = performance.now()
      if (at > began || this.#plans.has(projectId)) continue
      const definition = this.#options.maker.define(projectId)
      const ranges = await this.#choose(lead, projectId, definition).catch((error: unknown) => {
        // Others have their turn all the same.
        if (!(error instanceof StoreError)) throw error
        this.#options.log.warn({ err: error, project: projectId }, 'the sessions of a project could not be counted')
        return null
      })
      if (ranges === null) {
        this.#lookAt.set(projectId, performance.now() + FAILED_MS)
        continue
      }
      const tookMs = performance.now() - began
      if (ranges.length > 0) {
        this.#plans.set(projectId, { definition, ranges, tookMs })
        return projectId
      }
      this.#pause(projectId, tookMs)
    }
    return undefined
  }

  /** The ranges of days that have to be made, the newest last. */
  async #choose(lead: FactLead, projectId: string, definition: string): Promise<DayRange[]> {
    const { clickhouse, barrier } = this.#options
    if ((lead.progress.get(projectId) ?? 0n) === 0n) return []
    const today = Math.floor(Date.now() / DAY_MS)
    const { stored } = await barrier.reach()
    // Whatever makes a day stale changes one of these.
    const state = [lead.epoch, lead.step, lead.sessions.voids, stored, today, definition].join(' ')
    if (this.#seen.get(projectId) === state) return []
    const all = await readSessionDays(clickhouse, projectId)
    const days = new Map(all.filter((day) => day.definition === definition).map((day) => [day.day, day]))
    const first = this.#firstDay(projectId)
    const counts = await countSessionDays(clickhouse, projectId, [...days.values()])
    const now = performance.now()
    const candidates = findStale(days, counts, { first, today }).filter(
      (day) => (this.#failed.get(toKey(projectId, day)) ?? 0) <= now,
    )
    if (candidates.length === 0) this.#seen.set(projectId, state)
    const most = this.#most.get(projectId)
    return toRanges(candidates, counts, most && most.until > now ? most.days : MOST_DAYS).reverse()
  }

  /** The first day that may have rows: no call and no event of it, or of the day before, can have expired. */
  #firstDay(projectId: string): number {
    return Math.max(Math.floor(Date.now() / DAY_MS) - MAX_DAYS, findFirstDay(this.#options.maker.since(projectId)))
  }

  /** Voids the days of projects that no longer ask, those of other definitions, and those that may expire. */
  async #retire(lead: FactLead): Promise<void> {
    for (const projectId of lead.sessions.projects) {
      if (!this.#lookAt.has(projectId)) await lead.sessions.void(projectId)
      else {
        const isOld = `toInt32(day) < ${this.#firstDay(projectId)}`
        const isOther = `definition != ${BigInt(this.#options.maker.define(projectId))}`
        await lead.sessions.void(projectId, `(${isOld} OR ${isOther})`)
      }
    }
  }

  /** Makes the sessions of a range. If that fails, the next ranges are smaller. */
  async #fill(lead: FactLead, projectId: string, range: DayRange): Promise<void> {
    // Nothing is left of some, if events have expired in the meantime.
    const first = Math.max(range.first, this.#firstDay(projectId))
    try {
      // Before anything is read.
      const { stored } = await this.#options.barrier.reach()
      if (first <= range.last) {
        const left = { first, last: range.last }
        await this.#tryBoth(lead, projectId, { range: left, stored })
      }
      this.#failures.delete(projectId)
    } catch (error) {
      this.#noteFailure(projectId, range, error)
      // ClickHouse may still be at it: the next lead waits for that.
      if (!(error instanceof StoreError)) throw error
    }
    // Otherwise, a process that has lost the lead would try again and again.
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

  /** Has the rest of the plan made in smaller ranges, and what has failed alone later. */
  #noteFailure(projectId: string, { first, last }: DayRange, error: unknown): void {
    const failures = (this.#failures.get(projectId) ?? 0) + 1
    this.#failures.set(projectId, failures)
    const until = performance.now() + FAILED_MS
    const days = last - first + 1
    this.#plans.delete(projectId)
    if (failures >= MAX_FAILURES) this.#pause(projectId, 0)
    if (days > 1) {
      this.#most.set(projectId, { days: Math.ceil(days / 2), until })
      return
    }
    if (this.#failed.size >= MAX_FAILED) this.#failed.clear()
    this.#failed.set(toKey(projectId, first), until)
    const day = new Date(first * DAY_MS).toISOString().slice(0, 10)
    this.#options.log.warn(
      { err: error, project: projectId, day },
      'the sessions of a day could not be kept as rows: questions group its events, and it is tried again in an hour',
    )
  }
}

function toKey(projectId: string, day: number): string {
  return `${day} ${projectId}`
}

/**
 * The days that have no rows, or rows that lack too much; the newest first. Of a day without events and calls, nothing has
 * to be made.
 */
function findStale(
  days: ReadonlyMap<number, SessionDay>,
  counts: ReadonlyMap<number, DayCount>,
  { first, today }: { first: number; today: number },
): number[] {
  const isStale = (day: number, { events, later }: DayCount) => {
    const many = day > today + 1 - LATELY_DAYS ? MANY.lately : MANY.before
    return events > 0 && (!days.has(day) || later > Math.max(many.events, many.part * events))
  }
  return Array.from(counts)
    .filter(([day, count]) => day >= first && day <= today + 1 && isStale(day, count))
    .map(([day]) => day)
    .sort((one, other) => other - one)
}

/** Ranges of neighbouring days that one statement can make. @param days the newest first */
function toRanges(days: readonly number[], counts: ReadonlyMap<number, DayCount>, most: number): DayRange[] {
  const read = ({ first, last }: DayRange) => {
    let sum = 0
    for (let day = first - WINDOW.before; day <= last + WINDOW.after; day++) sum += counts.get(day)?.events ?? 0
    return sum
  }
  const ranges: DayRange[] = []
  for (const day of days) {
    const range = ranges.at(-1)
    const wider = range && { ...range, first: day }
    const fits = wider && range.first === day + 1 && wider.last - day < most && read(wider) <= MOST_EVENTS
    if (fits) range.first = day
    else ranges.push({ first: day, last: day })
  }
  return ranges
}

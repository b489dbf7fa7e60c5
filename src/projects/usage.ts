import { randomUUID } from 'node:crypto'
import type { Shards } from '../clickhouse/shards.js'
import type { CommitMetrics } from '../ingest/group-commit.js'
import { toDay } from '../lib/day.js'
import type { Log } from '../lib/log.js'
import { pause } from '../lib/pause.js'
import { readUsage, type UsageCount, type Used, type UsedOnDay, writeUsage } from '../store/project-usage.js'

/** How often the counts are stored. A process that is killed loses what it has counted since. */
const WRITE_MS = 10_000
const DAY_MS = 86_400_000
const NOTHING: Used = { events: 0, bytes: 0, readMs: 0 }

export interface UsageOptions {
  shards: Shards
  /** of the lanes */
  commits: readonly { metrics: Pick<CommitMetrics, 'byProject'> }[]
  log: Pick<Log, 'warn'>
  closing: AbortSignal
  /** default: ten seconds */
  everyMs?: number | undefined
  /** epoch ms; default: the clock */
  now?: (() => number) | undefined
}

/** Events of a project that are being accepted. */
export interface Accepting {
  /** may not be counted yet */
  readonly pending: number
}

/** The first day of the month of a time. */
function toMonthStart(ms: number): string {
  return `${toDay(ms).slice(0, 7)}-01`
}

/** The first day of the usage that ends on a day, by default. */
export function toUsageStart(to: string): string {
  return toDay(Math.max(0, Date.parse(to) - 30 * DAY_MS))
}

/** Finds the end of the day or month of a time, which is the first moment of the next one, epoch ms. */
export function findPeriodEnd(period: 'day' | 'month', ms: number): number {
  const time = new Date(ms)
  if (period === 'day') return Math.floor(ms / DAY_MS) * DAY_MS + DAY_MS
  return Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + 1, 1)
}

/**
 * Counts what projects use by day: the events and bytes that the journal has accepted, and the time of their reads.
 * Each process stores its own counts every few seconds; the usage is the sum over all processes.
 *
 * Not promised: a process that is killed loses the counts of its last seconds, and events that it accepted just before
 * midnight may count for the next day.
 */
export class Usage {
  readonly #options: UsageOptions
  /** the day of the last count, and the id of this process on it */
  #current = { day: '', process: randomUUID() }
  readonly #reads = new Map<string, number>()
  /** by project: the earlier counts of the journals and the reads */
  readonly #noted = new Map<string, Used>()
  /** by project: what this process has counted on its last day */
  readonly #today = new Map<string, UsageCount>()
  readonly #accepting = new Map<string, Accepting>()
  /** projects whose stored counts include events that were still being accepted */
  readonly #ahead = new Set<string>()
  readonly #changed = new Set<string>()
  /** counts of days that ended before they were stored */
  #late: UsageCount[] = []
  #writing: Promise<void> = Promise.resolve()
  #isFailing = false

  constructor(options: UsageOptions) {
    this.#options = options
  }

  /** Counts a read of a project. */
  countRead(projectId: string, ms: number): void {
    this.#reads.set(projectId, (this.#reads.get(projectId) ?? 0) + ms)
  }

  /** Stores the counts every few seconds. */
  async start(): Promise<void> {
    const { everyMs = WRITE_MS, closing } = this.#options
    while (!closing.aborted) {
      await pause(everyMs, closing)
      await this.write().catch(() => undefined)
    }
  }

  /** This process's counts of a project for today. */
  own(projectId: string): Used {
    this.#note(projectId)
    const count = this.#today.get(projectId)
    return count?.process === this.#now().process ? count : NOTHING
  }

  /** Stores the events of a project that are being accepted with its counts, so that other processes see them, too. */
  include(projectId: string, accepting: Accepting): void {
    this.#accepting.set(projectId, accepting)
  }

  /** Stores this process's counts. @throws StoreUnreachableError, StoreError */
  async write(): Promise<void> {
    const { shards, commits, log } = this.#options
    const projects = new Set([
      ...commits.flatMap(({ metrics }) => [...metrics.byProject.keys()]),
      ...this.#reads.keys(),
    ])
    for (const project of projects) this.#note(project)
    for (const [project, { pending }] of this.#accepting) {
      if (pending > 0 || this.#ahead.has(project)) this.#add(project, NOTHING)
      if (pending > 0) this.#ahead.add(project)
      else this.#ahead.delete(project)
    }
    const ids = [...this.#changed]
    this.#changed.clear()
    const late = this.#late.splice(0)
    const latest = ids.flatMap((id) => this.#today.get(id) ?? [])
    const counts = [...late, ...latest.map((count) => this.#withPending(count))]
    // One after the other, so that an older count never follows a newer one.
    const written = this.#writing.then(() => writeUsage(shards, counts))
    this.#writing = written.catch(() => undefined)
    try {
      await written
      this.#isFailing = false
    } catch (error) {
      for (const count of latest) {
        if (this.#today.get(count.projectId)?.process === count.process) this.#changed.add(count.projectId)
        else late.push(count)
      }
      this.#late.unshift(...late)
      if (!this.#isFailing) log.warn({ err: error }, 'the usage of the projects could not be stored; retrying')
      this.#isFailing = true
      throw error
    }
  }

  /**
   * A project's usage by day, earliest first. Includes the counts that other processes have stored. Stores nothing, so
   * it costs no INSERT.
   * @param from the first day, such as `2026-11-26`
   * @param to the last one
   */
  async read(projectId: string, { from, to }: { from: string; to: string }): Promise<Map<string, Used>> {
    const without = this.#now()
    const { events, bytes, readMs } = this.own(projectId)
    const found = await readUsage(this.#options.shards, [projectId], { from, to, without })
    const days = new Map<string, Used>(found.get(projectId))
    if (events + bytes + readMs > 0 && from <= without.day && without.day <= to) {
      const others = days.get(without.day) ?? NOTHING
      days.set(without.day, {
        events: others.events + events,
        bytes: others.bytes + bytes,
        readMs: others.readMs + readMs,
      })
    }
    return new Map([...days].sort(([a], [b]) => (a < b ? -1 : 1)))
  }

  /**
   * Reads the counts of this month by project and day, except for those that `own` returns.
   * @throws StoreUnreachableError, StoreError
   */
  async others(projectIds: readonly string[], limitMs: number): Promise<Map<string, Map<string, UsedOnDay>>> {
    const { shards } = this.#options
    const without = this.#now()
    const now = Date.parse(without.day)
    // A clock that was ahead may have counted for later months.
    const month = { from: toMonthStart(now), to: toDay(findPeriodEnd('month', now) - DAY_MS) }
    return await readUsage(shards, projectIds, { ...month, without }, limitMs)
  }

  /** Adds what was accepted since the last call to the count of today. */
  #note(projectId: string): void {
    const now = this.#count(projectId)
    const before = this.#noted.get(projectId) ?? NOTHING
    const added = {
      events: now.events - before.events,
      bytes: now.bytes - before.bytes,
      readMs: now.readMs - before.readMs,
    }
    if (added.events === 0 && added.bytes === 0 && added.readMs === 0) return
    this.#noted.set(projectId, now)
    this.#add(projectId, added)
  }

  #add(projectId: string, added: Used): void {
    const { day, process } = this.#now()
    const last = this.#today.get(projectId)
    if (last && last.process !== process && this.#changed.has(projectId)) this.#late.push(last)
    const base = last?.process === process ? last : { ...NOTHING, version: 0 }
    this.#today.set(projectId, {
      projectId,
      day,
      process,
      events: base.events + added.events,
      bytes: base.bytes + added.bytes,
      readMs: base.readMs + added.readMs,
      version: base.version + 1,
    })
    this.#changed.add(projectId)
  }

  #withPending(count: UsageCount): UsageCount {
    const { pending = 0 } = this.#accepting.get(count.projectId) ?? {}
    return pending === 0 ? count : { ...count, events: count.events + pending }
  }

  #count(projectId: string): Used {
    const sums = { ...NOTHING, readMs: this.#reads.get(projectId) ?? 0 }
    for (const { metrics } of this.#options.commits) {
      const own = metrics.byProject.get(projectId)
      sums.events += own?.events ?? 0
      sums.bytes += own?.bytes ?? 0
    }
    return sums
  }

  /**
   * Today, and the id of this process. The id changes every day, so that nothing is replaced if the clock is set back
   * to a day on which the process has already counted.
   */
  #now(): { day: string; process: string } {
    const day = toDay((this.#options.now ?? Date.now)())
    if (day !== this.#current.day) this.#current = { day, process: randomUUID() }
    return this.#current
  }
}

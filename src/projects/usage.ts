import { randomUUID } from 'node:crypto'
import type { Shards } from '../clickhouse/shards.js'
import { DAY_MS, HOUR_MS } from '../contract/durations.js'
import type * as responses from '../contract/responses.js'
import type { CommitMetrics } from '../ingest/group-commit.js'
import { toDay } from '../lib/day.js'
import type { Log } from '../lib/log.js'
import { OutageLog } from '../lib/outage-log.js'
import { pause } from '../lib/pause.js'
import { claimJobTurn } from '../store/job-turns.js'
import {
  readStoredBytes,
  readUsage,
  type UsageCount,
  type UsedOnDay,
  writeStoredBytes,
  writeUsage,
} from '../store/project-usage.js'
import type { ReadLog } from '../store/read-log.js'

/** How often the counts are stored. A process that is killed loses what it has counted since. */
const WRITE_MS = 10_000
/** How often the CPU time of reads is asked for. */
const READ_LOG_MS = 30_000
/** The turn of the process that measures what the projects have on the disks. */
const MEASURING = 'stored bytes'

export interface UsageOptions {
  shards: Shards
  /** of the lanes */
  commits: readonly { metrics: Pick<CommitMetrics, 'byProject'> }[]
  log: Pick<Log, 'info' | 'warn'>
  closing: AbortSignal
  /** default: none, so the CPU time of reads is unknown */
  readLog?: Pick<ReadLog, 'readNew'> | undefined
  /** default: ten seconds */
  everyMs?: number | undefined
  /** epoch ms; default: the clock */
  now?: (() => number) | undefined
}

/** What one process has counted. */
interface Counted {
  events: number
  bytes: number
  readCpuMs: number
}

const NOTHING: Counted = { events: 0, bytes: 0, readCpuMs: 0 }

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

/** What a project has used on a day, as answers have it. */
export function describeDay(day: string, { events, bytes, storedBytes, readCpuMs }: UsedOnDay): responses.UsedOnDay {
  const read_cpu_seconds = readCpuMs === null ? null : Math.round(readCpuMs) / 1000
  return { day, events, bytes, stored_bytes: storedBytes, read_cpu_seconds }
}

/** Finds the end of the day or month of a time, which is the first moment of the next one, epoch ms. */
export function findPeriodEnd(period: 'day' | 'month', ms: number): number {
  const time = new Date(ms)
  if (period === 'day') return Math.floor(ms / DAY_MS) * DAY_MS + DAY_MS
  return Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + 1, 1)
}

/**
 * Counts what projects use by day: the events and bytes that the journal has accepted, and the CPU time of their reads.
 * Each process stores its own counts every few seconds; the usage is the sum over all processes. Once an hour, one of
 * them measures what each project has on the disks.
 *
 * Not promised: a process that ends loses the counts of its last seconds, and events that it accepted just before
 * midnight may count for the next day.
 */
export class Usage {
  readonly #options: UsageOptions
  /** the day of the last count, and the id of this process on it */
  #current = { day: '', process: randomUUID() }
  /** by project: CPU time of its reads, ms */
  readonly #reads = new Map<string, number>()
  /** whether ClickHouse reports the CPU time of reads */
  #knowsReads = true
  /** the last hour in which this process asked for the turn to measure, epoch ms */
  #hour = 0
  /** by project: the earlier counts of the journals and the reads */
  readonly #noted = new Map<string, Counted>()
  /** by project: what this process has counted on its last day */
  readonly #today = new Map<string, UsageCount & Counted>()
  readonly #accepting = new Map<string, Accepting>()
  /** projects whose stored counts include events that were still being accepted */
  readonly #ahead = new Set<string>()
  readonly #changed = new Set<string>()
  /** counts of days that ended before they were stored */
  #late: (UsageCount & Counted)[] = []
  #writing: Promise<void> = Promise.resolve()
  readonly #readLogOutage: OutageLog
  readonly #writeOutage: OutageLog

  constructor(options: UsageOptions) {
    this.#options = options
    this.#readLogOutage = new OutageLog(options.log, {
      failed: 'could not get the CPU time of reads; retrying',
      recovered: 'the CPU time of reads is counted again',
    })
    this.#writeOutage = new OutageLog(options.log, {
      failed: 'the usage of the projects could not be stored; retrying',
      recovered: 'the usage of the projects was stored again',
    })
  }

  /** Stores the counts every few seconds, counts reads, and measures what is on the disks. */
  async start(): Promise<void> {
    const { everyMs = WRITE_MS } = this.#options
    await Promise.all([
      this.#repeat(everyMs, () => this.write()),
      this.#repeat(READ_LOG_MS, () => this.countReads()),
      this.#repeat(everyMs, () => this.measure()),
    ])
  }

  async #repeat(ms: number, run: () => Promise<void>): Promise<void> {
    const { closing } = this.#options
    while (!closing.aborted) {
      await pause(ms, closing)
      await run().catch(() => undefined)
    }
  }

  /** Counts the reads that ClickHouse has logged since the last call. @throws StoreUnreachableError, StoreError */
  async countReads(): Promise<void> {
    const { readLog, shards } = this.#options
    const found = (await readLog?.readNew(shards).catch(this.#noteUnreadLog)) ?? null
    this.#readLogOutage.noteSuccess()
    const isKnown = found !== null
    if (isKnown !== this.#knowsReads) {
      this.#knowsReads = isKnown
      // The stored counts say whether it is known.
      const { process } = this.#now()
      for (const [projectId, last] of this.#today) if (last.process === process) this.#add(projectId, NOTHING)
    }
    for (const [projectId, ms] of found ?? []) this.#reads.set(projectId, (this.#reads.get(projectId) ?? 0) + ms)
  }

  readonly #noteUnreadLog = (error: unknown): never => {
    if (!this.#options.closing.aborted) this.#readLogOutage.noteFailure(error)
    throw error
  }

  /**
   * Stores what each project has on the disks, unless that was already done in this hour.
   * @throws StoreUnreachableError, StoreError
   */
  async measure(): Promise<void> {
    const { shards, log, closing, now = Date.now } = this.#options
    const hour = Math.floor(now() / HOUR_MS) * HOUR_MS
    if (hour === this.#hour) return
    const isDue = await claimJobTurn(shards, MEASURING, hour)
    this.#hour = hour
    if (!isDue) return
    try {
      const day = toDay(hour)
      const bytes = await readStoredBytes(shards, null)
      const earlier = await readUsage(shards, null, { from: day, to: day })
      for (const projectId of earlier.keys()) if (!bytes.has(projectId)) bytes.set(projectId, 0)
      await writeStoredBytes(shards, day, bytes, hour)
    } catch (error) {
      if (!closing.aborted) {
        log.warn({ err: error }, 'what the projects have on the disks could not be measured; retrying in the next hour')
      }
      throw error
    }
  }

  /** This process's counts of a project for today. */
  own(projectId: string): Counted {
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
    const { shards, commits } = this.#options
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
    const rows = counts.map((count): UsageCount => ({ ...count, readCpuMs: this.#ifKnown(count.readCpuMs) }))
    // One after the other, so that an older count never follows a newer one.
    const written = this.#writing.then(() => writeUsage(shards, rows))
    this.#writing = written.catch(() => undefined)
    try {
      await written
      this.#writeOutage.noteSuccess()
    } catch (error) {
      for (const count of latest) {
        if (this.#today.get(count.projectId)?.process === count.process) this.#changed.add(count.projectId)
        else late.push(count)
      }
      this.#late.unshift(...late)
      this.#writeOutage.noteFailure(error)
      throw error
    }
  }

  /**
   * A project's usage by day, earliest first. Includes the counts that other processes have stored. Stores nothing, so
   * it costs no INSERT.
   * @param from the first day, such as `2026-11-26`
   * @param to the last one
   */
  async read(projectId: string, { from, to }: { from: string; to: string }): Promise<Map<string, UsedOnDay>> {
    const without = this.#now()
    const { events, bytes, readCpuMs } = this.own(projectId)
    const found = await readUsage(this.#options.shards, [projectId], { from, to, without })
    const days = new Map(found.get(projectId))
    if (events + bytes + readCpuMs > 0 && from <= without.day && without.day <= to) {
      const others = days.get(without.day) ?? { ...NOTHING, storedBytes: 0, processes: 0 }
      days.set(without.day, {
        events: others.events + events,
        bytes: others.bytes + bytes,
        storedBytes: others.storedBytes,
        readCpuMs: others.readCpuMs === null ? null : this.#ifKnown(others.readCpuMs + readCpuMs),
        processes: others.processes + 1,
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
      readCpuMs: now.readCpuMs - before.readCpuMs,
    }
    if (added.events === 0 && added.bytes === 0 && added.readCpuMs === 0) return
    this.#noted.set(projectId, now)
    this.#add(projectId, added)
  }

  #add(projectId: string, added: Counted): void {
    const { day, process } = this.#now()
    const last = this.#today.get(projectId)
    const hasNewDay = last !== undefined && last.process !== process
    // Events that were being accepted at the last write count on the new day.
    if (hasNewDay && (this.#ahead.delete(projectId) || this.#changed.has(projectId))) {
      this.#late.push({ ...last, version: last.version + 1 })
    }
    const base = last?.process === process ? last : { ...NOTHING, version: 0 }
    this.#today.set(projectId, {
      projectId,
      day,
      process,
      events: base.events + added.events,
      bytes: base.bytes + added.bytes,
      readCpuMs: base.readCpuMs + added.readCpuMs,
      version: base.version + 1,
    })
    this.#changed.add(projectId)
  }

  #ifKnown(readCpuMs: number): number | null {
    return this.#knowsReads ? readCpuMs : null
  }

  #withPending(count: UsageCount & Counted): UsageCount & Counted {
    const { pending = 0 } = this.#accepting.get(count.projectId) ?? {}
    return pending === 0 ? count : { ...count, events: count.events + pending }
  }

  #count(projectId: string): Counted {
    const sums = { ...NOTHING, readCpuMs: this.#reads.get(projectId) ?? 0 }
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

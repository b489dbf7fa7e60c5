import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { ClickHouse } from '../clickhouse/client.js'
import { findUnreadablePart, isTooLarge, StoreUnreachableError } from '../clickhouse/errors.js'
import type { Journal } from '../journal/journal.js'
import { type Backoff, backoffMs } from '../lib/backoff.js'
import type { Log } from '../lib/log.js'
import { idNumber, lastIdAt } from '../model/event-id.js'
import type { Barrier } from '../reads/read-barrier.js'
import {
  type EventChange,
  forgetSettledChanges,
  LEFT_MS,
  readLeftOut,
  readOpenChanges,
} from '../store/event-changes.js'
import { isCarriedOut, isDiskShort } from '../store/fact-backlog.js'
import { FactLead, LeadLostError } from '../store/fact-lead.js'
import { type CountedRange, FactBacklog } from './fact-backlog.js'
import { StepSize } from './step-size.js'

export interface FactCopierOptions {
  /** the shard */
  clickhouse: ClickHouse
  barrier: Pick<Barrier, 'reach'>
  journals: readonly Pick<Journal, 'depth' | 'listen'>[]
  /** whether to copy; if not, the shard's facts are removed */
  isOn: boolean
  /** whether other processes may copy, too */
  isShared: boolean
  log: Pick<Log, 'info' | 'warn'>
  /** a project with fewer events has no facts; default: every project has */
  least?: number
  /** what a step copies at most */
  most?: { rows: number; bytes: number }
  /** after how many events of a project its properties are looked at again */
  guessEvery?: number
  /** pause between two looks for new events, ms */
  pauseMs?: number
  /** how long a change that has not ended is waited for, ms */
  abandonedMs?: number
  /** how long one is, whose statements can be kept from having an effect, ms */
  overdueMs?: number
}

/** 0.3 s of CPU and 250 MB of memory, for ordinary events. */
const MOST = { rows: 100_000, bytes: 64 * 1024 * 1024 }
/** After this many events of a project, new properties may have become frequent. */
const GUESS_EVERY = 1_000_000
/** A step, and following changes, cost some 10 ms and make parts to be merged, however little there is. */
const PAUSE_MS = 1_000
/** How often a process that does not lead looks whether it has to. */
const FOLLOWER_PAUSE_MS = 3_000
/** How often a leader that has nothing to do says that it leads. */
const BEAT_MS = 3_000
/** How often changes that were followed are removed. */
const FORGET_MS = 5 * 60_000
/** How often the disk is looked at. */
const DISK_MS = 10_000
/** Readers that wait for a change may wake the copier more often than that is worthwhile. */
const MIN_PAUSE_MS = 10
/** Changes after which other events wait. */
const ASKED = new Set<string>(['rebuild', 'leave_out', 'take_in'])
/** Changes that are followed before the next step of copying: all that name some thousand events, or one. */
const EVENTS_TOGETHER = 2_000
/** The journals wait for the store with more than this: copying yields. */
const BACKLOG_BYTES = 16 * 1024 * 1024
/** Longer than any statement that changes events is waited for, by twice. */
const ABANDONED_MS = 4 * 60_000
/** Edits and single deletions take a second at most. One that takes longer is left, because its process may be dead. */
const OVERDUE_MS = 10_000
/** How long the end of a statement is waited for when the service stops. */
const CLOSE_MS = 2_000
const BACKOFF: Backoff = { firstMs: 200, maxMs: 30_000 }

/**
 * Copies stored events into the facts of a shard, in the background, and makes the facts follow what changes events. Of
 * all processes that may, one does it.
 *
 * Copying never makes an event wait: it takes one thread of a low priority, and pauses while the journals have a backlog.
 */
export class FactCopier {
  readonly #options: FactCopierOptions
  readonly #process = randomUUID()
  readonly #stop = new AbortController()
  readonly #stopListening: (() => void)[]
  #lead: FactLead | null = null
  #backlog: FactBacklog
  #running: Promise<void> | null = null
  #wake: (() => void) | null = null
  #isWoken = false
  #beatAt = 0
  /** when settled changes were last removed */
  #forgotAt = Number.NEGATIVE_INFINITY
  /** when new events were last looked for */
  #lookedAt = Number.NEGATIVE_INFINITY
  #disk = { isShort: false, lookedAt: Number.NEGATIVE_INFINITY }
  readonly #size: StepSize
  /** by project: events that were copied since its properties were looked at */
  readonly #unseen = new Map<string, number>()

  constructor(options: FactCopierOptions) {
    this.#options = options
    this.#size = new StepSize(options.most ?? MOST)
    this.#backlog = this.#newBacklog(new Set())
    this.#stopListening = options.journals.map((journal) => journal.listen({ onWake: () => this.wake() }))
  }

  #newBacklog(leftOut: ReadonlySet<string>): FactBacklog {
    const { clickhouse, least = 0 } = this.#options
    return new FactBacklog(clickhouse, { least, leftOut, most: this.#size.most, last: this.#size.failed })
  }

  async #resetBacklog(): Promise<void> {
    this.#lookedAt = Number.NEGATIVE_INFINITY
    this.#backlog = this.#newBacklog(await readLeftOut(this.#options.clickhouse))
  }

  /** Stored events that facts do not have, at most, as of the last look; null if this process does not copy. */
  get waiting(): number | null {
    return this.#lead && this.#options.isOn ? this.#backlog.rows : null
  }

  /** Whether nothing is copied for lack of disk, as of the last look; null if this process does not copy. */
  get isShortOfDisk(): boolean | null {
    return this.#lead && this.#options.isOn ? this.#disk.isShort : null
  }

  start(): void {
    this.#running ??= this.#run()
  }

  /** Looks for changes soon, because a reader waits for them. Only ever a hint. */
  wake(): void {
    this.#isWoken = true
    this.#wake?.()
  }

  async close(): Promise<void> {
    for (const stop of this.#stopListening) stop()
    this.#stop.abort()
    this.#wake?.()
    // What it has sent goes on without it: the next leader waits for that.
    await Promise.race([this.#running, wait(CLOSE_MS, undefined, { ref: false })])
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop
    let failures = 0
    while (!signal.aborted) {
      try {
        this.#lead ??= await this.#takeLead()
        const isMore = this.#lead !== null && (await this.#round(this.#lead))
        failures = 0
        if (!isMore) await this.#pause(this.#lead ? (this.#options.pauseMs ?? PAUSE_MS) : FOLLOWER_PAUSE_MS)
      } catch (error) {
        // Whatever was carried out of it, the next lead finds out.
        this.#lead = null
        if (signal.aborted) break
        failures++
        await this.#report(error, failures)
        await wait(backoffMs(BACKOFF, failures), undefined, { signal }).catch(() => undefined)
      }
    }
    await this.#lead?.release().catch(() => undefined)
  }

  async #report(error: unknown, failures: number): Promise<void> {
    if (error instanceof LeadLostError) return
    // The writer logs that ClickHouse is unavailable; but a connection may also break because of a statement.
    if (error instanceof StoreUnreachableError && !isTooLarge(error) && !(await this.#isReachable())) return
    this.#options.log.warn({ err: error, failures }, 'facts are behind: copying failed and is retried')
  }

  async #isReachable(): Promise<boolean> {
    return await this.#options.clickhouse.ping().then(
      () => true,
      () => false,
    )
  }

  async #takeLead(): Promise<FactLead | null> {
    const { clickhouse, isShared } = this.#options
    const lead = await FactLead.take(clickhouse, { process: this.#process, isShared, signal: this.#stop.signal })
    if (lead) await this.#resetBacklog()
    return lead
  }

  /** Follows some changes and copies a step, so that neither waits for the other. @returns whether to go on immediately */
  async #round(lead: FactLead): Promise<boolean> {
    this.#isWoken = false
    await this.#keep(lead)
    const { changes, areAll } = await this.#endedChanges(lead)
    const followed = changes.length > 0 ? await lead.follow(changes) : 0
    // What waits has changed if an operator wanted other facts.
    if (changes.slice(0, followed).some(({ scope }) => ASKED.has(scope.kind))) await this.#resetBacklog()
    const isMore = this.#options.isOn ? await this.#copyStep(lead) : await this.#remove(lead)
    return isMore || !areAll || followed < changes.length
  }

  /** Does what is due after some time, however much there is to be followed and copied. */
  async #keep(lead: FactLead): Promise<void> {
    if (this.#options.isShared && performance.now() - this.#beatAt > BEAT_MS) {
      await lead.beat()
      this.#beatAt = performance.now()
    }
    if (performance.now() - this.#forgotAt > FORGET_MS) {
      await forgetSettledChanges(this.#options.clickhouse)
      this.#forgotAt = performance.now()
    }
  }

  /** Removes all facts, because there are to be none. */
  async #remove(lead: FactLead): Promise<boolean> {
    if (lead.progress.size > 0) await lead.rebuild()
    return false
  }

  /** @returns whether there is more to copy */
  async #copyStep(lead: FactLead): Promise<boolean> {
    if (!(await this.#check(lead))) return false
    // Readers wake the copier for changes; events that are not copied yet they read from `events`.
    const sinceLookMs = performance.now() - this.#lookedAt
    if (this.#backlog.rows === 0 && sinceLookMs < (this.#options.pauseMs ?? PAUSE_MS)) return false
    if (await this.#mustYield()) return false
    this.#lookedAt = performance.now()
    const { stored } = await this.#options.barrier.reach()
    await this.#backlog.look(idNumber(lastIdAt(stored)), lead.progress)
    if (this.#backlog.rows > 0 && (await this.#lacksDisk())) return false
    const ranges = await this.#backlog.next(lead.progress)
    if (ranges.length > 0) await this.#copy(lead, ranges)
    return this.#backlog.rows > 0
  }

  /** Copies a step; if that takes more than ClickHouse has, the next ones are smaller. */
  async #copy(lead: FactLead, ranges: readonly CountedRange[]): Promise<void> {
    try {
      for (const range of ranges) await this.#guessColumns(lead, range)
      await lead.copy(ranges)
    } catch (error) {
      if (isTooLarge(error)) this.#size.noteFailure(ranges.map(({ projectId }) => projectId))
      throw error
    }
    this.#size.noteSuccess(ranges.map(({ projectId }) => projectId))
  }

  /** Gives columns to frequent properties, before a project's first events are copied and now and then. */
  async #guessColumns(lead: FactLead, range: CountedRange): Promise<void> {
    const unseen = (this.#unseen.get(range.projectId) ?? 0) + range.rows
    const isDue = range.lo === 0n || unseen >= (this.#options.guessEvery ?? GUESS_EVERY)
    this.#unseen.set(range.projectId, isDue ? 0 : unseen)
    if (isDue) await lead.guessColumns(range)
  }

  /** Whether facts may be added to, because they are what they were before ClickHouse has started. */
  async #check(lead: FactLead): Promise<boolean> {
    const found = await lead.check().catch((error: unknown) => {
      if (findUnreadablePart(error)?.table !== 'event_facts') throw error
      return 'different' as const
    })
    if (found !== 'different') return found === 'equal'
    this.#options.log.warn(
      {},
      'facts differ from their events, perhaps because ClickHouse has lost a part: they are copied again',
    )
    await lead.rebuild()
    await this.#resetBacklog()
    return true
  }

  /** The next changes that are over; a few, because they are in one statement. */
  async #endedChanges(lead: FactLead): Promise<{ changes: EventChange[]; areAll: boolean }> {
    const ended: EventChange[] = []
    let events = 0
    for (const change of await readOpenChanges(this.#options.clickhouse)) {
      if (!change.hasEnded && !(await this.#isOver(change))) {
        if (this.#isOverdue(change)) await lead.leave(change)
        continue
      }
      events += change.scope.kind === 'events' ? change.scope.ids.length : 1
      if (ended.length > 0 && events > EVENTS_TOGETHER) return { changes: ended, areAll: false }
      ended.push(change)
    }
    return { changes: ended, areAll: true }
  }

  /** Whether a change that was left is over. */
  async #isOver(change: EventChange): Promise<boolean> {
    const { isLeft, ageMs } = change
    if (!isLeft || ageMs < LEFT_MS) return false
    const isRunning = await isCarriedOut(this.#options.clickhouse, change)
    return isRunning === null ? ageMs > (this.#options.abandonedMs ?? ABANDONED_MS) : !isRunning
  }

  /** Whether the process of a change may be dead, which was to end it. */
  #isOverdue({ scope, isLeft, ageMs }: EventChange): boolean {
    const { abandonedMs = ABANDONED_MS, overdueMs = OVERDUE_MS } = this.#options
    return !isLeft && ageMs > (scope.kind === 'events' ? Math.min(overdueMs, abandonedMs) : abandonedMs)
  }

  async #lacksDisk(): Promise<boolean> {
    if (performance.now() - this.#disk.lookedAt > DISK_MS) {
      const isShort = await isDiskShort(this.#options.clickhouse)
      if (isShort && !this.#disk.isShort) {
        this.#options.log.warn({}, 'facts are not copied any further, because the disk of ClickHouse is almost full')
      }
      if (!isShort && this.#disk.isShort) this.#options.log.info({}, 'facts are copied again: the disk has room')
      this.#disk = { isShort, lookedAt: performance.now() }
    }
    return this.#disk.isShort
  }

  async #mustYield(): Promise<boolean> {
    const depths = await Promise.all(this.#options.journals.map((journal) => journal.depth()))
    return depths.some(({ bytes }) => bytes > BACKLOG_BYTES)
  }

  async #pause(ms: number): Promise<void> {
    await wait(MIN_PAUSE_MS, undefined, { signal: this.#stop.signal }).catch(() => undefined)
    if (this.#isWoken || this.#stop.signal.aborted) return
    const woken = new AbortController()
    this.#wake = () => woken.abort()
    await wait(ms, undefined, { signal: woken.signal }).catch(() => undefined)
    this.#wake = null
  }
}

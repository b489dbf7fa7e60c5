import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { ClickHouse } from '../clickhouse/client.js'
import {
  findUnreadablePart,
  isPassing,
  isTimeout,
  isTooLarge,
  StoreError,
  StoreUnreachableError,
  type UnreadablePart,
} from '../clickhouse/errors.js'
import { HOUR_MS } from '../contract/durations.js'
import { ApiError } from '../contract/errors.js'
import type { Journal } from '../journal/journal.js'
import { type Backoff, backoffMs } from '../lib/backoff.js'
import type { Log } from '../lib/log.js'
import { pause } from '../lib/pause.js'
import { idNumber, lastIdAt } from '../model/event-id.js'
import type { Position } from '../model/position.js'
import type { Barrier } from '../reads/read-barrier.js'
import { type EventChange, forgetSettledChanges, readLeftOut, readOpenChanges } from '../store/event-changes.js'
import { isDiskShort } from '../store/fact-backlog.js'
import { detachNotes, FactCheck } from '../store/fact-check.js'
import { BEAT_MS, EVENTS_TOGETHER, FactLead, LeadLostError } from '../store/fact-lead.js'
import { FACT_NOTES } from '../store/parts.js'
import type { SessionFactsMaker } from '../store/session-facts.js'
import { type CountedRange, FactBacklog } from './fact-backlog.js'
import { SessionFiller, type SessionsPace } from './session-filler.js'
import { Setbacks } from './setbacks.js'
import { StepSize } from './step-size.js'
import { UnendedChanges, type UnendedLimits } from './unended-changes.js'

export interface FactCopierOptions extends UnendedLimits {
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
  minEvents?: number
  /** maximum size of a step */
  maxStep?: { rows: number; bytes: number }
  /** how many events of a project are copied before its properties are checked again */
  guessEvery?: number
  /** defines the rows of session facts; absent: none are kept */
  sessions?: SessionFactsMaker | undefined
  /** how often the session facts of a project are checked */
  sessionsPace?: SessionsPace | undefined
  /** how long a question may take, s */
  questionS?: number
  /** pauses before a project that failed is tried again; default: a second up to five minutes */
  setbackPauses?: Backoff
  /** pauses between comparisons of projects that are being changed; default: a second up to half a minute */
  checkPauses?: Backoff | undefined
  /** pause between two checks for new events, ms */
  pauseMs?: number
}

/** 0.3 s of CPU and 250 MB of memory, for ordinary events. */
const MAX_STEP = { rows: 100_000, bytes: 64 * 1024 * 1024 }
/** After this many copied events of a project, check again which properties are frequent. */
const GUESS_EVERY = 1_000_000
/** Even with little to do, a step, or following changes, costs some 10 ms and leaves parts to be merged. */
const PAUSE_MS = 1_000
/** How often a process that does not lead checks whether it should take over. */
const FOLLOWER_PAUSE_MS = 3_000
/** How often changes that facts have followed are removed. */
const FORGET_MS = 5 * 60_000
/** How often the free space of the disk is checked. */
const DISK_MS = 10_000
/** Minimum pause: readers that wait for a change may wake the copier more often than is worthwhile. */
const MIN_PAUSE_MS = 10
/** Kinds of changes after which other events have to be copied. */
const ASKED = new Set<string>(['rebuild', 'leave_out', 'take_in'])
/** Minimum time between two copies of all facts, after failures or damage, ms. */
const REBUILD_MS = HOUR_MS
/** Copying yields while the journals have a larger backlog than this. */
const BACKLOG_BYTES = 16 * 1024 * 1024
/** Until all projects have been compared, the facts of none may be read. */
const UNSTABLE = 'the events of a project changed each time its facts were compared with them; copying its facts again'
/** How long a stop of the service waits for a running statement. */
const CLOSE_MS = 2_000
const BACKOFF: Backoff = { firstMs: 200, maxMs: 30_000 }

/**
 * Copies stored events into the facts of a shard in the background, and applies changes of events to the facts. Only
 * one process does this at a time.
 *
 * Copying does not delay events: it runs on one thread, and pauses while the journals have a backlog.
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
  readonly #copies: Setbacks
  readonly #changes: Setbacks
  readonly #unended: UnendedChanges
  readonly #comparison: FactCheck
  #rebuiltAt = Number.NEGATIVE_INFINITY
  #forgetting: Promise<void> | null = null
  readonly #filler: SessionFiller | null
  /** by project: events that were copied since its properties were last checked */
  readonly #unseen = new Map<string, number>()

  constructor(options: FactCopierOptions) {
    this.#options = options
    this.#size = new StepSize(options.maxStep ?? MAX_STEP)
    this.#copies = new Setbacks(options.setbackPauses)
    this.#changes = new Setbacks(options.setbackPauses)
    this.#unended = new UnendedChanges(options.clickhouse, options)
    this.#comparison = new FactCheck(options.clickhouse, options.checkPauses)
    const { sessions: maker, sessionsPace: pace } = options
    this.#filler = maker ? new SessionFiller({ ...options, maker, pace }) : null
    this.#backlog = this.#newBacklog(new Set())
    this.#stopListening = options.journals.map((journal) => journal.listen({ onWake: () => this.wake() }))
  }

  #newBacklog(leftOut: ReadonlySet<string>): FactBacklog {
    const { clickhouse, minEvents = 0 } = this.#options
    return new FactBacklog(clickhouse, { minEvents, leftOut, limit: this.#size.limit, setbacks: this.#copies })
  }

  async #resetBacklog(): Promise<void> {
    this.#lookedAt = Number.NEGATIVE_INFINITY
    this.#filler?.reset()
    this.#backlog = this.#newBacklog(await readLeftOut(this.#options.clickhouse))
  }

  /**
   * Upper bound on the number of stored events that are not copied yet, as of the last check; null if this process does
   * not copy, or has not checked yet.
   */
  get waiting(): number | null {
    return this.#lead && this.#options.isOn ? this.#backlog.rows : null
  }

  /** Whether copying waits for disk space, as of the last check; null if this process does not copy. */
  get isShortOfDisk(): boolean | null {
    return this.#lead && this.#options.isOn ? this.#disk.isShort : null
  }

  start(): void {
    if (this.#running) return
    this.#running = this.#run()
    if (this.#options.isShared) void this.#beat()
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
    // ClickHouse may still be running its statements; the next leader waits for them.
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
        // The next time this process leads, it reads from the store how far it got.
        this.#lead = null
        if (signal.aborted) break
        failures++
        await this.#report(error, failures)
        if (await this.#detach(findUnreadablePart(error))) continue
        await wait(backoffMs(BACKOFF, failures), undefined, { signal }).catch(() => undefined)
      }
    }
    await this.#lead?.release().catch(() => undefined)
  }

  /**
   * Puts aside an unreadable part, which would also fail edits and the next leader. Facts are then compared, and rebuilt if
   * the part was about them.
   * @returns whether that was possible
   */
  async #detach(damaged: UnreadablePart | null): Promise<boolean> {
    if (!damaged || ![...FACT_NOTES, 'facts_left_out'].includes(damaged.table ?? '')) return false
    const { table, part } = damaged
    try {
      await detachNotes(this.#options.clickhouse, damaged)
    } catch {
      // Another process may have done it.
      return false
    }
    this.#options.log.warn({ table, part }, 'an unreadable part of a table about facts was detached')
    return true
  }

  /** Records that this process leads, even during a long statement. */
  async #beat(): Promise<void> {
    while (await pause(BEAT_MS, this.#stop.signal)) {
      const isDue = performance.now() - this.#beatAt > BEAT_MS
      if (!isDue || !this.#lead) continue
      // Another process that leads now is noticed by the next round.
      await this.#lead.beat().catch(() => undefined)
    }
  }

  async #report(error: unknown, failures: number): Promise<void> {
    if (error instanceof LeadLostError) return
    // The writer already logs that ClickHouse is unavailable. But a statement can also break the connection.
    if (error instanceof StoreUnreachableError && !isTooLarge(error) && !(await this.#isReachable())) return
    this.#options.log.warn({ err: error, failures }, 'copying events into facts failed; retrying')
  }

  async #isReachable(): Promise<boolean> {
    return await this.#options.clickhouse.ping().then(
      () => true,
      () => false,
    )
  }

  async #takeLead(): Promise<FactLead | null> {
    const { clickhouse, isShared, log } = this.#options
    const lead = await FactLead.take(clickhouse, { process: this.#process, isShared, log, signal: this.#stop.signal })
    if (lead) await this.#resetBacklog()
    // The other process may have succeeded where this one failed.
    if (lead && !lead.isContinued) {
      this.#copies.clear()
      this.#changes.clear()
    }
    // Session facts from when there was a single shard; nothing else removes them.
    if (lead && !this.#filler && lead.sessions.projects.length > 0) await lead.sessions.clear()
    return lead
  }

  /** @returns whether to continue immediately */
  async #round(lead: FactLead): Promise<boolean> {
    this.#isWoken = false
    try {
      return await this.#work(lead)
    } catch (error) {
      // Whatever found the damage would find it again.
      if (findUnreadablePart(error)?.table !== 'event_facts' || !this.#mayRebuild()) throw error
      await this.#rebuild(lead, 'ClickHouse cannot read a part of the facts; copying them again', error)
      return true
    }
  }

  /**
   * Follows some changes and copies a step, so that neither waits for the other.
   *
   * @returns whether to continue immediately
   */
  async #work(lead: FactLead): Promise<boolean> {
    await this.#keep(lead)
    const { groups, areAll } = await this.#endedChanges(lead)
    let haveFollowed = areAll
    for (const changes of groups) haveFollowed = (await this.#follow(lead, changes)) && haveFollowed
    const isMore = this.#options.isOn ? await this.#copyStep(lead) : await this.#remove(lead)
    // Session facts come last: changes and events are handled first, and again between two fills.
    const isFilling = await this.#fillSessions(lead)
    return isMore || isFilling || !haveFollowed
  }

  /** Follows changes: those of any projects, or of one that failed before. @returns whether all were followed */
  async #follow(lead: FactLead, changes: readonly EventChange[]): Promise<boolean> {
    const projects = [...new Set(changes.map(({ projectId }) => projectId))]
    if (projects.some((projectId) => this.#changes.isStuck(projectId)) && this.#mayRebuild()) {
      // No failed statement is still running, because this process has taken the lead again since then.
      await this.#rebuild(lead, 'facts cannot follow the changes of a project; copying all facts again')
      this.#changes.clear(projects)
    }
    try {
      const followed = await lead.follow(changes)
      this.#changes.clear(projects)
      // After an operator leaves a project out or takes it in, other events are waiting.
      if (changes.slice(0, followed).some(({ scope }) => ASKED.has(scope.kind))) await this.#resetBacklog()
      return followed === changes.length
    } catch (error) {
      noteFailure(this.#changes, projects, error)
      throw error
    }
  }

  /** Fills some days of session facts, unless copying is far behind. @returns whether there is more to fill */
  async #fillSessions(lead: FactLead): Promise<boolean> {
    if (!this.#options.isOn || !this.#filler || !(await this.#filler.isDue(lead))) return false
    if (this.#backlog.dueRows >= this.#size.limit.rows || !(await this.#check(lead))) return false
    if (await this.#lacksDisk()) return false
    const stored = await this.#findStored()
    return stored !== null && (await this.#filler.fill(lead, stored))
  }

  /** Does the periodic work, even while there is a lot to copy. */
  async #keep(lead: FactLead): Promise<void> {
    if (this.#options.isShared && performance.now() - this.#beatAt > BEAT_MS) {
      await lead.beat()
      this.#beatAt = performance.now()
    }
    if (performance.now() - this.#forgotAt > FORGET_MS) {
      this.#forgotAt = performance.now()
      this.#forgetting ??= this.#forget()
    }
  }

  /** Removes settled changes. Nothing waits for this: ClickHouse may have to finish long merges first. Never rejects. */
  async #forget(): Promise<void> {
    try {
      await forgetSettledChanges(this.#options.clickhouse)
    } catch (err) {
      const isKnown = err instanceof StoreUnreachableError || this.#stop.signal.aborted
      if (!isKnown) this.#options.log.warn({ err }, 'settled changes cannot be removed from the log; retrying later')
    }
    this.#forgetting = null
  }

  /** Removes all facts, because they are turned off. */
  async #remove(lead: FactLead): Promise<boolean> {
    if (lead.progress.size > 0) await lead.rebuild()
    return false
  }

  /** @returns whether there is more to copy */
  async #copyStep(lead: FactLead): Promise<boolean> {
    if (!(await this.#check(lead))) return false
    // Readers wake the copier only for changes, because they read events that are not copied yet from `events`.
    const sinceLookMs = performance.now() - this.#lookedAt
    if (this.#backlog.dueRows === 0 && sinceLookMs < (this.#options.pauseMs ?? PAUSE_MS)) return false
    const stored = await this.#findStored()
    if (stored === null) return false
    this.#lookedAt = performance.now()
    await this.#backlog.look(idNumber(lastIdAt(stored)), lead.progress)
    if (this.#backlog.dueRows > 0 && (await this.#lacksDisk())) return false
    const ranges = await this.#backlog.next(lead.progress)
    if (ranges.length === 0) return false
    await this.#copy(lead, ranges)
    return this.#backlog.dueRows > 0
  }

  /** Copies a step. If it needs more memory or time than ClickHouse has, the next ones are smaller. */
  async #copy(lead: FactLead, ranges: readonly CountedRange[]): Promise<void> {
    const projects = ranges.map(({ projectId }) => projectId)
    try {
      for (const range of ranges) await this.#guessColumns(lead, range)
      await lead.copy(ranges)
    } catch (error) {
      if (isTooLarge(error)) this.#size.noteFailure()
      noteFailure(this.#copies, projects, error)
      throw error
    }
    this.#size.noteSuccess()
    this.#copies.clear(projects)
  }

  /** Adds columns for frequent properties, before a project's first events are copied and from time to time. */
  async #guessColumns(lead: FactLead, range: CountedRange): Promise<void> {
    const unseen = (this.#unseen.get(range.projectId) ?? 0) + range.rows
    const isDue = range.lo === 0n || unseen >= (this.#options.guessEvery ?? GUESS_EVERY)
    this.#unseen.set(range.projectId, isDue ? 0 : unseen)
    if (!isDue) return
    await lead.columns.guess(range).catch((error: unknown) => {
      // Questions that are slow without columns ask for them.
      if (!(error instanceof StoreError) && !isTimeout(error)) throw error
    })
  }

  /** Whether the facts are complete, so that copying may continue: ClickHouse lost none of them at its last start. */
  async #check(lead: FactLead): Promise<boolean> {
    const found = await lead.check(this.#comparison)
    if (found === 'equal') return true
    if (found === 'different') {
      await this.#rebuild(lead, 'facts may differ from their events; copying them again')
      return true
    }
    for (const project of this.#comparison.takeStuck()) {
      this.#options.log.warn({ project }, UNSTABLE)
      await lead.remove(project)
      await this.#resetBacklog()
    }
    return false
  }

  /**
   * Whether to copy all facts again after a failure. Not if that was done recently, because it evidently did not help.
   */
  #mayRebuild(): boolean {
    return performance.now() - this.#rebuiltAt > REBUILD_MS
  }

  async #rebuild(lead: FactLead, reason: string, err?: unknown): Promise<void> {
    this.#options.log.warn(err ? { err } : {}, reason)
    this.#rebuiltAt = performance.now()
    await lead.rebuild()
    await this.#resetBacklog()
  }

  /**
   * The next changes that have ended, in groups that are followed one after another: first those of projects without
   * failures, then those of projects that have failed. Groups are small, because one statement names all events of a
   * group.
   */
  async #endedChanges(lead: FactLead): Promise<{ groups: EventChange[][]; areAll: boolean }> {
    const ended: EventChange[] = []
    const alone = new Map<string, EventChange[]>()
    const group = () => [...(ended.length > 0 ? [ended] : []), ...alone.values()]
    let events = 0
    for (const change of await readOpenChanges(this.#options.clickhouse, this.#changes.paused)) {
      if (!change.hasEnded && !(await this.#unended.isOver(change, lead))) continue
      const { projectId, scope } = change
      if (this.#changes.has(projectId)) {
        const own = alone.get(projectId) ?? []
        own.push(change)
        alone.set(projectId, own)
        continue
      }
      events += scope.kind === 'events' ? scope.ids.length : 1
      if (ended.length > 0 && events > EVENTS_TOGETHER) return { groups: group(), areAll: false }
      ended.push(change)
    }
    return { groups: group(), areAll: true }
  }

  async #lacksDisk(): Promise<boolean> {
    if (performance.now() - this.#disk.lookedAt > DISK_MS) {
      const isShort = await isDiskShort(this.#options.clickhouse)
      if (isShort && !this.#disk.isShort) {
        this.#options.log.warn({}, 'copying of facts pauses, because the disk of ClickHouse is almost full')
      }
      if (!isShort && this.#disk.isShort)
        this.#options.log.info({}, 'copying of facts resumes: the disk has room again')
      this.#disk = { isShort, lookedAt: performance.now() }
    }
    return this.#disk.isShort
  }

  /**
   * The position up to which all events are stored. Null if copying has to yield to the journals, or if one of them
   * does not respond, because the position is then unknown.
   */
  async #findStored(): Promise<Position | null> {
    const { journals, barrier } = this.#options
    try {
      const depths = await Promise.all(journals.map((journal) => journal.depth()))
      return depths.some(({ bytes }) => bytes > BACKLOG_BYTES) ? null : (await barrier.reach()).stored
    } catch (error) {
      // An unavailable journal is logged elsewhere. Changes are followed in the meantime.
      if (error instanceof ApiError) return null
      throw error
    }
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

/** Notes a failure that may be due to the events or changes themselves, so that it would happen again. */
function noteFailure(setbacks: Setbacks, projects: readonly string[], error: unknown): void {
  if (error instanceof LeadLostError) return
  const isLasting = !isPassing(error)
  if (isLasting || isTooLarge(error)) setbacks.note(projects, { isLasting })
}

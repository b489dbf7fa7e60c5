import { setTimeout as wait } from 'node:timers/promises'
import type { Shards } from '../clickhouse/shards.js'
import { ApiError } from '../contract/errors.js'
import type { Journal } from '../journal/journal.js'
import { type Backoff, backoffMs } from '../lib/backoff.js'
import { ByteBudget } from '../lib/byte-budget.js'
import type { Log } from '../lib/log.js'
import { OutageLog } from '../lib/outage-log.js'
import { lastIdAt, parseEventId } from '../model/event-id.js'
import { type Position, toMilliseconds } from '../model/position.js'
import type { Barrier } from '../reads/read-barrier.js'
import type { EventFilter } from '../store/event-pages.js'
import { findProjectsWithEvents } from '../store/event-tail.js'
import { catchUp } from './catch-up.js'
import { type Ending, Listener } from './listener.js'
import { Pace } from './pace.js'
import { Tail } from './tail.js'

/** Limits of live streams. All but the first two are constants that tests lower. */
export interface LiveLimits {
  /** maximum number of streams in this process */
  listeners: number
  /** maximum number of streams of one project */
  perProject: number
  /** maximum bytes that may wait for one listener; an event that exceeds it is still added */
  bufferBytes: number
  /** maximum number of bytes buffered for all listeners, which share the buffers of the same events */
  memoryBytes: number
  /** pause without data after which a heartbeat is sent, ms */
  heartbeatMs: number
  /** interval at which keys and heartbeats are checked, ms */
  checkMs: number
  /** poll interval when no notification arrives, ms */
  pollMs: number
}

const MIB = 1024 * 1024
export const LIVE_LIMITS: Omit<LiveLimits, 'listeners' | 'perProject'> = {
  bufferBytes: MIB,
  memoryBytes: 64 * MIB,
  heartbeatMs: 15_000,
  checkMs: 5_000,
  pollMs: 1_000,
}

export interface LiveHubOptions {
  shards: Shards
  barrier: Pick<Barrier, 'reach'>
  /** journals of all lanes; their notifications say when there may be new events */
  journals: readonly Pick<Journal, 'listen'>[]
  limits: LiveLimits
  log: Pick<Log, 'info' | 'warn'>
  /** ends all streams, so that their clients reconnect to another process */
  closing: AbortSignal
}

export interface OpenStream {
  projectId: string
  wanted: EventFilter
  /** id of the last event that the client has; null to begin with what is accepted from now on */
  lastEventId: string | null
  /** whether the key is still valid */
  isAllowed: () => boolean
}

interface StreamStart {
  after: string
  stored: Position
}

export interface LiveMetrics {
  /** open streams */
  listeners: number
  /** events that were sent, counted for each listener */
  events: number
  /** streams that the service ended */
  ended: Record<Ending, number>
  /** failed attempts to read new events */
  failures: number
}

/** The listeners of a project, and the tail that they follow. */
interface Project {
  tail: Tail
  listeners: Set<Listener>
}

/** Maximum number of concurrent queries: of the tails, and of the listeners that catch up. */
const TAIL_QUERIES = 4
const CATCH_UP_QUERIES = 3
/** From this many projects on, one query first finds out which of them have new events. */
const MANY_PROJECTS = 5
/**
 * How far ahead of our clock an id may be: the clocks of other machines differ, and positions jump ahead after a
 * failover.
 */
const MAX_AHEAD_MS = 60_000
/** Minimum time between two reads, ms: the writer may store several blocks within a few ms. */
const MIN_PAUSE_MS = 50
/** Retry-After for clients when there is no room, s. */
const RETRY_S = 10
const BACKOFF: Backoff = { firstMs: 100, maxMs: 5_000 }

/**
 * The live streams of this process. New events are read once per project, however many listeners it has, when a journal
 * reports that something was stored; without listeners, nothing happens.
 */
export class LiveHub {
  readonly metrics: LiveMetrics = { listeners: 0, events: 0, ended: { slow: 0, revoked: 0, closing: 0 }, failures: 0 }
  readonly #options: LiveHubOptions
  readonly #projects = new Map<string, Project>()
  readonly #behind = new Set<Listener>()
  readonly #tailQueries = new ByteBudget(TAIL_QUERIES)
  readonly #catchUpQueries = new ByteBudget(CATCH_UP_QUERIES)
  readonly #pace = new Pace()
  #isRunning = false
  #isHinted = false
  readonly #outage: OutageLog
  #wake: (() => void) | null = null

  constructor(options: LiveHubOptions) {
    this.#options = options
    this.#outage = new OutageLog(options.log, {
      failed: 'reading new events for live streams failed, retrying',
      recovered: 'live streams resumed',
    })
    const close = () => {
      for (const listener of this.#all()) listener.stop('closing')
      this.#wake?.()
    }
    options.closing.addEventListener('abort', close, { once: true })
  }

  /**
   * Opens a stream.
   * @returns the stream, and the id after which it begins, whether or not there is such an event
   * @throws like `findStart`
   */
  async open({ projectId, wanted, lastEventId, isAllowed }: OpenStream): Promise<{ stream: Listener; after: string }> {
    const { after, stored } = await this.findStart({ projectId, lastEventId })
    // Other streams may have been opened during the wait.
    this.#assertRoom(projectId)
    const { bufferBytes } = this.#options.limits
    const listener = new Listener({ projectId, wanted, bufferBytes, isAllowed, onEnd: this.#forget })
    this.metrics.listeners++
    const project = this.#projects.get(projectId) ?? this.#newProject(projectId, lastIdAt(stored))
    project.listeners.add(listener)
    if (after >= project.tail.goal) project.tail.join(listener, after)
    else void catchUp(listener, project.tail, after, { ...this.#sources, queries: this.#catchUpQueries })
    if (!this.#isRunning) void this.#run()
    return { stream: listener, after }
  }

  /**
   * Finds where a stream would begin if it were opened now.
   * @returns the id after which it begins, and the position up to which everything is stored
   * @throws ApiError `invalid_request` for an id that no service assigned, `rate_limited` or `overloaded` beyond the
   *   limits, `unavailable` if a journal cannot be reached or the service is closing
   */
  async findStart({ projectId, lastEventId }: Pick<OpenStream, 'projectId' | 'lastEventId'>): Promise<StreamStart> {
    if (lastEventId !== null) checkId(lastEventId)
    const { barrier, closing } = this.#options
    this.#assertRoom(projectId)
    const { accepted, stored } = await barrier.reach()
    if (closing.aborted) throw new ApiError('unavailable', 'The service is shutting down. Connect again.')
    this.#assertRoom(projectId)
    return { after: lastEventId?.toLowerCase() ?? lastIdAt(accepted), stored }
  }

  get #sources() {
    return {
      shards: this.#options.shards,
      signal: this.#options.closing,
      onSent: (listeners: readonly Listener[], events: number) => this.#noteSent(listeners, events),
      onFailure: (error: unknown) => this.#noteFailure(error),
    }
  }

  #newProject(projectId: string, start: string): Project {
    const tail = new Tail({ ...this.#sources, projectId, queries: this.#tailQueries, pace: this.#pace }, start)
    const project = { tail, listeners: new Set<Listener>() }
    this.#projects.set(projectId, project)
    return project
  }

  /** @throws ApiError if there is no room for another listener */
  #assertRoom(projectId: string): void {
    const { listeners, perProject } = this.#options.limits
    if (this.metrics.listeners >= listeners) {
      const message = 'The service has reached its limit of live streams. Try again later.'
      throw new ApiError('overloaded', message, { retryAfter: RETRY_S, limit: 'live_streams' })
    }
    if ((this.#projects.get(projectId)?.listeners.size ?? 0) < perProject) return
    const message = `This project has reached its limit of ${perProject} live streams. Close one, or try again later.`
    throw new ApiError('rate_limited', message, { retryAfter: RETRY_S, limit: 'live_streams' })
  }

  #all(): Listener[] {
    return [...this.#projects.values()].flatMap(({ listeners }) => [...listeners])
  }

  readonly #forget = (listener: Listener, ending: Ending | null): void => {
    const { projectId } = listener
    this.metrics.listeners--
    if (ending) this.metrics.ended[ending]++
    this.#behind.delete(listener)
    const project = this.#projects.get(projectId)
    project?.tail.leave(listener)
    project?.listeners.delete(listener)
    if (project?.listeners.size === 0) this.#projects.delete(projectId)
    if (this.#projects.size === 0) this.#wake?.()
  }

  /** Polls for new events until there are no listeners. */
  async #run(): Promise<void> {
    this.#isRunning = true
    const { journals, limits, closing, barrier } = this.#options
    const onStored = () => {
      this.#isHinted = true
      this.#wake?.()
    }
    const stops = journals.map((journal) => journal.listen({ onStored }))
    const checks = setInterval(() => this.#check(), limits.checkMs).unref()
    let failures = 0
    while (this.#projects.size > 0 && !closing.aborted) {
      this.#isHinted = false
      try {
        const { stored } = await barrier.reach()
        await this.#advance(lastIdAt(stored))
        failures = 0
      } catch (error) {
        this.#noteFailure(error)
        failures++
      }
      await wait(failures > 0 ? backoffMs(BACKOFF, failures) : MIN_PAUSE_MS, undefined, { ref: false })
      if (failures === 0) await this.#news(limits.pollMs)
    }
    clearInterval(checks)
    for (const stop of stops) stop()
    this.#isRunning = false
  }

  /** Starts sending the stored events up to this id. */
  async #advance(id: string): Promise<void> {
    const { shards, closing: signal } = this.#options
    const late = [...this.#projects].filter(([, { tail }]) => tail.isBefore(id))
    let withNews: Set<string> | null = null
    if (late.length >= MANY_PROJECTS) {
      const [after = id] = late.map(([, { tail }]) => tail.done).sort()
      const names = late.map(([projectId]) => projectId)
      withNews = await findProjectsWithEvents(shards, names, { after, upTo: id }, { signal })
    }
    for (const [projectId, { tail }] of late) {
      if (withNews && !withNews.has(projectId)) tail.skipTo(id)
      else
        tail.advance(id).then(
          () => this.#outage.noteSuccess(),
          (error: unknown) => this.#noteFailure(error),
        )
    }
  }

  /** Resolves when a journal has stored something, when there are no more listeners, or after this time. */
  async #news(limitMs: number): Promise<void> {
    const { closing } = this.#options
    if (this.#isHinted || this.#projects.size === 0 || closing.aborted) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, limitMs).unref()
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    this.#wake = null
  }

  #check(): void {
    const { heartbeatMs } = this.#options.limits
    for (const listener of this.#all()) {
      if (listener.isAllowed()) listener.beat(heartbeatMs)
      else listener.stop('revoked')
    }
  }

  #noteSent(listeners: readonly Listener[], events: number): void {
    this.metrics.events += events
    for (const listener of listeners) {
      if (!listener.keepsUp && !listener.destroyed) this.#behind.add(listener)
    }
    if (this.#behind.size > 0) this.#limitMemory()
  }

  /** Disconnects the listeners with the most unread data until the total is within the limit. */
  #limitMemory(): void {
    const waiting = new Map<string | Listener, number>()
    const findShare = (listener: Listener) => (listener.isCatchingUp ? listener : listener.filterKey)
    for (const listener of this.#behind) {
      const share = findShare(listener)
      if (listener.keepsUp) this.#behind.delete(listener)
      else waiting.set(share, Math.max(waiting.get(share) ?? 0, listener.readableLength))
    }
    let bytes = [...waiting.values()].reduce((sum, some) => sum + some, 0)
    for (const [share, some] of [...waiting].sort((a, b) => b[1] - a[1])) {
      if (bytes <= this.#options.limits.memoryBytes) return
      bytes -= some
      for (const listener of [...this.#behind]) if (findShare(listener) === share) listener.stop('slow')
    }
  }

  #noteFailure(error: unknown): void {
    if (this.#options.closing.aborted) return
    this.metrics.failures++
    this.#outage.noteFailure(error)
  }
}

function checkId(id: string): void {
  const place = parseEventId(id)
  if (place && toMilliseconds(place.position) <= Date.now() + MAX_AHEAD_MS) return
  const message = 'must be the id of the last event received from this stream, or be absent'
  throw new ApiError('invalid_request', `Last-Event-ID ${message}.`, { details: [{ path: '/last-event-id', message }] })
}

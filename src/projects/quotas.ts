import { setTimeout as wait } from 'node:timers/promises'
import { DAY_MS } from '../contract/durations.js'
import { ApiError } from '../contract/errors.js'
import type { Quota, QuotaName } from '../contract/project-settings.js'
import type { Appended, Appends, Submission } from '../ingest/group-commit.js'
import type { BufferPool } from '../lib/buffer-pool.js'
import { toDay } from '../lib/day.js'
import type { Log } from '../lib/log.js'
import { withTimeout } from '../lib/with-timeout.js'
import type { RequestIds } from '../model/request-ids.js'
import type { Sender } from '../model/sender.js'
import type { UsedOnDay } from '../store/project-usage.js'
import type { Projects } from './projects.js'
import { findPeriodEnd, type Usage } from './usage.js'

/**
 * All processes together may accept this share of a quota before they ask what the others have accepted. A process does not
 * know of those that join later, so eight of them may be 0.7 % over it: 1/400 · (1 + 1/2 + … + 1/8). A share is at least
 * one event, so each event of a small quota asks; a larger one would not be exact to 1 %.
 */
const SHARES = 400
/** How often a request tries to get what is left while other processes compete for it, and the longest pause, ms. */
const TRIES = 4
const MAX_PAUSE_MS = 40
/** How long a refusal is repeated without asking again, ms. */
const REFUSAL_MS = 1_000
/**
 * How long a request waits for the other processes' counts or for the journals before it is accepted or refused, ms.
 */
const ASK_MS = 2_000
/** How long events are accepted without asking again after the counts could not be read, ms. */
const UNCHECKED_MS = 5_000

type EventQuota = Extract<QuotaName, 'events_per_day' | 'events_per_month'>
const PERIODS = { events_per_day: 'day', events_per_month: 'month' } as const

interface Allowance {
  /** revision of the settings that it was computed from */
  revision: number
  /** UTC days since 1970 */
  day: number
  /** events that may be accepted without asking */
  left: number
  /** maximum of `left` */
  share: number
  /** events that were admitted but may not be counted yet */
  pending: number
  asking: Promise<unknown> | null
  /** what was left of the quotas at the last read */
  remaining: number
  /** for requests that need more than `remaining` */
  refusal: ApiError | null
  /** when the refusal was made, `performance.now()` */
  refusedAt: number
  /** until when everything is accepted, because the counts could not be read, `performance.now()` */
  uncheckedUntil: number
}

export interface QuotasOptions {
  projects: Pick<Projects, 'get'>
  usage: Pick<Usage, 'own' | 'others' | 'write' | 'include'>
  /** the bytes that a project has on disk, as of the last check; undefined: not known yet */
  storedBytes(projectId: string): number | undefined
  commits: Appends
  ids: {
    /** whether a request was accepted before */
    isRepetition(sender: Sender, ids: RequestIds): Promise<boolean>
  }
  buffers: BufferPool
  log: Pick<Log, 'warn'>
  /** epoch ms; default: the clock */
  now?: (() => number) | undefined
}

/**
 * Refuses events of projects that have reached a hard quota, in any call. Without a quota this takes one look-up. With
 * one, a process counts alone until it has accepted its share, and then finds out how much the others have accepted. A
 * request of more events than the share does so itself.
 *
 * Not promised: while ClickHouse does not respond, events are accepted, because they could not be recovered.
 */
export class Quotas implements Appends {
  readonly #options: QuotasOptions
  readonly #allowances = new Map<string, Allowance>()
  /** projects with a look-up in the journals in progress: see `#isRepetition` */
  readonly #lookedUp = new Set<string>()

  constructor(options: QuotasOptions) {
    this.#options = options
  }

  append(submission: Submission, ids: RequestIds): Promise<Appended | null> {
    const { kind, projectId, count } = submission
    const { commits, projects } = this.#options
    const { events_per_day, events_per_month, stored_bytes } = projects.get(projectId).settings.quotas
    const isLimited =
      events_per_day?.mode === 'hard' || events_per_month?.mode === 'hard' || stored_bytes?.mode === 'hard'
    // Messages that cannot be stored as events do not count.
    if (!isLimited || kind === 'rejected') return commits.append(submission, ids)
    const allowance = this.#getAllowance(projectId)
    // Nearly all requests wait for nothing.
    if (count > allowance.left || this.#hasTooManyBytes(projectId, stored_bytes)) {
      return this.#within(submission, ids, allowance)
    }
    take(allowance, count)
    return this.#appendAdmitted(submission, ids, allowance)
  }

  async #within(submission: Submission, ids: RequestIds, allowance: Allowance): Promise<Appended | null> {
    const { projectId, count, body } = submission
    const { commits, buffers } = this.#options
    try {
      await this.#admit(projectId, allowance, count)
    } catch (error) {
      // A retry gets the response of the first request.
      if (await this.#isRepetition(submission, ids)) return await commits.append(submission, ids)
      buffers.release(body)
      throw error
    }
    return await this.#appendAdmitted(submission, ids, allowance)
  }

  #appendAdmitted(submission: Submission, ids: RequestIds, allowance: Allowance): Promise<Appended | null> {
    const end = () => {
      allowance.pending -= submission.count
    }
    const appended = this.#options.commits.append(submission, ids)
    appended.then(end, end)
    return appended
  }

  /**
   * Looks up only requests that would be refused, one per project at a time, so that clients that resend refused
   * requests do not slow down accepted ones. If the journals do not answer, the request is refused.
   */
  async #isRepetition(sender: Sender, ids: RequestIds): Promise<boolean> {
    const { projectId } = sender
    if (ids.kind === 'none' || this.#lookedUp.has(projectId)) return false
    this.#lookedUp.add(projectId)
    const looking = this.#options.ids.isRepetition(sender, ids).finally(() => this.#lookedUp.delete(projectId))
    return await withTimeout(looking, ASK_MS).catch(() => false)
  }

  /** @throws ApiError `quota_exceeded` */
  async #admit(projectId: string, allowance: Allowance, count: number): Promise<void> {
    const { stored_bytes } = this.#options.projects.get(projectId).settings.quotas
    if (stored_bytes && this.#hasTooManyBytes(projectId, stored_bytes)) {
      throw quotaExceeded('stored_bytes', stored_bytes, 'until data is removed', STORED_RETRY_MS)
    }
    while (count > allowance.left && performance.now() >= allowance.uncheckedUntil) {
      const { refusal } = allowance
      if (refusal && count > allowance.remaining && performance.now() - allowance.refusedAt < REFUSAL_MS) throw refusal
      if (allowance.asking) {
        await allowance.asking
        continue
      }
      const asking = this.#ask(projectId, allowance, count).finally(() => {
        allowance.asking = null
      })
      allowance.asking = asking
      if (await asking) return
    }
    take(allowance, count)
  }

  /** The allowance for the current settings and day. A new allowance takes over the pending events. */
  #getAllowance(projectId: string): Allowance {
    const { projects, usage } = this.#options
    const { revision } = projects.get(projectId)
    const day = Math.floor(this.#now() / DAY_MS)
    const known = this.#allowances.get(projectId)
    if (known?.revision === revision && known.day === day) return known
    const none = { left: 0, share: 0, remaining: 0, asking: null }
    const fresh = { revision, day, ...none, refusal: null, refusedAt: 0, uncheckedUntil: 0 }
    if (known) return Object.assign(known, fresh)
    const allowance: Allowance = { ...fresh, pending: 0 }
    this.#allowances.set(projectId, allowance)
    usage.include(projectId, allowance)
    return allowance
  }

  /**
   * Finds out how many events may be accepted. A request of more than a share is announced as pending before the counts
   * of the others are read, so that they see it: of several requests that together exceed the quota, not all are
   * admitted.
   * @returns whether it was admitted, and is pending
   */
  async #ask(projectId: string, allowance: Allowance, count: number): Promise<boolean> {
    const isReached = allowance.refusal !== null && allowance.remaining < count
    // While a quota is reached, requests are not announced as pending, because they are refused anyway.
    let isLikely = allowance.refusal !== null && !isReached && count > allowance.share
    for (let tries = isReached ? 1 : TRIES; ; tries--) {
      const rest = isLikely ? allowance.remaining : await this.#readRest(projectId, allowance)
      if (rest === null || count <= allowance.share) return false
      if (count <= rest) {
        allowance.pending += count
        const restAfter = await this.#readRest(projectId, allowance)
        if (restAfter === null || restAfter >= 0) return true
        allowance.pending -= count
        noteRest(allowance, restAfter + count)
      }
      if (tries <= 1) break
      isLikely = false
      await wait(Math.random() * MAX_PAUSE_MS)
    }
    // The others no longer need to see the pending events.
    if (!isReached) void this.#options.usage.write().catch(() => undefined)
    return false
  }

  /** Reads what is left of the project's quotas. @returns null if the counts of the others cannot be read */
  async #readRest(projectId: string, allowance: Allowance): Promise<number | null> {
    const { projects, usage, log } = this.#options
    const { quotas } = projects.get(projectId).settings
    let others: ReadonlyMap<string, UsedOnDay>
    try {
      // Limit the whole wait: the counts of all projects are written one after another, so limits of the single writes
      // would add up.
      const ask = async () => {
        await usage.write()
        return (await usage.others([projectId], ASK_MS)).get(projectId) ?? new Map()
      }
      others = await withTimeout(ask(), ASK_MS)
    } catch (error) {
      if (allowance.uncheckedUntil === 0) {
        log.warn(
          { err: error, project: projectId },
          'the quotas of a project cannot be checked; its events are accepted',
        )
      }
      allowance.uncheckedUntil = performance.now() + UNCHECKED_MS
      return null
    }
    allowance.uncheckedUntil = 0
    const today = toDay(this.#now())
    const own = usage.own(projectId).events + allowance.pending
    const found: { name: EventQuota; quota: Quota; rest: number }[] = []
    for (const name of ['events_per_day', 'events_per_month'] as const) {
      const quota = quotas[name]
      if (quota?.mode !== 'hard') continue
      let used = own
      for (const [day, { events }] of others) if (name === 'events_per_month' || day === today) used += events
      found.push({ name, quota, rest: quota.limit - used })
    }
    const [tightest] = found.toSorted((a, b) => a.rest - b.rest)
    const least = Math.min(NO_LIMIT, ...found.map(({ quota }) => quota.limit))
    // The processes of the last day that had any: at the start of a day, that is the day before.
    const processes = 1 + ([...others.values()].findLast(({ processes }) => processes > 0)?.processes ?? 0)
    allowance.share = Math.max(1, Math.floor(least / (SHARES * processes)))
    const rest = tightest?.rest ?? NO_LIMIT
    noteRest(allowance, rest)
    allowance.refusal = tightest ? this.#exceeded(tightest.name, tightest.quota) : null
    allowance.refusedAt = performance.now()
    return rest
  }

  #exceeded(name: EventQuota, quota: Quota): ApiError {
    const until = findPeriodEnd(PERIODS[name], this.#now())
    return quotaExceeded(name, quota, `until ${new Date(until).toISOString()}`, until - this.#now())
  }

  #hasTooManyBytes(projectId: string, quota: Quota | null): boolean {
    if (quota?.mode !== 'hard') return false
    const stored = this.#options.storedBytes(projectId)
    return stored !== undefined && stored >= quota.limit
  }

  #now(): number {
    return (this.#options.now ?? Date.now)()
  }
}

/** Admits events, which are pending until they are appended. */
function take(allowance: Allowance, count: number): void {
  allowance.left -= count
  allowance.remaining -= count
  allowance.pending += count
}

function noteRest(allowance: Allowance, rest: number): void {
  allowance.remaining = Math.max(0, rest)
  allowance.left = Math.min(allowance.remaining, allowance.share)
}

/** How long a client waits before it retries while a project has too many bytes. */
const STORED_RETRY_MS = 600_000
const NO_LIMIT = Number.MAX_SAFE_INTEGER

function quotaExceeded(name: QuotaName, { limit, locked }: Quota, until: string, ms: number): ApiError {
  const raised = locked
    ? 'the operator of the service raises the quota'
    : 'the quota is raised in the project’s settings'
  return new ApiError(
    'quota_exceeded',
    `The project has reached its quota: ${name} is ${limit}. Its events are refused ${until}, or until ${raised}.`,
    {
      retryAfter: Math.ceil(ms / 1000),
      limit: 'quota',
      details: [{ path: `/quotas/${name}`, message: `is reached: ${limit}` }],
    },
  )
}

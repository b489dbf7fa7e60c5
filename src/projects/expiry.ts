import { StoreUnreachableError } from '../clickhouse/errors.js'
import type { Shards } from '../clickhouse/shards.js'
import { DAY_MS, HOUR_MS } from '../contract/durations.js'
import {
  KEPT,
  type Kept,
  type KeptTimes,
  keptSince,
  listKeptTimes,
  type ProjectSettings,
} from '../contract/project-settings.js'
import type { Expired } from '../contract/responses.js'
import type { Journal } from '../journal/journal.js'
import { forEachInBatches } from '../lib/for-each-in-batches.js'
import type { Log } from '../lib/log.js'
import { pause } from '../lib/pause.js'
import type { Profile } from '../model/profile.js'
import type { Session } from '../model/session.js'
import type { Barrier } from '../reads/read-barrier.js'
import type { StateStore } from '../states/state-store.js'
import { expireDeadLetters, expireSessionsInDeadLetters } from '../store/dead-letter-erasure.js'
import { deleteEventsBefore } from '../store/events.js'
import { countExpiredEvents, countExpiredSessions, deleteExpiredSessions, findUnseenProfiles } from '../store/expiry.js'
import { claimJobTurn, countJobTurns, readLastJobTurn } from '../store/job-turns.js'
import { reserveErasureSlots } from '../users/erasure/erasure.js'
import type { Purge } from '../users/erasure/purge.js'
import { type Project, type Projects, readProject } from './projects.js'

/** How often to look for expired data. */
const RUN_EVERY_MS = HOUR_MS
/**
 * Runs from one removal of events and sessions to the next. Each rewrites the months of all projects that have expired
 * data. Even if one is interrupted, the next one is complete within the promised day.
 */
const RUNS_PER_REMOVAL = 8
/** Each run whose clock is trusted claims a turn of this task, which later says what time it was. */
const TASK = 'retention'
/** The process that claims the turn of this task removes data. */
const REMOVAL_TASK = `${TASK}, removal`
/** A clock that is further ahead of the last known time than this may be wrong, ms. */
const MAX_JUMP_MS = DAY_MS
/** After this number of runs, which is a day of running, a clock in doubt is trusted. */
const DOUBTING_RUNS = 24
/** These runs are counted in the store, because a service may restart more often than once a day. */
const DOUBT_TASK = `${TASK}, clock in doubt`
/** Profiles that are looked up at a time, and in a whole run. */
const PROFILES = 1_000
const MAX_PROFILES = 100_000
/** More profiles than this are not counted one by one. */
const COUNTED_PROFILES = 1_000_000

export interface ExpiryOptions {
  projects: Projects
  shards: Shards
  barrier: Pick<Barrier, 'requireProject'>
  profiles: Pick<StateStore<Profile>, 'change'>
  /** also expired ones */
  sessions: Pick<StateStore<Session>, 'change'>
  /** counts a deletion of the project's events, visible to all processes */
  noteDeletion: Journal['noteDeletion']
  purge: Pick<Purge, 'now'>
  log: Pick<Log, 'info' | 'warn'>
  /** default: an hour */
  everyMs?: number | undefined
  /** epoch ms; default: the clock */
  now?: (() => number) | undefined
}

/**
 * Removes expired events from the dead letters of projects, so that none is shown or stored. Does nothing while the
 * clock is in doubt.
 * @param projects all projects that have settings
 * @param now epoch ms
 * @param only the project; absent: all
 */
export async function removeExpiredDeadLetters(
  shards: Shards,
  projects: ReadonlyMap<string, Project>,
  now: number,
  only?: string,
): Promise<void> {
  const aging = [...projects].filter(([id, { settings }]) => settings.keep.events !== null && id === (only ?? id))
  if (aging.length === 0 || now - (await readLastJobTurn(shards, TASK, now)) > MAX_JUMP_MS) return
  for (const [projectId, { settings }] of aging) {
    const since = keptSince(settings.keep.events ?? '', now)
    await expireDeadLetters(reserveErasureSlots(shards, projectId), projectId, since)
  }
}

/** The expired data of a project, by kind. */
export type ExpiredData = Record<Kept, Expired>

/**
 * Removes expired data. Reads stop seeing it the moment it expires; this removes it from the disk, one project and one
 * month at a time. As with an erasure, none of it remains in dead letters.
 *
 * Every process with a writer looks once an hour, and one of them gets the turn: for profiles, and every eighth hour
 * for events and sessions, too. If a run fails or its process is stopped, the next run does the rest.
 */
export class Expiry {
  readonly #options: ExpiryOptions
  readonly #stop = new AbortController()
  #running: Promise<void> | null = null
  /** whether the log says that the clock is in doubt */
  #hasWarned = false

  constructor(options: ExpiryOptions) {
    this.#options = options
  }

  /** Looks for expired data now, and then each hour. */
  start(): void {
    this.#running ??= this.#watch()
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  async #watch(): Promise<void> {
    const { everyMs = RUN_EVERY_MS, log } = this.#options
    const { signal } = this.#stop
    while (!signal.aborted) {
      try {
        await this.run()
      } catch (error) {
        if (signal.aborted) return
        if (!(error instanceof StoreUnreachableError))
          log.warn({ err: error }, 'expired data could not be removed yet; retrying')
      }
      await pause(everyMs, signal)
    }
  }

  /**
   * Removes the expired data of all projects, unless another process has the turn.
   * @throws the first failure, after the other projects
   */
  async run(): Promise<void> {
    const { projects, purge, everyMs = RUN_EVERY_MS } = this.#options
    const aging = [...projects.list()].filter(([, { settings }]) => KEPT.some((kind) => settings.keep[kind] !== null))
    if (!(await this.#trustsClock(aging.length > 0)) || aging.length === 0) return
    if (!(await this.#claim(REMOVAL_TASK, everyMs))) return
    const removesRows = await this.#claim(`${TASK}, events and sessions`, RUNS_PER_REMOVAL * everyMs)
    const failures: unknown[] = []
    let isPurgeDue = false
    for (const [projectId] of aging) {
      if (this.#stop.signal.aborted) return
      try {
        if (await this.#expire(projectId, removesRows)) isPurgeDue = true
      } catch (error) {
        failures.push(error)
        isPurgeDue = true
      }
    }
    // One purge for all projects, because it rewrites the months of all of them.
    if (isPurgeDue) await purge.now(TASK).catch((error: unknown) => failures.push(error))
    if (failures.length > 0) throw failures[0]
  }

  /** @param ms length of the turn */
  async #claim(task: string, ms: number): Promise<boolean> {
    const { shards, now = Date.now } = this.#options
    return await claimJobTurn(shards, task, Math.floor(now() / ms) * ms)
  }

  /**
   * Whether the clock is plausible, or has been this far ahead for a whole day of running. A clock that jumped to next
   * year by mistake would delete data that has not expired. Times that were stored meanwhile, such as those of changed
   * settings, say nothing, because they come from the same clock.
   * @param isUsed whether anything expires
   */
  async #trustsClock(isUsed: boolean): Promise<boolean> {
    const { shards, log, everyMs = RUN_EVERY_MS, now = Date.now } = this.#options
    const known = await readLastJobTurn(shards, TASK, now())
    // At the first start, there is nothing to compare the clock with.
    const isPlausible = now() - known <= MAX_JUMP_MS || (known === 0 && !isUsed)
    if (isPlausible) this.#hasWarned = false
    else {
      if (isUsed && !this.#hasWarned) {
        log.warn(
          { clock: new Date(now()).toISOString() },
          'the clock is more than a day ahead of the last hourly run: if it still is in a day, expired data is removed again',
        )
        this.#hasWarned = true
      }
      await this.#claim(DOUBT_TASK, everyMs)
      if ((await countJobTurns(shards, DOUBT_TASK, known, now())) <= DOUBTING_RUNS) return false
    }
    await this.#claim(TASK, everyMs)
    return true
  }

  /** Like `removeExpiredDeadLetters` for one project, if its events expire as far as this process knows. */
  async expireDeadLetters(projectId: string): Promise<void> {
    const { projects, shards, now = Date.now } = this.#options
    if (projects.get(projectId).settings.keep.events === null) return
    const all = new Map(projects.list()).set(projectId, await readProject(shards, projectId))
    await removeExpiredDeadLetters(shards, all, now(), projectId)
  }

  /**
   * Removes the expired data of one project.
   * @param removesRows whether to remove events and sessions, or only profiles
   * @returns whether some of it is still on the disk, and has to be purged
   */
  async #expire(projectId: string, removesRows: boolean): Promise<boolean> {
    const { barrier, noteDeletion, log, now = Date.now } = this.#options
    const shards = reserveErasureSlots(this.#options.shards, projectId)
    const { signal } = this.#stop
    const removed = { events: 0, sessions: 0, profiles: 0, dead_letters: 0 }
    // After this, everything that was accepted before it expired is in the store or in a dead letter.
    await barrier.requireProject(projectId)
    const at = now()
    const readKeep = async () => (await readProject(this.#options.shards, projectId)).settings.keep
    // Removed data cannot be restored, so a longer retention counts from the moment any process sets it, even if that is
    // in the middle of a long removal.
    const isDue = async (kind: Kept, before: number) => {
      const { [kind]: kept } = await readKeep()
      return kept !== null && keptSince(kept, at) >= before
    }
    const keep = await readKeep()
    if (removesRows && keep.events !== null) {
      const before = keptSince(keep.events, at)
      removed.dead_letters = await expireDeadLetters(shards, projectId, before)
      try {
        removed.events = await shards.count((clickhouse) =>
          deleteEventsBefore(clickhouse, projectId, before, () => isDue('events', before)),
        )
      } finally {
        await noteDeletion(projectId)
      }
    }
    if (removesRows && keep.sessions !== null) {
      const before = keptSince(keep.sessions, at)
      removed.dead_letters += await this.#expireSessionsInDeadLetters(shards, projectId, before)
      removed.sessions = await shards.count(async (clickhouse) => {
        return (await isDue('sessions', before))
          ? await deleteExpiredSessions(clickhouse, projectId, before, signal)
          : 0
      })
    }
    if (keep.profiles !== null) {
      const before = keptSince(keep.profiles, at)
      removed.profiles = await this.#expireProfiles(shards, projectId, before, async () => {
        const kept = listKeptTimes(await readKeep(), at)
        return kept.profiles !== undefined && kept.profiles >= before ? kept : null
      })
    }
    if (Object.values(removed).some((count) => count > 0)) {
      log.info({ project: projectId, ...removed }, 'expired data was removed')
    }
    return removed.events + removed.profiles > 0
  }

  /** The journal keeps a session whose last change is a dead letter, so remove it there, too. */
  async #expireSessionsInDeadLetters(shards: Shards, projectId: string, before: number): Promise<number> {
    const { sessions } = this.#options
    // It may have been started again in the meantime.
    const remove = (session: Session | null) => (session && session.updatedAt < before ? null : session)
    return await expireSessionsInDeadLetters(shards, projectId, before, async (states) => {
      for (const { name } of states) await sessions.change(projectId, name, remove, { keyClass: 'secret' })
    })
  }

  /** @param readKept asked before each page of profiles; null: the rest is kept */
  async #expireProfiles(
    shards: Shards,
    projectId: string,
    before: number,
    readKept: () => Promise<KeptTimes | null>,
  ): Promise<number> {
    const { profiles } = this.#options
    let removed = 0
    while (removed < MAX_PROFILES && !this.#stop.signal.aborted) {
      const kept = await readKept()
      if (kept === null) break
      const names = await findUnseenProfiles(shards, projectId, { ...kept, profiles: before }, PROFILES)
      let gone = 0
      await forEachInBatches(names, async (name) => {
        // The user may have been seen in the meantime.
        const remove = (profile: Profile | null) => (profile && profile.updatedAt < before ? null : profile)
        await profiles.change(projectId, name, remove, { keyClass: 'secret' })
        gone++
      })
      removed += gone
      if (names.length < PROFILES) break
      // Otherwise the next query would find them again.
      await this.#options.barrier.requireProject(projectId)
    }
    return removed
  }

  /** Counts what would expire now in a project with these settings. */
  async preview(projectId: string, keep: ProjectSettings['keep']): Promise<ExpiredData> {
    const { barrier, now = Date.now } = this.#options
    await barrier.requireProject(projectId)
    const shards = reserveErasureSlots(this.#options.shards, projectId)
    const nothing: Expired = { count: 0, from: null, to: null, bytes: 0 }
    const kept = listKeptTimes(keep, now())
    const count = async (kind: Kept, run: (before: number) => Promise<Expired>) =>
      kept[kind] === undefined ? nothing : await run(kept[kind])
    return {
      events: await count('events', (before) => countExpiredEvents(shards, projectId, before)),
      sessions: await count('sessions', (before) => countExpiredSessions(shards, projectId, before)),
      profiles: await count('profiles', async (profiles) => {
        const names = await findUnseenProfiles(shards, projectId, { ...kept, profiles }, COUNTED_PROFILES)
        return { ...nothing, count: names.length }
      }),
    }
  }
}

import { randomInt } from 'node:crypto'
import type { Shards } from '../clickhouse/shards.js'
import type { Config } from '../config.js'
import { ApiError } from '../contract/errors.js'
import type { Appends } from '../ingest/group-commit.js'
import { QueueBudget } from '../ingest/queue-budget.js'
import type { Journal } from '../journal/journal.js'
import { type Backoff, retry } from '../lib/backoff.js'
import { BufferPool } from '../lib/buffer-pool.js'
import { ByteBudget } from '../lib/byte-budget.js'
import { firstSuccess } from '../lib/first-success.js'
import type { Log } from '../lib/log.js'
import { Turns } from '../lib/turns.js'
import { type Layout, layoutNumber } from '../model/layout.js'
import { maxPosition, START } from '../model/position.js'
import type { Profile } from '../model/profile.js'
import type { Session } from '../model/session.js'
import type { Barrier } from '../reads/read-barrier.js'
import type { States } from '../states/state-store.js'
import { takeOver } from '../store/journals.js'
import { AliasLinks } from '../users/aliases/alias-links.js'
import { AliasProjects } from '../users/aliases/alias-projects.js'
import { AliasSettling } from '../users/aliases/alias-settling.js'
import { Aliases } from '../users/aliases/aliases.js'
import { createLane, type Lane } from './lane.js'
import { LaneIds } from './lane-ids.js'
import { LaneRouter } from './lane-router.js'
import { LaneStates } from './lane-states.js'
import { LevelBarrier } from './level-barrier.js'
import { withNamedFailures } from './named-failures.js'
import { laneName, openJournal } from './open-journal.js'
import { StoredEntries } from './stored-entries.js'

/** Bytes of profiles and sessions that a process loads at a time. A change holds about four copies of each. */
const STATE_MEMORY_BYTES = 32 * 1024 * 1024

/**
 * All lanes of a store, as used by the routes. With one lane, `commits`, `profiles`, `sessions` and `barrier` are that
 * lane's own. With several, each part finds the lane of a call, or waits for all lanes.
 */
export interface Lanes {
  /** by number; at least one */
  all: readonly Lane[]
  /** the number of the lane that this process prefers */
  home: number
  /** memory of request bodies, which the journals release once they are durable */
  buffers: BufferPool
  commits: Appends
  profiles: States<Profile>
  sessions: States<Session>
  aliases: Aliases
  links: AliasLinks
  settling: Pick<AliasSettling, 'start'>
  barrier: Barrier
  ids: LaneIds
  /** by lane; see LevelBarrier */
  lateClockReads: readonly number[]
  /**
   * The lane whose event ids have this journal id; undefined if it is the id of an earlier journal. While the id of a
   * lane's journal is unknown (see `isUnknown`), that lane is returned for unknown ids, because they may be its own.
   * Its calls then fail as unavailable.
   */
  findByJournal(id: number): Lane | undefined
  entries: StoredEntries
  /** Counts a deletion of a project's events, visible to all processes. */
  noteDeletion(projectId: string): Promise<void>
  /**
   * @param isOriginal whether the store has always had this layout, so that a state missing from its lane's journal can
   * only be on that lane's shard; until this is called, all shards are searched
   */
  noteLayout(isOriginal: boolean): void
  close(): Promise<void>
}

export interface LanesOptions {
  /** the layout that this process was started for */
  layout: Layout
  log: Log
  /** aborts the waits at the read barrier */
  closing: AbortSignal
  /** called if a lane that was down at the start turns out not to belong to this store; the process should end */
  onFatal?: (error: unknown) => void
}

/** Pauses between attempts to ask a lane that is down for its position; each attempt takes 2 s itself. */
const JOIN_BACKOFF: Backoff = { firstMs: 100, maxMs: 1_000 }

/**
 * Opens the journals and everything around them. If there are several lanes, some may be down: each is used as soon as
 * it is up.
 * @throws Error if a journal must not be opened, or if none can be; ClickHouse need not be available
 */
export async function openLanes(config: Config, shards: Shards, options: LanesOptions): Promise<Lanes> {
  const { log, closing } = options
  const areSeveral = config.LANES > 1
  const home = config.HOME_LANE ?? randomInt(config.LANES)
  const journals = await openJournals(config, shards, options, areSeveral ? home : undefined)
  const joining = new AbortController()
  if (areSeveral) await levelFloors(journals, joining.signal)
  const buffers = new BufferPool()
  const shared = { buffers, queued: new QueueBudget(), memory: new ByteBudget(STATE_MEMORY_BYTES), turns: new Turns() }
  let isOriginal = false
  const all: Lane[] = []
  const router = new LaneRouter(all, home, buffers)
  for (const [number, journal] of journals.entries()) {
    const name = laneName(config, number)
    const others = areSeveral ? router.connectOthers({ number, name }) : null
    const isOwnShardEnough = () => isOriginal
    const options = { number, name, shards, isOwnShardEnough, others, ...shared, log, closing }
    all.push(createLane(areSeveral ? withNamedFailures(journal, name) : journal, config, options))
  }
  const [only] = all
  if (!only) throw new RangeError('a store has at least one lane')
  const parts = areSeveral
    ? {
        commits: router,
        profiles: new LaneStates('profiles', all, ({ profiles }) => profiles),
        sessions: new LaneStates('sessions', all, ({ sessions }) => sessions),
        aliases: new LaneStates('aliases', all, ({ aliases }) => aliases),
        barrier: new LevelBarrier(all, { log, closing }),
      }
    : only
  const { commits, profiles, sessions, aliases: states, barrier } = parts
  const lateClockReads = barrier instanceof LevelBarrier ? barrier.lateClockReads : [0]
  const projects = new AliasProjects({ lanes: all, home, shards, isShared: config.REDIS_URL !== undefined })
  const aliases = new Aliases({ states, projects, shards })
  const settling = new AliasSettling({ aliases, states, barrier, shards, log })
  const findByJournal = (id: number) => all.find(({ journal }) => journal.id === id) ?? all.find(isUnknown)
  return {
    all,
    home,
    buffers,
    commits,
    profiles,
    sessions,
    aliases,
    links: new AliasLinks({ aliases, states, profiles, projects, settling, barrier, log }),
    settling,
    barrier,
    ids: new LaneIds(all),
    lateClockReads,
    findByJournal,
    entries: new StoredEntries(findByJournal),
    noteDeletion: (projectId) => noteDeletion(all, home, projectId),
    noteLayout: (original) => {
      isOriginal = original
    },
    close: async () => {
      joining.abort()
      await settling.close()
      await closeAll(all)
    },
  }
}

/** Whether a lane has been down since the start, so that the id of its journal is not known yet. */
function isUnknown({ journal }: Pick<Lane, 'journal'>): boolean {
  return journal.id === 0 && !journal.isUp
}

/** Opens all journals, or none. If there are several, at least one must be up. */
async function openJournals(config: Config, shards: Shards, options: LanesOptions, home?: number): Promise<Journal[]> {
  const { log, onFatal = () => undefined } = options
  const layout = layoutNumber(options.layout)
  const reasons: Error[] = []
  const createLateStart = (lane: number) => ({
    onDown: (reason: Error) => {
      reasons.push(reason)
      log.warn({ err: reason }, `${laneName(config, lane)} is down; calls that need it are refused until it is up`)
    },
    onFatal: (error: Error) => {
      log.error({ err: error }, `${laneName(config, lane)} must not be used`)
      onFatal(error)
    },
  })
  const numbers = Array.from({ length: config.LANES }, (_, number) => number)
  const open = (lane: number) =>
    openJournal(config, log, shards, { lane, layout, ...(home !== undefined && { home, late: createLateStart(lane) }) })
  const results = await Promise.allSettled(numbers.map(open))
  const opened = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  const failed = results.find((result) => result.status === 'rejected')
  if (!failed && reasons.length < numbers.length) return opened
  await closeAll(opened)
  throw failed ? failed.reason : reasons[0]
}

/**
 * Raises the positions of all lanes to the greatest one, so that everything this process accepts comes after everything
 * that was accepted before its start. Otherwise a client's calls could change their order when its process is restarted
 * and prefers a lane with a slow clock. The position of a lane that is down is taken into account once it is up.
 * @param signal ends the wait for lanes that are down
 */
async function levelFloors(journals: readonly Journal[], signal: AbortSignal): Promise<void> {
  const results = await Promise.allSettled(journals.filter(({ isUp }) => isUp).map((journal) => journal.progress()))
  // A lane that went down after it was opened is ignored.
  const last = results.reduce(
    (last, result) => (result.status === 'fulfilled' ? maxPosition(last, result.value.appended) : last),
    START,
  )
  for (const journal of journals) journal.raiseFloor(last)
  for (const late of journals.filter(({ isUp }) => !isUp)) {
    const join = async () => {
      const { appended } = await late.progress()
      for (const journal of journals) if (journal !== late) journal.raiseFloor(appended)
    }
    // Retried until it succeeds or is aborted, so it cannot fail.
    void retry(join, { backoff: JOIN_BACKOFF, signal })
  }
}

/** Counts the deletion in the home lane, or else in any other: readers add up the counts of all lanes. */
async function noteDeletion(all: readonly Lane[], home: number, projectId: string): Promise<void> {
  const inOrder = [...all].sort((a, b) => Number(b.number === home) - Number(a.number === home))
  await firstSuccess(inOrder, ({ journal }) => journal.noteDeletion(projectId))
}

/** @throws the first error, once all are closed */
async function closeAll(parts: readonly { close(): Promise<void> }[]): Promise<void> {
  const results = await Promise.allSettled(parts.map((part) => part.close()))
  const failed = results.find((result) => result.status === 'rejected')
  if (failed) throw failed.reason
}

export interface LaneStart {
  /** the lanes whose shards are ready */
  lanes: readonly Lane[]
  /** whether this process stores events */
  isWriter: boolean
}

/**
 * Registers the journals in the store, and starts their writers. A failure in one lane does not stop the others. Call
 * it again until it returns null.
 * @returns the error of a lane that has been down since the start, if there is one; else null
 * @throws StoreError, StoreUnreachableError; ApiError `unavailable` if a journal has gone down since
 */
export async function startLanes(shards: Shards, { lanes, isWriter }: LaneStart): Promise<ApiError | null> {
  const start = async (lane: Lane) => {
    await takeOver(shards, lane, Date.now())
    if (isWriter) lane.writer.start()
  }
  const results = await Promise.allSettled(lanes.filter((lane) => !isUnknown(lane)).map(start))
  const failed = results.find((result) => result.status === 'rejected')
  if (failed) throw failed.reason
  const late = lanes.find(isUnknown)
  return late ? new ApiError('unavailable', `${late.name} has been down since the start.`) : null
}

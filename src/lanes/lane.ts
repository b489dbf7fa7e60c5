import type { Shard, Shards } from '../clickhouse/shards.js'
import type { Config } from '../config.js'
import { GroupCommit, type GroupCommitOptions } from '../ingest/group-commit.js'
import type { QueueBudget } from '../ingest/queue-budget.js'
import { Writer } from '../ingest/writer.js'
import type { Journal } from '../journal/journal.js'
import type { BufferPool } from '../lib/buffer-pool.js'
import type { ByteBudget } from '../lib/byte-budget.js'
import { CloseStack } from '../lib/close-stack.js'
import type { Log } from '../lib/log.js'
import type { Turns } from '../lib/turns.js'
import type { Alias } from '../model/alias.js'
import type { Profile } from '../model/profile.js'
import { MAX_SESSION_BYTES, type Session } from '../model/session.js'
import { READ_BARRIER_MS, ReadBarrier } from '../reads/read-barrier.js'
import { KnownStates } from '../states/known-states.js'
import { withRecentReads } from '../states/recent-reads.js'
import { StateStore } from '../states/state-store.js'
import {
  openTables,
  type StateTable,
  type StoredTable,
  type StoreTables,
  type Tables,
  withDeadLetters,
} from '../store/tables.js'

/**
 * How long the writer may still store entries on shutdown, ms. The rest stays in the journal until
 * the next start.
 */
const FLUSH_LIMIT_MS = 1_500

/** One journal and the parts around it: group commit → journal → writer, the read barrier and the state stores. */
export interface Lane {
  /** counted from 0 */
  number: number
  /** name for messages, such as `lane 1 (host:6379)` */
  name: string
  /** name for messages about data that is not stored yet: the lane and, if there are several, its shard */
  fullName: string
  /** the shard that the writer stores on */
  shard: Shard
  journal: Journal
  commits: GroupCommit
  /** not started yet, because a process with ROLE=api stores nothing itself */
  writer: Writer
  /** waits for what this lane has accepted */
  barrier: ReadBarrier
  profiles: StateStore<Profile>
  sessions: StateStore<Session>
  aliases: StateStore<Alias>
  /** Commits what is waiting, stores for up to 1.5 s more, and closes the journal. */
  close(): Promise<void>
}

/** Largest alias, bytes: two names of up to 255 characters, each of up to 4 bytes or an escape of 6. */
const MAX_ALIAS_BYTES = 4 * 1024

/** How a lane's group commit uses the other lanes. */
export type OtherLanes = Required<Omit<GroupCommitOptions, 'budget'>>

/** Shared by the lanes of a process. */
export interface LaneOptions {
  number: number
  name: string
  shards: Shards
  /** whether everything that a lane has stored is on its own shard; false after a change of the layout */
  isOwnShardEnough: () => boolean
  /** null if this is the only lane */
  others: OtherLanes | null
  buffers: BufferPool
  /** limits the requests that wait for the journals */
  queued: QueueBudget
  /** limits the profiles and sessions in memory */
  memory: ByteBudget
  /** shares the time of the event loop among changes of profiles and sessions */
  turns: Turns
  log: Log
  /** aborts the waits at the read barrier */
  closing: AbortSignal
}

/** Makes a lane of a journal, which the lane closes. */
export function createLane(journal: Journal, config: Config, options: LaneOptions): Lane {
  const { number, name, shards, isOwnShardEnough, others, buffers, queued, memory, turns, log, closing } = options
  const shard = shards.at(number % shards.all.length)
  const fullName = shards.areSeveral ? `${name} on shard ${shard.number} (${shard.name})` : name
  const parts = new CloseStack()
  parts.add(journal)
  const tables = openTables(shard.clickhouse, journal)
  const everywhere = shards.areSeveral ? openTables(shard.clickhouse, journal, shards) : tables
  const of = <Value>(own: StoredTable<Value>, all: StoredTable<Value>): StoredTable<Value> => {
    if (own === all) return own
    const table = () => (isOwnShardEnough() ? own : all)
    return {
      ...own,
      read: (...wanted) => table().read(...wanted),
      count: () => table().count(),
      stateKeys: (...wanted) => table().stateKeys(...wanted),
    }
  }
  const writer = new Writer({
    journal,
    tables: withLookupOnAllShards(tables, () => (isOwnShardEnough() ? tables : everywhere)),
    log,
  })
  parts.add({ close: () => writer.close(FLUSH_LIMIT_MS) })
  const budget = others ? queued.ofLane() : queued
  const commits = parts.add(new GroupCommit(journal, buffers, { ...others, budget }))
  const profiles = of(tables.profiles, everywhere.profiles)
  const sessions = of(tables.sessions, everywhere.sessions)
  const aliases = of(tables.aliases, everywhere.aliases)
  const states = <Value>(table: StateTable<Value>, stored: StoredTable<Value>, maxBytes: number) =>
    new StateStore(journal, commits, table, {
      maxBytes,
      memory,
      turns,
      known: new KnownStates(journal, withDeadLetters(stored, shards), log, { closing }),
    })
  return {
    number,
    name,
    fullName,
    shard,
    journal,
    commits,
    writer,
    barrier: new ReadBarrier(journal, closing, READ_BARRIER_MS, others ? fullName : ''),
    profiles: states(profiles, profiles, config.MAX_PROFILE_BYTES),
    sessions: states(sessions, sessions, MAX_SESSION_BYTES),
    aliases: states(withRecentReads(aliases, journal), aliases, MAX_ALIAS_BYTES),
    close: () => parts.close(),
  }
}

/**
 * The tables as a lane's writer sees them: it stores on its own shard, and searches all shards for rows that are stored
 * already.
 * @param all all shards, if entries that a failover brought back may be stored on a shard other than the lane's: the
 * lane may have had another shard before a change of the layout
 */
function withLookupOnAllShards(tables: StoreTables, all: () => StoreTables): Tables {
  return {
    ...tables,
    lastStored: (first) => all().lastStored(first),
    storedPositions: (block) => all().storedPositions(block),
  }
}

import type { ClickHouse } from '../clickhouse/client.js'
import type { Config } from '../config.js'
import type { Journal } from '../journal/journal.js'
import { BufferPool } from '../lib/buffer-pool.js'
import { ByteBudget } from '../lib/byte-budget.js'
import { CloseStack } from '../lib/close-stack.js'
import type { Log } from '../lib/log.js'
import type { Profile } from '../model/profile.js'
import { MAX_SESSION_BYTES, type Session } from '../model/session.js'
import { openTables } from '../store/tables.js'
import { GroupCommit } from './group-commit.js'
import { openJournal } from './open-journal.js'
import { ReadBarrier } from './read-barrier.js'
import { StateStore } from './state-store.js'
import { Writer } from './writer.js'

/**
 * Bytes of profiles and sessions that a process loads at a time; a change holds some four copies
 * of each.
 */
const STATE_MEMORY_BYTES = 32 * 1024 * 1024
/**
 * How long the writer may still store entries on shutdown. The rest stays in the journal until the
 * next start.
 */
const FLUSH_LIMIT_MS = 1_500

/**
 * The way of the data from a request to ClickHouse and back: journal → group commit → writer →
 * read barrier.
 */
export interface Lane {
  journal: Journal
  /** memory of request bodies, which the journal releases once they are durable */
  buffers: BufferPool
  commits: GroupCommit
  /** not started: a process of ROLE=api stores nothing itself */
  writer: Writer
  barrier: ReadBarrier
  profiles: StateStore<Profile>
  sessions: StateStore<Session>
  /** Commits what is waiting, stores for up to 1.5 s more, and closes the journal. */
  close(): Promise<void>
}

/**
 * Opens the journal and everything around it.
 * @param closing aborts the waits at the read barrier
 * @throws Error if the journal cannot be opened; ClickHouse need not be available
 */
export async function openLane(
  config: Config,
  clickhouse: ClickHouse,
  { log, closing }: { log: Log; closing: AbortSignal },
): Promise<Lane> {
  const parts = new CloseStack()
  const journal = parts.add(await openJournal(config, log, clickhouse))
  const tables = openTables(clickhouse, journal.id)
  const writer = new Writer({ journal, tables, log })
  parts.add({ close: () => writer.close(FLUSH_LIMIT_MS) })
  const buffers = new BufferPool()
  const commits = parts.add(new GroupCommit(journal, buffers))
  const memory = new ByteBudget(STATE_MEMORY_BYTES)
  return {
    journal,
    buffers,
    commits,
    writer,
    barrier: new ReadBarrier(journal, closing),
    profiles: new StateStore(journal, commits, tables.profiles, { maxBytes: config.MAX_PROFILE_BYTES, memory }),
    sessions: new StateStore(journal, commits, tables.sessions, { maxBytes: MAX_SESSION_BYTES, memory }),
    close: () => parts.close(),
  }
}

import type { ClickHouseSettings } from '../clickhouse/parameters.js'
import { BACKGROUND } from '../clickhouse/read-slots.js'
import type { Shards } from '../clickhouse/shards.js'
import type { Appends, CommitMetrics } from '../ingest/group-commit.js'
import type { BufferPool } from '../lib/buffer-pool.js'
import { hideExpired } from '../store/expiry.js'
import { ReadLog } from '../store/read-log.js'
import { DailyVisitors } from '../users/daily-visitors.js'
import type { Purge } from '../users/erasure/purge.js'
import { Expiry, type ExpiryOptions } from './expiry.js'
import { Projects, type ProjectsOptions } from './projects.js'
import { QuotaWatch } from './quota-watch.js'
import { Quotas, type QuotasOptions } from './quotas.js'
import { Usage } from './usage.js'

/** The parts that count and limit what projects do. */
export interface ProjectsParts extends Pick<ExpiryOptions, 'barrier' | 'profiles' | 'sessions' | 'noteDeletion'> {
  shards: Shards
  /** appends to the journals */
  commits: Appends
  lanes: readonly { commits: { metrics: Pick<CommitMetrics, 'byProject'> } }[]
  buffers: BufferPool
  ids: QuotasOptions['ids']
  purge: Purge
}

export interface OpenProjectsOptions extends ProjectsOptions {
  /** see `ExpiryOptions.everyMs` */
  expiryEveryMs?: number | undefined
}

/**
 * Opens the parts that know the settings of projects, in two steps: the store needs the settings to hide expired data
 * and to name the project of a read, and the other parts need the store.
 */
export function openProjects({ log, closing, everyMs, expiryEveryMs, now }: OpenProjectsOptions) {
  const projects = new Projects({ log, closing, everyMs, now })
  const readLog = new ReadLog()
  const settingsOfReads = (projectId: string): ClickHouseSettings => {
    if (projectId === BACKGROUND) return {}
    projects.requireKnown()
    return { ...hideExpired(projects.kept(projectId)), ...readLog.label(projectId) }
  }
  /** @returns `limited`, which appends to the journals within the quotas, and `start`, which may be called again */
  const open = (parts: ProjectsParts) => {
    const { shards, lanes, commits, buffers, ids, barrier, profiles, sessions, noteDeletion, purge } = parts
    const usage = new Usage({ shards, commits: lanes.map(({ commits }) => commits), readLog, log, closing, now })
    const quotas = new QuotaWatch({ projects, usage, shards, log, closing, now })
    const storedBytes = (projectId: string) => quotas.storedBytes(projectId)
    const limited = new Quotas({ projects, usage, storedBytes, commits, ids, buffers, log, now })
    const expiry = new Expiry({
      projects,
      shards,
      barrier,
      profiles,
      sessions,
      noteDeletion,
      purge,
      log,
      everyMs: expiryEveryMs,
      now,
    })
    const visitors = new DailyVisitors({ shards, log, closing, now })
    let isStarted = false
    const start = async (isWriter: boolean) => {
      await projects.start(shards)
      await visitors.start()
      if (isStarted) return
      isStarted = true
      void usage.start()
      void quotas.start()
      if (isWriter) expiry.start()
    }
    return { projects, usage, quotas, limited, expiry, visitors, start }
  }
  return { projects, settingsOfReads, open }
}

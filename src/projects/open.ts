import { BACKGROUND } from '../clickhouse/read-slots.js'
import type { Shards } from '../clickhouse/shards.js'
import type { Appends, CommitMetrics } from '../ingest/group-commit.js'
import type { BufferPool } from '../lib/buffer-pool.js'
import { ReadLog } from '../store/read-log.js'
import { hideExpired } from '../store/retention.js'
import { DailyVisitors } from '../users/daily-visitors.js'
import type { Purge } from '../users/erasure/purge.js'
import { Projects, type ProjectsOptions } from './projects.js'
import { QuotaWatch } from './quota-watch.js'
import { Quotas, type QuotasOptions } from './quotas.js'
import { Retention, type RetentionOptions } from './retention.js'
import { Usage } from './usage.js'

/** The parts that count and limit what projects do. */
export interface ProjectsParts extends Pick<RetentionOptions, 'barrier' | 'profiles' | 'noteDeletion'> {
  shards: Shards
  /** appends to the journals */
  commits: Appends
  all: readonly { commits: { metrics: Pick<CommitMetrics, 'byProject'> } }[]
  buffers: BufferPool
  ids: QuotasOptions['ids']
  purge: Purge
}

export interface OpenProjectsOptions extends ProjectsOptions {
  /** see `RetentionOptions.everyMs` */
  retentionEveryMs?: number | undefined
}

/**
 * Opens the parts that know the settings of projects, in two steps: the store needs the settings to hide expired data
 * and to name the project of a read, and the other parts need the store.
 */
export function openProjects({ retentionEveryMs, ...options }: OpenProjectsOptions) {
  const projects = new Projects(options)
  const readLog = new ReadLog()
  const readSettings = (projectId: string) => ({
    ...hideExpired(projects.kept(projectId)),
    ...(projectId !== BACKGROUND && readLog.label(projectId)),
  })
  /** @returns `limited`, which appends to the journals within the quotas, and `start`, which may be called again */
  const open = ({ all, ...parts }: ProjectsParts) => {
    const { log, closing, now } = options
    const own = { ...parts, projects, log, closing, now }
    const counted = new Usage({ ...own, readLog, commits: all.map(({ commits }) => commits) })
    const quotas = new QuotaWatch({ ...own, usage: counted })
    const limited = new Quotas({ ...own, usage: counted, storedBytes: (projectId) => quotas.storedBytes(projectId) })
    const retention = new Retention({ ...own, everyMs: retentionEveryMs })
    const visitors = new DailyVisitors(own)
    let isStarted = false
    const start = async (isWriter: boolean) => {
      await projects.start(parts.shards)
      await visitors.start()
      if (isStarted) return
      isStarted = true
      void counted.start()
      void quotas.start()
      if (isWriter) retention.start()
    }
    return { projects, usage: counted, quotas, limited, retention, visitors, start }
  }
  return { projects, reads: { readSettings }, open }
}

import type { ClickHouse } from '../clickhouse/client.js'
import { RecentValues } from '../lib/recent-values.js'
import type { EventChange } from '../store/event-changes.js'
import { findStatements } from '../store/fact-backlog.js'
import type { FactLead } from '../store/fact-lead.js'

export interface UnendedLimits {
  /** how long to wait for a change that has not ended, ms; default: ABANDONED_MS */
  abandonedMs?: number
  /** the same for edits and single deletions, ms; default: OVERDUE_MS */
  overdueMs?: number
}

/** Twice the time for which the service waits for any statement that changes events. */
const ABANDONED_MS = 4 * 60_000
/**
 * Edits and single deletions take a second at most. One that takes longer is abandoned, because its process may be
 * dead.
 */
const OVERDUE_MS = 10_000
/** An INSERT, which has no fence, reaches ClickHouse within this time after its process gave up, ms. */
const ON_ITS_WAY_MS = 1_000
/** How many changes are remembered. */
const MAX_KNOWN = 1_000

interface Unended {
  isAbandoned: boolean
  /** when this process first saw it in this state, `performance.now()` */
  at: number
  /** statements that may belong to it, have begun before it was abandoned and are still running; null: unknown */
  running: string[] | null
}

/**
 * Changes that have not ended, because they are being carried out or their process has died. Which clock is right does
 * not matter: if a change is abandoned too early, it fails.
 */
export class UnendedChanges {
  readonly #clickhouse: ClickHouse
  readonly #limits: UnendedLimits
  /** by project and id, because edits of several projects share an id */
  readonly #known = new RecentValues<Unended>(MAX_KNOWN)

  constructor(clickhouse: ClickHouse, limits: UnendedLimits) {
    this.#clickhouse = clickhouse
    this.#limits = limits
  }

  /** Whether facts can follow a change now. Abandons it if it takes too long. */
  async isOver(change: EventChange, lead: Pick<FactLead, 'abandon'>): Promise<boolean> {
    const { id, projectId, scope, isAbandoned } = change
    const key = `${projectId} ${id}`
    const before = this.#known.get(key)
    const known = before?.isAbandoned === isAbandoned ? before : { isAbandoned, at: performance.now(), running: null }
    this.#known.set(key, known)
    const ms = performance.now() - known.at
    const { abandonedMs = ABANDONED_MS, overdueMs = OVERDUE_MS } = this.#limits
    if (!isAbandoned) {
      if (ms > (scope.kind === 'events' ? Math.min(overdueMs, abandonedMs) : abandonedMs)) await lead.abandon(change)
      return false
    }
    if (ms < ON_ITS_WAY_MS) return false
    const running = await findStatements(this.#clickhouse, scope)
    if (running === null) return ms > abandonedMs
    // Later statements are those of other changes, or fail.
    known.running = running.filter((one) => known.running?.includes(one) ?? true)
    return known.running.length === 0
  }
}

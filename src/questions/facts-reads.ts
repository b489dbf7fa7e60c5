import {
  findUnreadablePart,
  isPassing,
  isStoreError,
  isTimeout,
  isTooLarge,
  StoreError,
  type StoreErrorName,
} from '../clickhouse/errors.js'
import type { PageSettings } from '../contract/page-fields.js'
import type { Position } from '../model/position.js'
import type { FactsPoint, FactsReader } from '../reads/facts-reader.js'
import { identifySessions } from './session-facts-source.js'
import type { FactsBounds } from './statement.js'
import { type FoundSessions, UsableDays } from './usable-days.js'
import { ValueColumns } from './value-columns.js'

export interface FactsReadsOptions {
  /** default: questions read `events` only */
  facts?: Pick<FactsReader, keyof FactsReader> | undefined
  /** epoch ms before which events or sessions of a project may have expired; null or default: none have */
  getExpiry?: ((projectId: string) => number | null) | undefined
  /** maximum number of changed sessions that a statement lists; default: 2000 */
  maxChanged?: number | undefined
}

/** A question that can be answered from facts. */
interface FactsRead {
  projectId: string
  appended: Position | undefined
  pages: PageSettings
  /** aborted when the client disconnects */
  signal: AbortSignal | undefined
}

/** Errors of a query that depend on the events that it has read. */
const OF_EVENTS: StoreErrorName[] = ['FUNCTION_THROW_IF_VALUE_IS_NON_ZERO', 'AMBIGUOUS_IDENTIFIER', 'TOO_MANY_ROWS']
/** Tables whose rows can be computed from other tables instead. */
const DERIVED = ['event_facts', 'session_facts']
/** How often a question reads facts that change in the meantime before it reads `events` instead. */
const MAX_FACTS_READS = 2
/** A question that takes longer than this would benefit from columns for its properties, ms. */
const SLOW_MS = 200

/** Reads facts for questions, or `events` where facts are missing, damaged or change too often. */
export class FactsReads {
  readonly #options: FactsReadsOptions
  readonly #checkStore: () => Promise<void>
  /** by the `shards` of a point, which stay the same object while the point is used */
  readonly #changed = new WeakMap<object, { appended: Position; found: FoundSessions }>()

  /** @param checkStore throws if ClickHouse does not respond at all */
  constructor(options: FactsReadsOptions, checkStore: () => Promise<void>) {
    this.#options = options
    this.#checkStore = checkStore
  }

  /**
   * First reads facts without regard to running steps, which is fastest. If a step changes them during the query, the
   * query is repeated without the rows of later steps, and then without facts.
   */
  async read<T>(
    { projectId, appended, pages, signal }: FactsRead,
    read: (facts: FactsBounds | null, sessions: UsableDays | null) => Promise<T>,
  ): Promise<T> {
    const { facts } = this.#options
    for (let failed = 0; facts && failed < MAX_FACTS_READS; failed++) {
      const reached = facts.point(projectId, appended, signal)
      const point = await reached.catch((error: unknown) => this.#withoutFacts(error))
      if (!point) break
      const isBounded = failed > 0 || point.isStepping || point.isMoving
      const stillHolds = async () => {
        return await facts.stillHolds(projectId, point, isBounded).catch((error: unknown) => this.#withoutFacts(error))
      }
      const columns = await facts.readColumns().catch((error: unknown) => this.#withoutFacts(error))
      const values = new ValueColumns(columns ?? new Set())
      const sessions = new UsableDays(point.sessionDays, {
        definition: identifySessions(pages),
        expiry: this.#options.getExpiry?.(projectId) ?? null,
        found: this.#recallChanged(point, appended),
        max: this.#options.maxChanged,
      })
      // If this is lost, only speed is lost.
      const noteSlow = () => void facts.noteSlow(projectId, values.sources).catch(() => undefined)
      const began = performance.now()
      const bounds: FactsBounds = {
        hi: point.shards.map((shard) => shard?.hi ?? 0n),
        hasLater: point.hasLater,
        step: isBounded ? point.shards.map((shard) => shard?.step ?? 0) : null,
        findColumn: (source) => values.find(source),
        findSessions: () => sessions.find(),
        findChanged: (query) => sessions.findChanged(query),
      }
      const found = await read(bounds, sessions).catch(async (error: unknown) => {
        const damaged = findUnreadablePart(error)
        // A column was dropped.
        if (isStoreError(error, 'UNKNOWN_IDENTIFIER')) facts.forgetColumns()
        else if (damaged?.table && DERIVED.includes(damaged.table)) void facts.noteDamage(damaged)
        // If the damaged table is unknown, it may be the facts; `events` has the same data.
        else if (!damaged || damaged.table !== null) {
          if (isTooLarge(error)) noteSlow()
          if (!isStoreError(error, ...OF_EVENTS) || (await stillHolds())) throw error
        }
        return null
      })
      if (found === null) continue
      const tookMs = performance.now() - began
      if (!(await stillHolds())) continue
      void facts.noteUsed(values.used).catch(() => undefined)
      const isSlow = tookMs > SLOW_MS
      if (isSlow) noteSlow()
      if (sessions.areAsked) {
        void facts.noteSessions(projectId, { isSlow, isUsed: sessions.areUsed }).catch(() => undefined)
      }
      return found
    }
    return await read(null, null)
  }

  /** The changed sessions that questions at a point have found. @param appended as for `FactsReader.point` */
  #recallChanged({ shards }: Pick<FactsPoint, 'shards'>, appended: Position | undefined): FoundSessions {
    const known = this.#changed.get(shards)
    // Data accepted later may have changed more sessions.
    if (known && appended !== undefined && known.appended === appended) return known.found
    const found: FoundSessions = new Map()
    if (appended !== undefined) this.#changed.set(shards, { appended, found })
    return found
  }

  /**
   * Handles a failed look-up of facts: the question is answered without them.
   * @throws if ClickHouse does not respond at all
   */
  async #withoutFacts(error: unknown): Promise<null> {
    if (isTimeout(error)) await this.#checkStore()
    // Some table about facts may be damaged.
    else if (!(error instanceof StoreError) || isPassing(error)) throw error
    const damaged = findUnreadablePart(error)
    if (damaged) void this.#options.facts?.noteDamage(damaged)
    return null
  }
}

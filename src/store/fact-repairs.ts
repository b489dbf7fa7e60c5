import type { Shard } from '../clickhouse/shards.js'
import { HOUR_MS } from '../contract/durations.js'
import type { Log } from '../lib/log.js'
import { checkPart } from './check-parts.js'
import { noteCalls, requestFacts } from './event-changes.js'
import { detachNotes } from './fact-check.js'

/** Pauses before the next repair of the same table or part, or check of the same part, ms. */
export interface RepairPauses {
  /** if it is still damaged after a repair, another one does not help; an intact part is not checked again either */
  repairedMs: number
  failedMs: number
}

const PAUSES: RepairPauses = { repairedMs: HOUR_MS, failedMs: 60_000 }

const NOT_REPLACED =
  'a damaged part of the facts could not be replaced, unless another process has done it; questions read events ' +
  'instead, and the next one that meets the damage after a minute tries again. If this persists, check the rights of ' +
  'the user of CLICKHOUSE_URL and the disk of ClickHouse, or run: tallyhouse facts rebuild'

/** Replaces damaged parts of facts, and of tables about them. */
export class FactRepairs {
  readonly #log: Pick<Log, 'warn'>
  readonly #pauses: RepairPauses
  readonly #now: () => number
  /** by shard and table or part: when it may be repaired, or checked, again, in the time of `#now` */
  readonly #dueAt = new Map<string, number>()

  /** @param now a clock that never goes back, ms */
  constructor(log: Pick<Log, 'warn'>, pauses = PAUSES, now = () => performance.now()) {
    this.#log = log
    this.#pauses = pauses
    this.#now = now
  }

  /**
   * Has an unreadable part replaced: session facts are filled again, facts are rebuilt, and a part of the other tables
   * is detached, after which the leader rebuilds the facts. A failure is logged. Never rejects.
   * @param options `isSure`: whether it is known that the part is on this shard, because others may have an intact part
   *   of the same name
   * @returns whether it is being replaced now
   */
  async repair(
    { number, clickhouse }: Shard,
    { table, part }: { table: string; part: string },
    { isSure }: { isSure: boolean },
  ): Promise<boolean> {
    const place = `${number} ${table} ${part}`
    // After a rebuild, all parts of the facts are new.
    const key = table === 'event_facts' ? `${number} ${table}` : place
    const intact = `${place} is intact`
    if (this.#isPaused(key) || (!isSure && this.#isPaused(intact))) return false
    this.#pause(key, this.#pauses.repairedMs)
    try {
      if (!isSure && (await checkPart(clickhouse, { table, name: part })) === null) {
        // Another part of the table may be damaged.
        this.#dueAt.delete(key)
        this.#pause(intact, this.#pauses.repairedMs)
        return false
      }
      this.#log.warn({ table, part }, 'a part of the facts is damaged; replacing it')
      if (table === 'event_facts') await requestFacts(clickhouse, 'rebuild', '')
      else if (table === 'session_facts') await noteCalls(clickhouse, '', { keys: null })
      else await detachNotes(clickhouse, { table, part })
      return true
    } catch (err) {
      this.#pause(key, this.#pauses.failedMs)
      this.#log.warn({ err, table, part }, NOT_REPLACED)
      return false
    }
  }

  #isPaused(key: string): boolean {
    return this.#now() < (this.#dueAt.get(key) ?? Number.NEGATIVE_INFINITY)
  }

  #pause(key: string, ms: number): void {
    this.#dueAt.set(key, this.#now() + ms)
  }
}

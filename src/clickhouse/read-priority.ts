import type { ClickHouseSettings } from './parameters.js'

/**
 * Nice values of the threads of a query. Accepting events has priority: a thread has a scheduling weight of 36 at 15,
 * and of 15 at 19; on 2 cores, the threads that accept events have about 3 × 1024. A query costs more than its weight,
 * because threads that wake up wait for its time slice: at 15, two questions with two threads each reduced the events
 * per second by 15 %, one question with one thread by 7 %.
 */
const NICE = { light: 15, heavy: 19 }
/** A project yields to the others after its queries have kept the store busy for this long, ms. */
const LIGHT_MS = 1_500
/** Past use decays to a third (1/e) in this time, ms. */
const DECAY_MS = 10_000
/** When there are more projects than this, those whose use has faded are forgotten. */
const MAX_PROJECTS = 1_000
const SETTING = 'os_threads_nice_value_query'

interface Server {
  rows(query: string, parameters: { name: string }): Promise<unknown[]>
}

interface Use {
  /** decayed use, ms */
  ms: number
  /** when `ms` was computed, `performance.now()` */
  at: number
  running: number
}

/**
 * Lowers the priority of projects' queries below that of storing events. A project that has used the store a lot in the
 * last seconds also yields to the others: otherwise, one that reads without pause would get a share of the store for
 * each of its queries.
 */
export class ReadPriority {
  readonly #clickhouse: Server
  readonly #now: () => number
  readonly #uses = new Map<string, Use>()
  #isKnown: Promise<boolean> | undefined

  /** @param now ms of any clock that never goes back */
  constructor(clickhouse: Server, now: () => number = () => performance.now()) {
    this.#clickhouse = clickhouse
    this.#now = now
  }

  /** Starts counting a query of a project. @returns a function that stops counting; call it once */
  begin(project: string): () => void {
    const use = this.#update(project)
    use.running++
    return () => {
      this.#update(project)
      use.running--
    }
  }

  /** Settings for a query that begins now; none if the server cannot set priorities. @throws if it does not respond */
  async settings(project: string): Promise<ClickHouseSettings> {
    this.#isKnown ??= this.#find().catch((error: unknown) => {
      this.#isKnown = undefined
      throw error
    })
    if (!(await this.#isKnown)) return {}
    return { [SETTING]: this.isHeavy(project) ? NICE.heavy : NICE.light } as ClickHouseSettings
  }

  /** Whether the project has used the store a lot in the last seconds. */
  isHeavy(project: string): boolean {
    return this.#uses.has(project) && this.#update(project).ms > LIGHT_MS
  }

  #update(project: string): Use {
    const now = this.#now()
    let use = this.#uses.get(project)
    if (!use) {
      if (this.#uses.size >= MAX_PROJECTS) this.#forget()
      use = { ms: 0, at: now, running: 0 }
      this.#uses.set(project, use)
    }
    const kept = Math.exp((use.at - now) / DECAY_MS)
    // Running queries add to the decayed use, and decay themselves.
    use.ms = use.ms * kept + use.running * DECAY_MS * (1 - kept)
    use.at = now
    return use
  }

  #forget(): void {
    for (const [project, use] of this.#uses) {
      if (use.running === 0 && this.#update(project).ms < 1) this.#uses.delete(project)
    }
  }

  async #find(): Promise<boolean> {
    const found = await this.#clickhouse.rows('SELECT 1 FROM system.settings WHERE name = {name:String}', {
      name: SETTING,
    })
    return found.length > 0
  }
}

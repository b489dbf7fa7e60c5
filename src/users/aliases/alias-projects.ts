import { setTimeout as wait } from 'node:timers/promises'
import type { Shards } from '../../clickhouse/shards.js'
import type { Journal } from '../../journal/journal.js'
import { firstSuccess } from '../../lib/first-success.js'
import type { Position } from '../../model/position.js'
import { hasAliases } from '../../store/aliases.js'

/** How long this process relies on an earlier result that a project has no alias, ms. */
const NONE_MS = 1_000
/** How long the first alias of a project is delayed, ms: until no process still relies on an earlier "none". */
const FIRST_ALIAS_MS = NONE_MS + 100
/** How long a query of ClickHouse that found no alias is relied on, ms. The journals are still read each time. */
const STORE_MS = 5 * 60_000
/** Projects in the cache. When it is full, it is cleared. */
const MAX_PROJECTS = 10_000

/**
 * Whether a project has aliases. `unknown`: ClickHouse has not answered yet, or has not stored everything that was in
 * the journals when this process started.
 */
export type AliasesOfProject = 'some' | 'none' | 'unknown'

interface AliasStatus {
  aliases: AliasesOfProject
  /** when the journals were read, or when the first alias was announced; `performance.now()` */
  at: number
  /** when ClickHouse last had none */
  storeAt: number
  /** whether the announcement that the project has aliases has reached every lane */
  isAnnounced: boolean
}

type MarkedLane = { journal: Pick<Journal, 'progress' | 'noteDeletion'> }

export interface AliasProjectsOptions {
  lanes: readonly MarkedLane[]
  /** the number of the lane to read first */
  home: number
  shards: Shards
  /** whether other processes write to the same journals */
  isShared: boolean
}

/**
 * Remembers which projects have aliases. A project without any costs one look-up a second. The first alias of a project
 * is announced in all lanes, and made only once no process can still rely on there being none.
 */
export class AliasProjects {
  readonly #options: AliasProjectsOptions
  readonly #seen = new Map<string, AliasStatus>()
  readonly #looks = new Map<string, Promise<AliasesOfProject>>()
  /** by lane: the last position when this process first read it; null until every lane has responded */
  #waiting: Position[] | null = null
  #isSettled = false

  constructor(options: AliasProjectsOptions) {
    this.#options = options
  }

  /**
   * Whether a project has aliases, from the cache or the journals.
   * @throws if no lane can be reached
   */
  async look(projectId: string): Promise<AliasesOfProject> {
    const seen = this.#seen.get(projectId)
    if (seen?.aliases === 'some') return 'some'
    if (seen && performance.now() - seen.at < NONE_MS) return seen.aliases
    const running = this.#looks.get(projectId)
    if (running) return await running
    const look = this.#look(projectId, seen).finally(() => this.#looks.delete(projectId))
    this.#looks.set(projectId, look)
    return await look
  }

  /**
   * Call it before making an alias. Resolves when every process knows that the project has aliases.
   * @throws if a lane cannot be reached
   */
  async announce(projectId: string): Promise<void> {
    await this.look(projectId)
    if (!this.#seen.get(projectId)?.isAnnounced) {
      const { lanes } = this.#options
      // Announce it in all lanes, because a reader asks only one, and another process may have been stopped after only
      // some of them.
      await Promise.all(lanes.map(({ journal }) => journal.noteDeletion(formatName(projectId))))
      this.#remember(projectId, { aliases: 'some', at: performance.now(), isAnnounced: true })
    }
    const left = (this.#seen.get(projectId)?.at ?? 0) + FIRST_ALIAS_MS - performance.now()
    if (this.#options.isShared && left > 0) await wait(left)
  }

  async #look(projectId: string, seen: AliasStatus | undefined): Promise<AliasesOfProject> {
    const at = performance.now()
    if (await this.#isAnnounced(projectId)) return this.#remember(projectId, { aliases: 'some', at })
    const storeAt = seen?.storeAt ?? Number.NEGATIVE_INFINITY
    if (at - storeAt < STORE_MS) return this.#remember(projectId, { aliases: 'none', at, storeAt })
    const hasAll = await this.#hasStoredAll()
    const isStored = await hasAliases(this.#options.shards, projectId).catch(() => null)
    // Every stored alias was announced before it was made.
    if (isStored) return this.#remember(projectId, { aliases: 'some', at: Number.NEGATIVE_INFINITY, isAnnounced: true })
    const isSure = hasAll && (isStored === false || storeAt > Number.NEGATIVE_INFINITY)
    return this.#remember(projectId, isSure ? { aliases: 'none', at, storeAt: at } : { aliases: 'unknown', at })
  }

  #remember(projectId: string, seen: Pick<AliasStatus, 'aliases' | 'at'> & Partial<AliasStatus>): AliasesOfProject {
    if (this.#seen.size >= MAX_PROJECTS && !this.#seen.has(projectId)) this.#seen.clear()
    this.#seen.set(projectId, { storeAt: Number.NEGATIVE_INFINITY, isAnnounced: false, ...seen })
    return seen.aliases
  }

  /** Queries the lanes one after another until one responds. */
  async #isAnnounced(projectId: string): Promise<boolean> {
    const { lanes, home } = this.#options
    const inOrder = [...lanes.slice(home), ...lanes.slice(0, home)]
    const { deletions } = await firstSuccess(inOrder, ({ journal }) => journal.progress(formatName(projectId)))
    return deletions > 0
  }

  /**
   * Whether ClickHouse has everything that was in the journals when this process started. Needed because an embedded
   * journal loses its counts of deletions, and so the announcements, when the process ends.
   */
  async #hasStoredAll(): Promise<boolean> {
    if (this.#isSettled) return true
    const { lanes } = this.#options
    const progress = await Promise.all(lanes.map(({ journal }) => journal.progress())).catch(() => null)
    if (!progress) return false
    this.#waiting ??= progress.map(({ appended }) => appended)
    const waiting = this.#waiting
    this.#isSettled = progress.every(({ stored }, lane) => stored >= (waiting[lane] ?? stored))
    return this.#isSettled
  }
}

/** The name under which the journals count the announcement, as they count deletions. Project names contain no NUL. */
function formatName(projectId: string): string {
  return `aliases\0${projectId}`
}

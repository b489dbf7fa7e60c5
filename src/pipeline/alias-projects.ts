import { setTimeout as wait } from 'node:timers/promises'
import type { Shards } from '../clickhouse/shards.js'
import type { Position } from '../model/position.js'
import { hasAliases } from '../store/aliases.js'
import type { Lane } from './lane.js'

/** How long it is remembered that a project has no alias, ms. */
const NONE_MS = 1_000
/** How long the maker of a project's first alias waits until no process remembers that there is none. */
const FIRST_ALIAS_MS = NONE_MS + 100
/** How long the store's word that there is none holds, where the journals say the same. */
const STORE_MS = 5 * 60_000
/** Projects of which something is remembered. */
const MAX_PROJECTS = 10_000

/**
 * Whether a project has aliases. `unknown`: the store could not say yet, or does not have all that waited in the journals
 * when this process began.
 */
export type AliasesOfProject = 'some' | 'none' | 'unknown'

interface Seen {
  aliases: AliasesOfProject
  /** when it was asked, or since when it may have some; `performance.now()` */
  at: number
  /** when the store said that there are none */
  storeAt: number
  /** whether all lanes say that it has some */
  isAnnounced: boolean
}

/** What this needs of a lane. */
type MarkedLane = { journal: Pick<Lane['journal'], 'progress' | 'noteDeletion'> }

export interface AliasProjectsOptions {
  lanes: readonly MarkedLane[]
  /** the number of the lane that is asked first */
  home: number
  shards: Shards
  /** whether other processes write to the same journals */
  isShared: boolean
}

/**
 * Which projects have aliases, so that those without pay for one look a second. The first alias of a project is announced
 * to all lanes, and is made only when no process can remember any more that there is none.
 */
export class AliasProjects {
  readonly #options: AliasProjectsOptions
  readonly #seen = new Map<string, Seen>()
  readonly #looks = new Map<string, Promise<AliasesOfProject>>()
  /** what the lanes had to store when this process first asked; null until all have said it, or once they have stored it */
  #waiting: Position[] | null = null
  #isSettled = false

  constructor(options: AliasProjectsOptions) {
    this.#options = options
  }

  /** @throws if no lane can be reached */
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
   * To be called before an alias is made. Resolves when every process knows that the project has some.
   * @throws if a lane cannot be reached
   */
  async announce(projectId: string): Promise<void> {
    await this.look(projectId)
    if (!this.#seen.get(projectId)?.isAnnounced) {
      const { lanes } = this.#options
      // In all lanes, so that a reader may ask any. Another process may have reached some only.
      await Promise.all(lanes.map(({ journal }) => journal.noteDeletion(nameOf(projectId))))
      this.#remember(projectId, { aliases: 'some', at: performance.now(), isAnnounced: true })
    }
    const left = (this.#seen.get(projectId)?.at ?? 0) + FIRST_ALIAS_MS - performance.now()
    if (this.#options.isShared && left > 0) await wait(left)
  }

  async #look(projectId: string, seen: Seen | undefined): Promise<AliasesOfProject> {
    const at = performance.now()
    if (await this.#isAnnounced(projectId)) return this.#remember(projectId, { aliases: 'some', at })
    const storeAt = seen?.storeAt ?? Number.NEGATIVE_INFINITY
    if (at - storeAt < STORE_MS) return this.#remember(projectId, { aliases: 'none', at, storeAt })
    const hasAll = await this.#hasStoredAll()
    const isStored = await hasAliases(this.#options.shards, projectId).catch(() => null)
    // What is stored was announced before it was made.
    if (isStored) return this.#remember(projectId, { aliases: 'some', at: Number.NEGATIVE_INFINITY, isAnnounced: true })
    const isSure = hasAll && (isStored === false || storeAt > Number.NEGATIVE_INFINITY)
    return this.#remember(projectId, isSure ? { aliases: 'none', at, storeAt: at } : { aliases: 'unknown', at })
  }

  #remember(projectId: string, seen: Pick<Seen, 'aliases' | 'at'> & Partial<Seen>): AliasesOfProject {
    if (this.#seen.size >= MAX_PROJECTS && !this.#seen.has(projectId)) this.#seen.clear()
    this.#seen.set(projectId, { storeAt: Number.NEGATIVE_INFINITY, isAnnounced: false, ...seen })
    return seen.aliases
  }

  /** By the first lane that answers. */
  async #isAnnounced(projectId: string): Promise<boolean> {
    const { lanes, home } = this.#options
    const inOrder = [...lanes.slice(home), ...lanes.slice(0, home)]
    let failure: unknown
    for (const { journal } of inOrder) {
      try {
        const { deletions } = await journal.progress(nameOf(projectId))
        return deletions > 0
      } catch (error) {
        failure ??= error
      }
    }
    throw failure
  }

  /** Whether the store has all that was in the journals when this process began: an embedded one forgets its counts. */
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

/** Under which the journals count it among their deletions; no project's name has a NUL. */
function nameOf(projectId: string): string {
  return `aliases\0${projectId}`
}

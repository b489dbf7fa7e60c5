import type { Shards } from '../clickhouse/shards.js'
import { ApiError } from '../contract/errors.js'
import { inTurns } from '../lib/in-turns.js'
import type { Log } from '../lib/log.js'
import type { Alias } from '../model/alias.js'
import { aliasesOf, type NamedAlias } from '../store/aliases.js'
import type { AliasProjects } from './alias-projects.js'
import type { States } from './lane-states.js'
import type { Barrier } from './level-barrier.js'

/** A chain of more aliases than this is shortened: each name on it is made an alias of the user itself. */
const MAX_CHAIN = 8
/** Names in one query. */
const MAX_NAMES = 1000
/** How often at most conflicts are logged, ms. */
const LOG_MS = 60_000

export interface AliasesOptions {
  states: States<Alias>
  projects: Pick<AliasProjects, 'look' | 'announce'>
  shards: Shards
  log: Pick<Log, 'warn'>
}

/** Counts since the start. */
export interface AliasMetrics {
  /** aliases that were refused because they name another user */
  conflicts: number
}

/** The aliases that lead from a name to its user. */
interface Chain {
  user: string
  /** by name: its alias */
  links: Map<string, Alias>
  /** if the chain is a cycle: the name whose alias was made last, which is ignored; else null */
  closing: string | null
}

/**
 * The other names of users. An alias points at one name, which may become an alias itself, so chains are followed to
 * their end. What is stored under a name is never rewritten.
 */
export class Aliases {
  readonly metrics: AliasMetrics = { conflicts: 0 }
  readonly #states: States<Alias>
  readonly #projects: AliasesOptions['projects']
  readonly #shards: Shards
  readonly #log: Pick<Log, 'warn'>
  #loggedAt = Number.NEGATIVE_INFINITY
  #unlogged = 0

  constructor({ states, projects, shards, log }: AliasesOptions) {
    this.#states = states
    this.#projects = projects
    this.#shards = shards
    this.#log = log
  }

  /** The user that a name stands for: the name itself, unless it is an alias. */
  async resolve(projectId: string, name: string): Promise<string> {
    const aliases = await this.#projects.look(projectId)
    if (aliases === 'none') return name
    try {
      return (await this.#chainOf(projectId, name)).user
    } catch (error) {
      // Most projects have no aliases, so a store that is down does not stop them.
      if (aliases === 'unknown') return name
      throw error
    }
  }

  /** Whether a project may have aliases: false only if it certainly has none. */
  async hasAny(projectId: string): Promise<boolean> {
    return (await this.#projects.look(projectId)) !== 'none'
  }

  /** Whether two names stand for the same user. */
  async areSameUser(projectId: string, a: string, b: string): Promise<boolean> {
    const [one, other] = await Promise.all([this.resolve(projectId, a), this.resolve(projectId, b)])
    return one === other
  }

  /**
   * Makes `alias` another name of `distinctId`. Does nothing if it is one already.
   * @throws ApiError `alias_conflict` if it names another user
   */
  async add(projectId: string, distinctId: string, alias: string): Promise<void> {
    await this.#projects.announce(projectId)
    const { user } = await this.#chainOf(projectId, distinctId)
    // `distinctId` is an alias of `alias` already.
    if (user === alias) return
    const made = { distinctId: user, createdAt: Date.now() }
    const before: { alias: Alias | null } = { alias: null }
    await this.#states.change(projectId, alias, (current) => {
      before.alias = current
      return current ?? made
    })
    if (before.alias?.distinctId === user) return
    if (before.alias === null) {
      await this.#breakCycle(projectId, alias)
    } else if (!(await this.areSameUser(projectId, before.alias.distinctId, user))) {
      // Without the cycle, the alias may turn out to be a user.
      if (await this.#breakCycle(projectId, alias)) return await this.add(projectId, distinctId, alias)
      this.metrics.conflicts++
      throw new ApiError('alias_conflict', 'The alias is the name of another user. An alias names one user only.')
    }
  }

  /** As `add`, for SDKs, which ignore a conflict: it is logged, and the alias stays as it is. */
  async addOrLog(projectId: string, distinctId: string, alias: string): Promise<void> {
    try {
      await this.add(projectId, distinctId, alias)
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'alias_conflict') throw error
      this.#logConflict(projectId)
    }
  }

  /**
   * The users' names that are in ClickHouse, level by level: the user, its aliases, their aliases, and so on. Wait at the
   * read barrier first: aliases that are only in a journal are missing.
   */
  async namesOf(projectId: string, users: readonly string[]): Promise<Map<string, string[][]>> {
    const names = new Map(users.map((user) => [user, [[user]]]))
    if ((await this.#projects.look(projectId)) === 'none') return names
    const userOf = new Map(users.map((user) => [user, user]))
    for (let level = [...names.keys()]; level.length > 0; ) {
      const next = new Map<string, string[]>()
      for (const { alias, distinctId } of await this.#aliasesOf(projectId, level)) {
        const user = userOf.get(distinctId)
        if (user === undefined || userOf.has(alias)) continue
        userOf.set(alias, user)
        const its = next.get(user)
        if (its) its.push(alias)
        else next.set(user, [alias])
      }
      for (const [user, its] of next) names.get(user)?.push(its)
      level = [...next.values()].flat()
    }
    return names
  }

  /** As `namesOf`, of one user; waits at the read barrier itself, but only if the project may have aliases. */
  async storedNamesOf(projectId: string, user: string, barrier: Pick<Barrier, 'waitForAll'>): Promise<string[][]> {
    if ((await this.#projects.look(projectId)) !== 'none') await barrier.waitForAll()
    return (await this.namesOf(projectId, [user])).get(user) ?? [[user]]
  }

  /**
   * Removes the aliases between the names of a user.
   * @param levels as `namesOf` returns them. The last level is removed first, so that after an interruption the remaining
   *   names are still connected, and a repetition finds them.
   */
  async remove(projectId: string, levels: readonly string[][]): Promise<void> {
    const own = new Set(levels.flat())
    for (const level of levels.toReversed()) {
      // An alias that was removed and made again meanwhile may belong to another user.
      await inTurns(level, (name) => this.#change(projectId, name, (alias) => !own.has(alias.distinctId), null))
    }
  }

  /** Removes these aliases, whichever user they belong to. */
  async removeAny(projectId: string, names: readonly string[]): Promise<void> {
    await inTurns(names, (name) => this.#states.change(projectId, name, () => null))
  }

  async #chainOf(projectId: string, name: string): Promise<Chain> {
    const links = new Map<string, Alias>()
    let at = name
    for (;;) {
      const alias = await this.#states.get(projectId, at)
      if (!alias) break
      if (links.has(at)) {
        const closing = latestOf(links, at)
        return { user: closing, links, closing }
      }
      links.set(at, alias)
      at = alias.distinctId
    }
    if (links.size > MAX_CHAIN) await this.#shorten(projectId, links, at)
    return { user: at, links, closing: null }
  }

  /**
   * Two calls at once may have made a cycle of aliases. Each calls this after it has made its own, so the later one finds
   * the cycle, and removes the alias that was made last.
   * @returns whether the name was in a cycle, or led to one
   */
  async #breakCycle(projectId: string, name: string): Promise<boolean> {
    const { closing, links } = await this.#chainOf(projectId, name)
    const link = closing === null ? undefined : links.get(closing)
    if (closing === null || !link) return false
    await this.#change(projectId, closing, (alias) => !isSame(alias, link), null)
    return true
  }

  /** Makes every name of a long chain an alias of the user itself, so that the next look-up takes one step. */
  async #shorten(projectId: string, links: Map<string, Alias>, user: string): Promise<void> {
    const long = [...links].filter(([, { distinctId }]) => distinctId !== user)
    await inTurns(long, ([name, link]) => {
      return this.#change(projectId, name, (alias) => !isSame(alias, link), { ...link, distinctId: user })
    })
  }

  /** Replaces an alias with `to`, or removes it, unless there is none or `isKept` holds for it. */
  async #change(projectId: string, name: string, isKept: (alias: Alias) => boolean, to: Alias | null): Promise<void> {
    await this.#states.change(projectId, name, (alias) => (alias === null || isKept(alias) ? alias : to))
  }

  async #aliasesOf(projectId: string, names: readonly string[]): Promise<NamedAlias[]> {
    const found: NamedAlias[] = []
    for (let start = 0; start < names.length; start += MAX_NAMES) {
      found.push(...(await aliasesOf(this.#shards, projectId, names.slice(start, start + MAX_NAMES))))
    }
    return found
  }

  #logConflict(project: string): void {
    this.#unlogged++
    if (performance.now() - this.#loggedAt < LOG_MS) return
    this.#log.warn(
      { project, conflicts: this.#unlogged },
      'an SDK sent an alias that belongs to another user; the alias was not changed',
    )
    this.#loggedAt = performance.now()
    this.#unlogged = 0
  }
}

/** The name whose alias was made last in the cycle that `start` is in; at the same millisecond, the greatest name. */
function latestOf(links: Map<string, Alias>, start: string): string {
  let latest = start
  for (let at = links.get(start)?.distinctId ?? start; at !== start; at = links.get(at)?.distinctId ?? start) {
    const [a, b] = [links.get(at)?.createdAt ?? 0, links.get(latest)?.createdAt ?? 0]
    if (a > b || (a === b && at > latest)) latest = at
  }
  return latest
}

function isSame(a: Alias, b: Alias): boolean {
  return a.distinctId === b.distinctId && a.createdAt === b.createdAt
}

import { setTimeout as wait } from 'node:timers/promises'
import type { Shards } from '../../clickhouse/shards.js'
import { ApiError } from '../../contract/errors.js'
import { isReserved } from '../../contract/user-names.js'
import { forEachInBatches } from '../../lib/for-each-in-batches.js'
import { pieces } from '../../lib/pieces.js'
import { type Alias, addOtherName, HAS_NAMES, isLink, mayHaveNames } from '../../model/alias.js'
import { START } from '../../model/position.js'
import { toStateKey } from '../../model/state-key.js'
import type { Barrier } from '../../reads/read-barrier.js'
import type { FencingStates, StateFence } from '../../states/state-store.js'
import { findAliases, findSteps, findTargets, type NamedAlias, type Step } from '../../store/aliases.js'
import type { AliasProjects } from './alias-projects.js'

/** Names in one query. */
const MAX_NAMES = 1000
/** How often a name is followed again because its chain has changed concurrently. */
const MAX_ROUNDS = 5
/** How often to search again for what leads to a name because its record has changed concurrently. */
const MAX_SEARCHES = 10
/** The longest pause before the first repetition, ms; later ones may take a multiple. */
const SEARCH_PAUSE_MS = 5

export interface AliasesOptions {
  states: FencingStates<Alias>
  projects: Pick<AliasProjects, 'look'>
  shards: Shards
}

/** The aliases that lead from a name to its user. */
export interface Chain {
  user: string
  /** by name: its alias */
  links: Map<string, Alias>
  /** whether the user is known to have other names */
  hasNames: boolean
  /** if the chain is a cycle: the name whose alias was made last, which is ignored; else null */
  closing: string | null
  /** for a change of the user's profile that depends on the user not having become an alias */
  fence: StateFence
}

/**
 * The other names of users. An alias points at its user. A user may become an alias itself: until its names point at
 * the new user (`AliasSettling`), it is a step, and chains of steps of any length are followed to their end. Data that
 * is stored under a name is never rewritten. `AliasLinks` makes aliases and takes them back.
 */
export class Aliases {
  readonly #states: FencingStates<Alias>
  readonly #projects: AliasesOptions['projects']
  readonly #shards: Shards
  #lastAt = 0

  constructor({ states, projects, shards }: AliasesOptions) {
    this.#states = states
    this.#projects = projects
    this.#shards = shards
  }

  /** The user that a name refers to: the name itself, unless it is an alias. */
  async resolve(projectId: string, name: string): Promise<string> {
    return (await this.find(projectId, name)).user
  }

  /** Like `followChain`, without a look-up if the project has no aliases. */
  async find(projectId: string, name: string): Promise<Chain> {
    const aliases = isReserved(name) ? 'none' : await this.#projects.look(projectId)
    try {
      if (aliases !== 'none') return await this.followChain(projectId, name)
    } catch (error) {
      // Most projects have no aliases, so a store that is down does not stop them.
      if (aliases !== 'unknown') throw error
    }
    const fence = { stateKey: toStateKey('aliases', projectId, name), version: START, readAt: null }
    return { user: name, links: new Map(), hasNames: false, closing: null, fence }
  }

  /** The current time, epoch ms, but never the same twice, because it orders the links. */
  now(): number {
    this.#lastAt = Math.max(Date.now(), this.#lastAt + 1)
    return this.#lastAt
  }

  /** Whether a project may have aliases: false only if it certainly has none. */
  async hasAny(projectId: string): Promise<boolean> {
    return (await this.#projects.look(projectId)) !== 'none'
  }

  /** Whether two names refer to the same user. */
  async areSameUser(projectId: string, a: string, b: string): Promise<boolean> {
    const [one, other] = await Promise.all([this.resolve(projectId, a), this.resolve(projectId, b)])
    return one === other
  }

  /**
   * The users' names that are in ClickHouse, level by level: the user, its aliases, their aliases, and so on. Wait at
   * the read barrier first: aliases that are only in a journal are missing.
   */
  async findNames(projectId: string, users: readonly string[]): Promise<Map<string, string[][]>> {
    const names = new Map(users.map((user) => [user, [[user]]]))
    if ((await this.#projects.look(projectId)) === 'none') return names
    const places = stepsBefore(users, await this.listSteps(projectId))
    for (const { alias, distinctId } of await this.findAliases(projectId, [...places.keys()])) {
      const place = places.get(distinctId)
      if (!place || alias === place.user) continue
      const levels = names.get(place.user) ?? []
      while (levels.length <= place.level + 1) levels.push([])
      levels[place.level + 1]?.push(alias)
    }
    return names
  }

  /** Like `findNames` for one user; waits at the read barrier itself, but only if the project may have aliases. */
  async findStoredNames(
    projectId: string,
    user: string,
    barrier: Pick<Barrier, 'requireProject'>,
  ): Promise<string[][]> {
    if ((await this.#projects.look(projectId)) !== 'none') await barrier.requireProject(projectId)
    return (await this.findNames(projectId, [user])).get(user) ?? [[user]]
  }

  /**
   * Removes the aliases between the names of a user.
   * @param levels as `findNames` returns them. The last level is removed first, so that after an interruption the
   *   remaining names are still connected, and a repetition finds them.
   */
  async remove(
    projectId: string,
    levels: readonly string[][],
    barrier: Pick<Barrier, 'requireProject'>,
  ): Promise<void> {
    if (!(await this.hasAny(projectId))) return
    const own = new Set(levels.flat())
    for (const level of levels.toReversed()) {
      // An alias that was removed and made again concurrently may belong to another user.
      await this.#removeLinks(projectId, level, ({ distinctId }) => own.has(distinctId), barrier)
    }
  }

  /** Removes these aliases, no matter which users they belong to. @returns how many there were */
  async removeAny(
    projectId: string,
    names: readonly string[],
    barrier: Pick<Barrier, 'requireProject'>,
  ): Promise<number> {
    return await this.#removeLinks(projectId, names, () => true, barrier)
  }

  /**
   * Clears the marks of users that have no other names any more. A link that is made at the same time is not
   * overlooked: it is visible when the store is searched, or else its call marks the user again afterwards.
   */
  async unmark(projectId: string, users: readonly string[], barrier: Pick<Barrier, 'requireProject'>): Promise<void> {
    await this.#clear(projectId, users, () => false, barrier)
  }

  /**
   * Removes aliases, and the marks that are no longer needed.
   * @returns how many aliases there were
   * @throws ApiError `unavailable` if others change them all the time, or the store is late
   */
  async #removeLinks(
    projectId: string,
    names: readonly string[],
    isOwn: (link: Alias) => boolean,
    barrier: Pick<Barrier, 'requireProject'>,
  ): Promise<number> {
    const removed = new Map<string, string>()
    const left = new Set<string>()
    await forEachInBatches(names, async (name) => {
      await this.#states.change(projectId, name, (current) => {
        removed.delete(name)
        left.delete(name)
        if (isLink(current) && isOwn(current)) removed.set(name, current.distinctId)
        // Names may lead to it, as to a user with a mark.
        if (isLink(current) ? isOwn(current) && current.stepAt > 0 : current !== null) left.add(name)
        return removed.has(name) && !left.has(name) ? null : current
      })
    })
    const unclear = await this.#clear(projectId, [...new Set([...left, ...removed.values()])], isOwn, barrier)
    if (unclear.some((name) => removed.has(name))) throw tooManyChanges()
    return removed.size
  }

  /**
   * Removes the records of users, and of aliases that go, if no names lead to them; otherwise, they become marks.
   * @returns the names whose records were changed by others each time
   */
  async #clear(
    projectId: string,
    names: readonly string[],
    isGoing: (link: Alias) => boolean,
    barrier: Pick<Barrier, 'requireProject'>,
  ): Promise<readonly string[]> {
    let left = names
    for (let round = 0; left.length > 0 && round < MAX_SEARCHES; round++) {
      // Two calls that search for the same names would disturb each other every time.
      if (round > 0) await wait(Math.random() * SEARCH_PAUSE_MS * round)
      left = await this.#tryToClear(projectId, left, isGoing, barrier)
    }
    return left
  }

  /** @returns the names whose records were changed concurrently, so that the search may have come too early */
  async #tryToClear(
    projectId: string,
    names: readonly string[],
    isGoing: (link: Alias) => boolean,
    barrier: Pick<Barrier, 'requireProject'>,
  ): Promise<string[]> {
    const now = this.now()
    const stamps = new Map<string, string>()
    await forEachInBatches(names, async (name) => {
      await this.#states.change(projectId, name, (current) => {
        stamps.delete(name)
        if (current === null || (current.distinctId !== '' && !isGoing(current))) return current
        const stamped = current.distinctId === '' ? { ...current, createdAt: now } : addOtherName(current, now)
        stamps.set(name, stampOf(stamped))
        return stamped
      })
    })
    if (stamps.size === 0) return []
    await barrier.requireProject(projectId)
    const named = new Set(await this.findTargets(projectId, [...stamps.keys()]))
    const changed = new Set<string>()
    await forEachInBatches([...stamps], async ([name, stamp]) => {
      await this.#states.change(projectId, name, (current) => {
        changed.delete(name)
        if (current === null) return null
        if (stampOf(current) === stamp) return named.has(name) ? HAS_NAMES : null
        changed.add(name)
        return current
      })
    })
    return [...changed]
  }

  /** Follows a name to its user. */
  async followChain(projectId: string, name: string): Promise<Chain> {
    const links = new Map<string, Alias>()
    const fences = new Map<string, StateFence>()
    for (let at = name; ; ) {
      const { value: alias, fence } = await this.#states.read(projectId, at)
      if (!isLink(alias) || isReserved(alias.distinctId) || isReserved(at)) {
        const hasNames = alias?.distinctId === '' && !alias.isPending
        return { user: at, links, hasNames, closing: null, fence }
      }
      if (links.has(at)) {
        const closing = findLatest(links, at)
        return { user: closing, links, hasNames: true, closing, fence: fences.get(closing) ?? fence }
      }
      links.set(at, alias)
      fences.set(at, fence)
      at = alias.distinctId
    }
  }

  /**
   * Makes names lead to their users in one step. After a change, the name is followed again: an alias that is made or
   * taken back concurrently is then seen by one of the two calls.
   */
  async settle(projectId: string, names: readonly string[], barrier: Pick<Barrier, 'requireProject'>): Promise<void> {
    let left = names
    let led = new Map<string, string>()
    for (let round = 0; left.length > 0 && round < MAX_ROUNDS; round++) {
      const known = new Map<string, Promise<Alias | null>>()
      const read = (name: string) => {
        const reading = known.get(name) ?? this.#states.get(projectId, name)
        known.set(name, reading)
        return reading
      }
      // Read all names concurrently, rather than one after another along each chain.
      await forEachInBatches(left, async (name) => void (await read(name)))
      const lost = new Set<string>()
      for (const [name, user] of led) if ((await read(name))?.distinctId !== user) lost.add(user)
      await this.unmark(projectId, [...lost], barrier)
      const findEnd = createEndFinder(read)
      const findNext = createEndFinder(read, ({ distinctId }) => distinctId)
      const changed: string[] = []
      led = new Map()
      await forEachInBatches(left, async (name) => {
        // Concurrent calls can link names in a circle by what they said, but not by where the names lead.
        const user = (await findEnd(name)) ?? (await findNext(name))
        const alias = await read(name)
        if (user === null || !isLink(alias) || alias.distinctId === user) return
        changed.push(name)
        // Usually, the link that leads to the user has marked it. That may have been taken back.
        if (!(await read(user))) await this.#states.change(projectId, user, (now) => now ?? mayHaveNames(this.now()))
        let isLed = false
        await this.#states.change(projectId, name, (current) => {
          isLed = isLink(current) && isSame(current, alias)
          return current && isLed ? { ...current, distinctId: user } : current
        })
        if (isLed) led.set(name, user)
      })
      await forEachInBatches([...new Set(led.values())], async (user) => {
        await this.#states.change(projectId, user, (current) => addOtherName(current, Date.now()))
      })
      left = changed
    }
  }

  /** The aliases in ClickHouse that others may lead to. */
  listSteps(projectId: string): Promise<Step[]> {
    return findSteps(this.#shards, projectId)
  }

  /** The aliases in ClickHouse that point at one of these names, not more than `limit`. */
  async findAliases(
    projectId: string,
    names: readonly string[],
    limit = Number.POSITIVE_INFINITY,
  ): Promise<NamedAlias[]> {
    const found: NamedAlias[][] = []
    let left = limit
    for (const piece of pieces(names, MAX_NAMES)) {
      const some = await findAliases(this.#shards, projectId, piece, left)
      found.push(some)
      left -= some.length
      if (left <= 0) break
    }
    return found.flat()
  }

  /** Finds which of the names have aliases in ClickHouse. */
  async findTargets(projectId: string, names: readonly string[]): Promise<string[]> {
    const found: string[][] = []
    for (const piece of pieces(names, MAX_NAMES)) found.push(await findTargets(this.#shards, projectId, piece))
    return found.flat()
  }
}

/**
 * The places to search for the names of each user: the user, and each step that leads to it, with its number of steps.
 */
function stepsBefore(
  users: readonly string[],
  steps: readonly NamedAlias[],
): Map<string, { user: string; level: number }> {
  const behind = new Map<string, string[]>()
  for (const { alias, distinctId } of steps) {
    const its = behind.get(distinctId)
    if (its) its.push(alias)
    else behind.set(distinctId, [alias])
  }
  const places = new Map(users.map((user) => [user, { user, level: 0 }]))
  for (const [name, { user, level }] of places) {
    for (const alias of behind.get(name) ?? []) if (!places.has(alias)) places.set(alias, { user, level: level + 1 })
  }
  return places
}

/**
 * Finds the user of a name by following the aliases; null if they make a cycle. Results are remembered, so that
 * following many names of one user takes one read per name.
 * @param next where a link leads; default: to the name that the client linked it to
 */
export function createEndFinder(
  read: (name: string) => Promise<Alias | null>,
  next: (link: Alias) => string = ({ said }) => said,
): (name: string) => Promise<string | null> {
  const ends = new Map<string, string | null>()
  return async (name) => {
    const path = new Set<string>()
    let at = name
    let end: string | null | undefined
    for (;;) {
      end = path.has(at) ? null : ends.get(at)
      if (end !== undefined) break
      path.add(at)
      const alias = await read(at)
      if (!isLink(alias) || isReserved(next(alias))) {
        end = at
        break
      }
      at = next(alias)
    }
    for (const passed of path) ends.set(passed, end)
    return end
  }
}

/** The answer if calls keep changing the same names. */
export function tooManyChanges(): ApiError {
  return new ApiError('unavailable', 'Too many calls are changing these names at the same time. Try again in a moment.')
}

/** Tells two states of a record that names lead to apart. */
function stampOf({ distinctId, createdAt, stepAt }: Alias): string {
  return distinctId === '' ? `user ${createdAt}` : `alias ${stepAt}`
}

/** Whether both were made by the same call. */
export function isSame(a: Alias, b: Alias): boolean {
  return a.said === b.said && a.createdAt === b.createdAt
}

/** The name whose alias was made last in the cycle that `start` is in; at the same millisecond, the greatest name. */
function findLatest(links: Map<string, Alias>, start: string): string {
  let latest = start
  for (let at = links.get(start)?.distinctId ?? start; at !== start; at = links.get(at)?.distinctId ?? start) {
    const [a, b] = [links.get(at)?.createdAt ?? 0, links.get(latest)?.createdAt ?? 0]
    if (a > b || (a === b && at > latest)) latest = at
  }
  return latest
}

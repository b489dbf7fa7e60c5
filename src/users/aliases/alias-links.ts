import { setTimeout as wait } from 'node:timers/promises'
import { StoreUnreachableError } from '../../clickhouse/errors.js'
import { ApiError } from '../../contract/errors.js'
import type { KeyClass } from '../../contract/key-class.js'
import { canLink } from '../../contract/user-names.js'
import type { Log } from '../../lib/log.js'
import { RecentValues } from '../../lib/recent-values.js'
import { type Alias, addOtherName, HAS_NAMES, isLink, type LinkStrength, mayHaveNames } from '../../model/alias.js'
import type { Profile } from '../../model/profile.js'
import { estimateProperties } from '../../model/properties.js'
import type { Barrier } from '../../reads/read-barrier.js'
import { FencedError, type FencingStates, type Repetition } from '../../states/state-store.js'
import type { Toll } from '../../states/toll.js'
import type { AliasProjects } from './alias-projects.js'
import type { AliasSettling } from './alias-settling.js'
import { type Aliases, type Chain, isSame } from './aliases.js'
import { giveTo, noteGift, pickProperties, withdraw } from './give-properties.js'
import { takeBack } from './take-back.js'

/** Minimum time between two log lines about conflicts, ms. */
const LOG_MS = 60_000
/** How often a call is retried because one of its names was linked concurrently. */
const MAX_TRIES = 20
/** The first pause before such a retry, ms. */
const PAUSE_MS = 2
/** Age at which a mark is treated as left by an interrupted call, ms. */
const MARK_MS = 10_000
/**
 * The price of a new or refused link, bytes. A link reads and changes half a dozen states, each with a round trip to
 * the journal. At a price of 16 KiB, one sender of links slowed down the calls of other projects.
 */
const LINK_BYTES = 40 * 1024
/** How many refused links a process remembers, so that it lists each only once. */
const MAX_LISTED = 10_000

/**
 * Why two names are not linked. `other_user`: the alias names another user; `identified`: it is a user that was
 * identified; `has_aliases`: it is a user that has other names; `nobody`: one of them is a placeholder or reserved.
 */
export type LinkRefusal = 'other_user' | 'identified' | 'has_aliases' | 'nobody'

/** The message to the caller for each refusal. */
export const REFUSALS: Record<LinkRefusal, string> = {
  other_user: 'The alias belongs to another user. An alias names one user only.',
  identified:
    'The alias is a user who was identified. Only a call with the secret key can merge two such users: POST /public/users/alias.',
  has_aliases:
    'The alias is a user who has other names. Only a call with the secret key can merge two such users: POST /public/users/alias.',
  nobody: 'A reserved name or placeholder cannot be linked to a user.',
}

export interface AliasLinksOptions {
  aliases: Aliases
  states: FencingStates<Alias>
  profiles: FencingStates<Profile>
  projects: Pick<AliasProjects, 'announce'>
  settling: Pick<AliasSettling, 'note'>
  barrier: Pick<Barrier, 'requireProject'>
  log: Pick<Log, 'warn'>
}

/** Counts since the start. */
export interface LinkMetrics {
  /** aliases that were refused because they name another user, or are a user themselves */
  conflicts: number
  /** ignored SDK messages about a placeholder name */
  placeholders: { event: number; link: number; change: number }
}

/** A call that links two names. */
export interface Link {
  distinctId: string
  alias: string
  link: LinkStrength
  /** the sender of the request; default: the service itself */
  caller?: LinkCaller
}

/** The sender of a link, who is charged for it, and whose share of the journal it uses. */
export interface LinkCaller {
  keyClass: KeyClass
  toll: Toll | null
}

const SERVICE: LinkCaller = { keyClass: 'secret', toll: null }

/** The user of a name, as `findUser` returns it. */
export type FoundUser = Pick<Chain, 'user' | 'fence'>

/** An alias to make. */
interface Making {
  user: string
  /** the user's name in the call */
  said: string
  alias: string
  isMerge: boolean
  caller: LinkCaller
}

/** Makes names aliases of users and takes them back, and changes profiles by any name of their users. */
export class AliasLinks {
  readonly metrics: LinkMetrics = {
    conflicts: 0,
    placeholders: { event: 0, link: 0, change: 0 },
  }
  /** links of SDKs that were recently refused and listed */
  readonly listed = new RecentValues<true>(MAX_LISTED)
  readonly #parts: AliasLinksOptions
  #loggedAt = Number.NEGATIVE_INFINITY
  #unlogged = 0

  constructor(parts: AliasLinksOptions) {
    this.#parts = parts
  }

  /**
   * Makes `alias` another name of the user of `distinctId`, if the call may. If it already is one, only completes what
   * an interrupted call left unfinished.
   * @returns why it was refused; null if both now name the same user
   */
  async link(projectId: string, asked: Link): Promise<LinkRefusal | null> {
    const { distinctId, alias } = asked
    if (!canLink(distinctId) || !canLink(alias)) return 'nobody'
    if (distinctId === alias) return null
    await this.#parts.projects.announce(projectId)
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const result = await this.#try(projectId, asked)
      if (result === 'again') {
        await pause(tries)
        continue
      }
      if (result !== null) this.metrics.conflicts++
      return result
    }
    throw tooManyLinks()
  }

  /**
   * Like `link`.
   * @throws ApiError `alias_conflict` if it is refused, `invalid_request` if a name is a placeholder or reserved
   */
  async add(projectId: string, link: Link): Promise<void> {
    const refusal = await this.link(projectId, link)
    if (refusal !== null)
      throw new ApiError(refusal === 'nobody' ? 'invalid_request' : 'alias_conflict', REFUSALS[refusal])
  }

  /**
   * Takes an alias back: the result is as if it had never been made, except for values that were changed since.
   * @param user any name of the user
   * @returns whether it was an alias of the user
   */
  async takeBack(projectId: string, user: string, alias: string): Promise<boolean> {
    const { aliases } = this.#parts
    if (!(await aliases.hasAny(projectId))) return false
    const { links } = await aliases.followChain(projectId, alias)
    if (links.size === 0 || !(await aliases.areSameUser(projectId, user, alias))) return false
    return await takeBack(this.#parts, projectId, alias)
  }

  /**
   * The user of a name, whose profile has the properties of this name: links that lead from it to the user are completed
   * first. Otherwise, a change could create a property that the name's own profile has, and that value would never
   * arrive.
   * @param hasAliases whether the project certainly has aliases
   */
  async findUser(
    projectId: string,
    name: string,
    { caller = SERVICE, hasAliases = false }: { caller?: LinkCaller; hasAliases?: boolean } = {},
  ): Promise<FoundUser> {
    const { aliases } = this.#parts
    let chain = hasAliases ? await aliases.followChain(projectId, name) : await aliases.find(projectId, name)
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const unfinished = findUnfinished(chain)
      if (!unfinished) return chain
      if (tries > 0) await pause(tries)
      await this.#give(projectId, ...unfinished, caller)
      chain = await aliases.followChain(projectId, name)
    }
    throw tooManyLinks()
  }

  /**
   * Changes the profile of the user of a name. If the user becomes an alias at the same time, the change is made before
   * its properties are given away, or else to the profile of the user that it then names.
   * @param found the user, if the caller knows it
   */
  async changeProfile(
    projectId: string,
    { name, found }: { name: string; found?: FoundUser },
    change: (profile: Profile | null) => Profile | null,
    repetition: Repetition = {},
  ): Promise<void> {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      // A fence only fails because there are aliases.
      const { user, fence } =
        (tries === 0 && found) || (await this.findUser(projectId, name, { hasAliases: tries > 0 }))
      const of = { ...repetition, fence, ...(user !== name && { sentTo: name }) }
      try {
        return await this.#parts.profiles.change(projectId, user, change, of)
      } catch (error) {
        if (!(error instanceof FencedError)) throw error
      }
      if (tries > 0) await pause(tries)
    }
    throw tooManyLinks()
  }

  /** Counts and logs a refused link from an SDK. */
  logRefusal(project: string): void {
    this.#unlogged++
    if (performance.now() - this.#loggedAt < LOG_MS) return
    this.#parts.log.warn(
      { project, conflicts: this.#unlogged },
      'an SDK sent an alias that belongs to another user; the alias was not changed',
    )
    this.#loggedAt = performance.now()
    this.#unlogged = 0
  }

  async #try(
    projectId: string,
    { distinctId, alias, link, caller = SERVICE }: Link,
  ): Promise<'again' | Exclude<LinkRefusal, 'nobody'> | null> {
    const { aliases } = this.#parts
    const [one, other] = await Promise.all([
      aliases.followChain(projectId, distinctId),
      aliases.followChain(projectId, alias),
    ])
    for (const { closing, links } of [one, other]) {
      const made = closing === null ? undefined : links.get(closing)
      if (closing === null || !made) continue
      await this.#break(projectId, closing, made)
      return 'again'
    }
    if (one.user === other.user) {
      // An interrupted call may have left the user without its mark.
      if (!one.hasNames)
        await this.#confirm(projectId, {
          user: one.user,
          said: one.user,
          alias: one.links.size > 0 ? distinctId : alias,
        })
      const unfinished = findUnfinished(other) ?? findUnfinished(one)
      const left = unfinished ?? findPending(alias, other) ?? findPending(distinctId, one)
      if (!left) return null
      await this.#give(projectId, ...left, caller)
      return 'again'
    }
    caller.toll?.touch(LINK_BYTES)
    if (other.user !== alias) return 'other_user'
    if (link !== 'merge') {
      const refusal = await this.#findUserProof(projectId, alias, other.hasNames, caller)
      if (refusal !== null) {
        const isNobody =
          one.user === distinctId && !(await this.#findUserProof(projectId, distinctId, one.hasNames, caller))
        if (link === 'inferred' || refusal !== 'identified' || !isNobody) return refusal
        return await this.#make(projectId, { user: alias, said: alias, alias: distinctId, isMerge: false, caller })
      }
    }
    return await this.#make(projectId, { user: one.user, said: distinctId, alias, isMerge: link === 'merge', caller })
  }

  /** Why a name that is not an alias is certainly a user; null if it may not be one. */
  async #findUserProof(
    projectId: string,
    name: string,
    hasNames: boolean,
    { toll }: LinkCaller,
  ): Promise<'identified' | 'has_aliases' | null> {
    const profile = await this.#parts.profiles.get(projectId, name)
    if (profile) toll?.touch(estimateProperties(profile.properties))
    if (profile?.isIdentified) return 'identified'
    return hasNames ? 'has_aliases' : null
  }

  /**
   * The user is marked before its alias is made. So if another call makes the user itself an alias at the same time,
   * the later of the two calls sees the other. The alias gives its properties only after it has been made: from then on,
   * its own profile does not change. An alias without a profile is complete from the start, so it is made only if it
   * still has none.
   */
  async #make(projectId: string, { user, said, alias, isMerge, caller }: Making): Promise<'again' | null> {
    const { states, profiles, aliases, settling } = this.#parts
    caller.toll?.newUser()
    const mark = mayHaveNames(aliases.now())
    if (!(await this.#mark(projectId, user, (current) => current ?? mark))) return 'again'
    const { value: own, fence } = await profiles.read(projectId, alias)
    const made: Alias = {
      distinctId: user,
      said,
      createdAt: aliases.now(),
      givenTo: own ? user : '',
      given: [],
      isPending: own !== null,
      isLeaving: false,
      stepAt: 0,
    }
    let isMade = false
    let isStep = false
    const make = (current: Alias | null) => {
      isMade = !isLink(current) && (isMerge || current === null || isYielding(current, { user, alias }))
      isStep = current !== null
      if (!isMade) return current
      return isStep ? addOtherName(made, made.createdAt) : made
    }
    try {
      await states.change(projectId, alias, make, own ? {} : { fence })
    } catch (error) {
      if (!(error instanceof FencedError)) throw error
      isMade = false
    }
    if (!isMade) {
      const isMine = (current: Alias | null) => current?.isPending === true && current.createdAt === mark.createdAt
      await this.#mark(projectId, user, (current) => (isMine(current) ? null : current))
      return 'again'
    }
    isStep = (await this.#confirm(projectId, { user, said, alias })) || isStep
    if (isStep) settling.note(projectId)
    if (own) await this.findUser(projectId, alias, { caller, hasAliases: true })
    const { closing, links } = await aliases.followChain(projectId, alias)
    const link = closing === null ? undefined : links.get(closing)
    // Two concurrent calls have made a cycle. The later call sees it, and undoes the alias that was made last.
    if (closing !== null && link) await this.#break(projectId, closing, link)
    return null
  }

  /** Changes the mark of a user that has other names. @returns false if it has become an alias itself */
  async #mark(projectId: string, user: string, to: (current: Alias | null) => Alias | null): Promise<boolean> {
    let isUser = true
    await this.#parts.states.change(projectId, user, (current) => {
      isUser = !isLink(current)
      return isUser ? to(current) : current
    })
    return isUser
  }

  /**
   * Marks a user that has got an alias, unless the user has lost it again.
   * @returns whether the user has become an alias itself
   */
  async #confirm(projectId: string, { user, said, alias }: Pick<Making, 'user' | 'said' | 'alias'>): Promise<boolean> {
    const { aliases, states, barrier } = this.#parts
    let isStep = false
    await states.change(projectId, user, (current) => {
      isStep = isLink(current)
      return addOtherName(current, Date.now())
    })
    const [link, named] = await Promise.all([states.get(projectId, alias), states.get(projectId, said)])
    const isSaid = said === user || (isLink(named) && named.distinctId === user)
    // That name may have been taken back from the user, together with all names that were linked to it.
    if (!isSaid) await aliases.settle(projectId, [alias], barrier)
    if (!isSaid || !isLink(link) || link.distinctId !== user) await this.#unmark(projectId, [user, said])
    return isStep
  }

  /** Clears the marks of users without other names. Without the store, marks stay: links do not need it. */
  async #unmark(projectId: string, users: readonly string[]): Promise<void> {
    const { aliases, barrier } = this.#parts
    try {
      await aliases.unmark(projectId, users, barrier)
    } catch (error) {
      if (!(error instanceof ApiError) && !(error instanceof StoreUnreachableError)) throw error
    }
  }

  /**
   * Removes the alias that closes a cycle, and the properties that it gave. Its name is a user again, and keeps the
   * other names.
   */
  async #break(projectId: string, closing: string, made: Alias): Promise<void> {
    await this.#takeGiven(projectId, closing, made)
    let late: Alias | null = null
    await this.#parts.states.change(projectId, closing, (current) => {
      if (!isLink(current) || !isSame(current, made)) return current
      late = { ...current, given: current.given.filter((name) => !made.given.includes(name)) }
      return HAS_NAMES
    })
    // Also take back the properties that another call has given since `made` was read.
    if (late) await this.#takeGiven(projectId, closing, late)
    await this.#unmark(projectId, [closing])
  }

  /** Takes back the properties that an alias gave. */
  async #takeGiven(
    projectId: string,
    alias: string,
    { givenTo, given: names }: Pick<Alias, 'givenTo' | 'given'>,
  ): Promise<void> {
    const { profiles } = this.#parts
    if (givenTo === '' || names.length === 0) return
    const own = await profiles.get(projectId, alias)
    if (!own) return
    const given = { ...own, properties: pickProperties(own.properties, names) }
    await withdraw(this.#parts, projectId, { to: givenTo, given })
  }

  /**
   * Gives the user the properties of the alias's own profile that the user does not have. The link stays pending if the
   * user becomes an alias at the same time.
   */
  async #give(projectId: string, alias: string, made: Alias, caller = SERVICE): Promise<void> {
    const { aliases, profiles, states } = this.#parts
    const own = await profiles.get(projectId, alias)
    const end = await aliases.followChain(projectId, alias)
    // All that an alias gives goes to one profile, from which it can be taken back.
    const user = made.given.length > 0 ? made.givenTo : end.user
    if (user === alias) return
    const fence = user === end.user ? end.fence : undefined
    let given: string[] = []
    try {
      if (own) given = await giveTo(profiles, projectId, { user, other: own, fence, ...caller })
    } catch (error) {
      if (error instanceof FencedError) return
      throw error
    }
    const gift = { giver: alias, own, to: user, given }
    // If it is not made any more, it was removed by a call that did not know what it had given. It may be made again.
    const isMade = await noteGift(this.#parts, projectId, gift, (current) => {
      if (!isSame(current, made)) return null
      const all = [...new Set([...current.given, ...given])]
      if (!current.isPending && all.length === current.given.length) return current
      return { ...current, givenTo: user, given: all, isPending: false, isLeaving: false }
    })
    if (given.length === 0 || (isMade && fence)) return
    // Otherwise, the profile that got the properties already belongs to an alias, which passes them on.
    const giver = isMade ? user : alias
    const next = await states.get(projectId, giver)
    if (isLink(next)) await this.#give(projectId, giver, next)
  }
}

/** The link closest to the user, by its name, that has not given its properties yet; null if all have. */
function findUnfinished({ user, links }: Chain): [alias: string, link: Alias] | null {
  const found = [...links].filter(([name, { isPending, isLeaving }]) => name !== user && isPending && !isLeaving)
  return found.at(-1) ?? null
}

/** The link of a name that an interrupted call has not completed, or not taken back; null if there is none. */
function findPending(name: string, { links }: Chain): [alias: string, link: Alias] | null {
  const link = links.get(name)
  return link?.isPending ? [name, link] : null
}

function pause(tries: number): Promise<void> {
  return wait(Math.random() * PAUSE_MS * (tries + 1))
}

function tooManyLinks(): ApiError {
  return new ApiError('unavailable', 'Too many calls are linking these names at the same time. Try again in a moment.')
}

/**
 * Whether a user that is just getting another name may become an alias anyway: if two concurrent calls link the same
 * names in opposite directions, the one for the lesser name wins.
 */
function isYielding({ isPending, createdAt }: Alias, { user, alias }: { user: string; alias: string }): boolean {
  return isPending && (user < alias || Date.now() - createdAt > MARK_MS)
}

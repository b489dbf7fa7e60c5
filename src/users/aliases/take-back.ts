import { forEachInBatches } from '../../lib/for-each-in-batches.js'
import { type Alias, addOtherName, HAS_NAMES, isLink, mayHaveNames } from '../../model/alias.js'
import type { Profile } from '../../model/profile.js'
import type { Barrier } from '../../reads/read-barrier.js'
import type { States } from '../../states/state-store.js'
import { type Aliases, createEndFinder, isSame, tooManyChanges } from './aliases.js'
import { giveTo, noteGift, pickProperties, takeFrom } from './give-properties.js'

/** How often to start again because the alias gave properties concurrently. */
const MAX_ROUNDS = 10

interface TakeBackParts {
  aliases: Aliases
  states: States<Alias>
  profiles: States<Profile>
  barrier: Pick<Barrier, 'requireProject'>
}

/** The names of a user, including those that leave it together with the alias that is taken back. */
interface Parting {
  projectId: string
  user: string
  /** by name: all names of the user except its own */
  links: Map<string, Alias>
  /** the alias, and the names that lead to the user only through it */
  leaving: Set<string>
}

/**
 * Takes an alias back, with the names that were linked to it. Profiles come first, so that an interrupted call can be
 * repeated; until the alias is gone, it counts as pending, so a call that makes it again restores the user's profile.
 * @returns false if another call took it back
 * @throws ApiError `unavailable` if the store does not have everything yet: nothing was changed, or the alias is gone, and
 *   only marks are left that nobody needs
 */
export async function takeBack(parts: TakeBackParts, projectId: string, alias: string): Promise<boolean> {
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const result = await tryToTakeBack(parts, projectId, alias)
    if (result !== 'again') return result === 'done'
  }
  throw tooManyChanges()
}

/** @returns `again` if the alias gave something concurrently; `gone` if another call took it back */
async function tryToTakeBack(
  parts: TakeBackParts,
  projectId: string,
  alias: string,
): Promise<'done' | 'gone' | 'again'> {
  const { aliases, states, barrier } = parts
  await barrier.requireProject(projectId)
  const user = await aliases.resolve(projectId, alias)
  const parting = await planParting(parts, projectId, user, alias)
  const known = parting.links.get(alias)
  if (!known) return 'gone'
  const others = [...parting.leaving].filter((name) => name !== alias)
  await states.change(projectId, alias, (current) => {
    if (!isLink(current)) return current
    return { ...(others.length > 0 ? addOtherName(current, Date.now()) : current), isPending: true, isLeaving: true }
  })
  const taken = await takeGiven(parts, parting)
  await giveAgain(parts, parting, taken)
  await giveToAlias(parts, parting, alias)
  await dropDerived(parts, parting)
  // Until the alias is gone, a name that leads to it leads to the user.
  await forEachInBatches(others, async (name) => {
    const known = parting.links.get(name)
    await states.change(projectId, name, (current) => {
      return isLink(current) && known && isSame(current, known) ? { ...current, distinctId: alias } : current
    })
  })
  let result = 'again' as 'done' | 'gone' | 'again'
  await states.change(projectId, alias, (current) => {
    if (!isLink(current)) result = 'gone'
    // A call that makes the alias again gives the properties again, and it is no longer leaving.
    else result = current.isLeaving && isSame(current, known) && haveSameGift(current, known) ? 'done' : 'again'
    if (!isLink(current) || result !== 'done') return current
    if (others.length > 0) return HAS_NAMES
    return current.stepAt > 0 ? mayHaveNames(aliases.now()) : null
  })
  if (result !== 'again') await settle(parts, parting, alias)
  return result
}

function haveSameGift(a: Alias, b: Alias): boolean {
  return a.givenTo === b.givenTo && a.given.length === b.given.length
}

async function planParting(
  { aliases, states }: TakeBackParts,
  projectId: string,
  user: string,
  alias: string,
): Promise<Parting> {
  const names = (await aliases.findNames(projectId, [user])).get(user)?.flat() ?? []
  const links = new Map<string, Alias>()
  await forEachInBatches([...new Set([...names, alias])], async (name) => {
    const link = await states.get(projectId, name)
    if (isLink(link)) links.set(name, link)
  })
  const leaving = new Set<string>([alias])
  const findEnd = createEndFinder(async (at) => (at === alias ? null : (links.get(at) ?? null)))
  for (const name of links.keys()) if ((await findEnd(name)) === alias) leaving.add(name)
  return { projectId, user, links, leaving }
}

/**
 * Takes back the properties that the leaving names gave to other profiles, and that those profiles passed on.
 * @returns by profile: the names of the properties that it lost
 */
async function takeGiven(
  parts: TakeBackParts,
  { projectId, links, leaving }: Parting,
): Promise<Map<string, Set<string>>> {
  const { profiles, states } = parts
  const taken = new Map<string, Set<string>>()
  for (const name of byTime(leaving, links)) {
    // Another call may have moved the gift since the names were found.
    const link = await findSame(states, projectId, name, links)
    if (!link || link.givenTo === '' || leaving.has(link.givenTo)) continue
    const own = await profiles.get(projectId, name)
    if (!own) continue
    const given = { ...own, properties: pickProperties(own.properties, link.given) }
    for (const [profile, lost] of await takeFrom(parts, projectId, { to: link.givenTo, given })) {
      taken.set(profile, new Set([...(taken.get(profile) ?? []), ...lost]))
    }
  }
  return taken
}

/** Refills the lost properties from the names that stay, in the order in which they were linked. */
async function giveAgain(
  parts: TakeBackParts,
  { projectId, links, leaving }: Parting,
  taken: Map<string, Set<string>>,
): Promise<void> {
  const { profiles } = parts
  for (const [to, lost] of taken) {
    for (const name of byTime(links.keys(), links)) {
      const link = links.get(name)
      if (!link || leaving.has(name) || link.givenTo !== to || lost.size === 0) continue
      const own = await profiles.get(projectId, name)
      if (!own) continue
      const part = { ...own, properties: pickProperties(own.properties, lost) }
      const given = await giveTo(profiles, projectId, { user: to, other: part })
      if (given.length === 0) continue
      for (const property of given) lost.delete(property)
      await noteGift(parts, projectId, { giver: name, own, to, given }, (current) => {
        if (!isSame(current, link) || current.givenTo !== to || current.isLeaving) return null
        return { ...current, given: [...new Set([...current.given, ...given])] }
      })
    }
  }
}

/** Moves to the alias the properties that the leaving names gave to the user. */
async function giveToAlias(parts: TakeBackParts, { projectId, links, leaving }: Parting, alias: string): Promise<void> {
  const { profiles, states } = parts
  for (const name of byTime(leaving, links)) {
    const link = name === alias ? null : await findSame(states, projectId, name, links)
    if (!link || link.givenTo === '' || leaving.has(link.givenTo)) continue
    const own = await profiles.get(projectId, name)
    const given = own ? await giveTo(profiles, projectId, { user: alias, other: own }) : []
    const gift = { giver: name, own, to: alias, given }
    await noteGift(parts, projectId, gift, (current) => {
      return isSame(current, link) ? { ...current, givenTo: alias, given, isPending: false } : null
    })
  }
}

/** The link of a name as it is now, unless it was removed or made again since the names were found. */
async function findSame(
  states: States<Alias>,
  projectId: string,
  name: string,
  links: ReadonlyMap<string, Alias>,
): Promise<Alias | null> {
  const [link, known] = [await states.get(projectId, name), links.get(name)]
  return isLink(link) && known && isSame(link, known) ? link : null
}

/** Deletes empty profiles that were created only by other names, if none of these has a profile any more. */
async function dropDerived({ profiles }: TakeBackParts, { projectId, links, leaving }: Parting): Promise<void> {
  const staying = [...links].filter(([name]) => !leaving.has(name))
  for (const user of receivers(links, leaving)) {
    const profile = await profiles.get(projectId, user)
    if (!profile?.isDerived || profile.properties.size > 0) continue
    const givers = staying.flatMap(([name, { givenTo }]) => (givenTo === user ? name : []))
    const given = await Promise.all(givers.map((name) => profiles.get(projectId, name)))
    if (given.some((one) => one !== null)) continue
    await profiles.change(projectId, user, (current) => {
      return current?.isDerived && current.properties.size === 0 ? null : current
    })
  }
}

/** The names whose profiles got something from the leaving names, directly or through others, in this order. */
function receivers(links: ReadonlyMap<string, Alias>, leaving: ReadonlySet<string>): Set<string> {
  const found = new Set<string>()
  for (const name of leaving) {
    for (let to = links.get(name)?.givenTo; to && !leaving.has(to); to = links.get(to)?.givenTo) {
      // Append them after the names that already lead to it.
      found.delete(to)
      found.add(to)
    }
  }
  return found
}

/** Resolves again the names that were linked concurrently, and clears the marks of users without other names. */
async function settle(
  { aliases, states, barrier }: TakeBackParts,
  { projectId, user, leaving }: Parting,
  alias: string,
): Promise<void> {
  // Another call may have taken the alias back without knowing of the names that now lead to it.
  if (leaving.size > 1) await states.change(projectId, alias, (current) => addOtherName(current, Date.now()))
  await barrier.requireProject(projectId)
  const left = ((await aliases.findNames(projectId, [user])).get(user) ?? []).slice(1).flat()
  await aliases.settle(projectId, left, barrier)
  await aliases.unmark(projectId, [alias, user], barrier)
}

/** Names in the order in which they were linked. */
function byTime(names: Iterable<string>, links: ReadonlyMap<string, Alias>): string[] {
  const at = (name: string) => links.get(name)?.createdAt ?? 0
  return [...names].sort((a, b) => at(a) - at(b) || (a < b ? -1 : 1))
}

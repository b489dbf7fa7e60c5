import { ApiError } from '../../contract/errors.js'
import { forEachInBatches } from '../../lib/for-each-in-batches.js'
import { type Alias, addOtherName, HAS_NAMES, isLink } from '../../model/alias.js'
import { type Profile, takeAwayProperties } from '../../model/profile.js'
import type { Properties } from '../../model/properties.js'
import type { Barrier } from '../../reads/read-barrier.js'
import type { States } from '../../states/state-store.js'
import { type Aliases, createEndFinder, isSame } from './aliases.js'
import { giveTo } from './give-properties.js'

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
 * @throws ApiError `unavailable` if the store does not have everything yet; then nothing was changed
 */
export async function takeBack(parts: TakeBackParts, projectId: string, alias: string): Promise<boolean> {
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const result = await tryToTakeBack(parts, projectId, alias)
    if (result !== 'again') return result === 'done'
  }
  throw new ApiError('unavailable', 'Too many calls are changing these names at the same time. Try again in a moment.')
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
  await forEachInBatches(others, (name) => lead(parts, projectId, name, alias))
  let result = 'again' as 'done' | 'gone' | 'again'
  await states.change(projectId, alias, (current) => {
    if (!isLink(current)) result = 'gone'
    // A call that makes the alias again gives the properties again, and it is no longer leaving.
    else result = current.isLeaving && isSame(current, known) && haveSameGift(current, known) ? 'done' : 'again'
    if (result !== 'done') return current
    return others.length > 0 ? HAS_NAMES : null
  })
  if (result !== 'again') await unmark(parts, parting)
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
async function takeGiven({ profiles, states }: TakeBackParts, parting: Parting): Promise<Map<string, Set<string>>> {
  const { projectId, links, leaving } = parting
  const taken = new Map<string, Set<string>>()
  for (const name of byTime(leaving, links)) {
    const link = links.get(name)
    if (!link || link.givenTo === '' || leaving.has(link.givenTo)) continue
    const own = await profiles.get(projectId, name)
    if (!own) continue
    let going = pick(own.properties, link.given)
    const seen = new Set<string>()
    for (let to = link.givenTo; going.size > 0 && !seen.has(to); ) {
      const given = { ...own, properties: going }
      seen.add(to)
      let lost: string[] = []
      await profiles.change(projectId, to, (profile) => {
        if (!profile) return null
        const left = takeAwayProperties(profile, given, Date.now())
        lost = [...given.properties.keys()].filter(
          (property) => profile.properties.has(property) && !left.properties.has(property),
        )
        return left
      })
      taken.set(to, new Set([...(taken.get(to) ?? []), ...lost]))
      const next = links.get(to)
      if (!next || next.givenTo === '') break
      going = pick(pick(going, lost), next.given)
      const kept = next.given.filter((property) => !going.has(property))
      links.set(to, { ...next, given: kept })
      await states.change(projectId, to, (current) => (isLink(current) ? { ...current, given: kept } : current))
      to = next.givenTo
    }
  }
  return taken
}

/** Refills the lost properties from the names that stay, in the order in which they were linked. */
async function giveAgain(
  { profiles, states }: TakeBackParts,
  { projectId, links, leaving }: Parting,
  taken: Map<string, Set<string>>,
): Promise<void> {
  for (const [to, lost] of taken) {
    for (const name of byTime(links.keys(), links)) {
      const link = links.get(name)
      if (!link || leaving.has(name) || link.givenTo !== to || lost.size === 0) continue
      const own = await profiles.get(projectId, name)
      const part = own && { ...own, properties: pick(own.properties, lost) }
      const given = part ? await giveTo(profiles, projectId, { user: to, other: part }) : []
      if (given.length === 0) continue
      for (const property of given) lost.delete(property)
      const all = [...new Set([...link.given, ...given])]
      links.set(name, { ...link, given: all })
      await states.change(projectId, name, (current) => (isLink(current) ? { ...current, given: all } : current))
    }
  }
}

/** Moves to the alias the properties that the leaving names gave to the user. */
async function giveToAlias(
  { profiles, states }: TakeBackParts,
  { projectId, links, leaving }: Parting,
  alias: string,
): Promise<void> {
  for (const name of byTime(leaving, links)) {
    const link = links.get(name)
    if (!link || name === alias || link.givenTo === '' || leaving.has(link.givenTo)) continue
    const own = await profiles.get(projectId, name)
    const given = own ? await giveTo(profiles, projectId, { user: alias, other: own }) : []
    await states.change(projectId, name, (current) => {
      return isLink(current) ? { ...current, givenTo: alias, given, isPending: false } : current
    })
  }
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

async function lead({ states }: TakeBackParts, projectId: string, name: string, alias: string): Promise<void> {
  await states.change(projectId, name, (current) => (isLink(current) ? { ...current, distinctId: alias } : current))
}

/**
 * Resolves again the names that were linked concurrently, and resets a user that has no other names any more, as if it
 * never had one.
 */
async function unmark({ aliases, states, barrier }: TakeBackParts, { projectId, user }: Parting): Promise<void> {
  const namesNow = async () => {
    await barrier.requireProject(projectId)
    return ((await aliases.findNames(projectId, [user])).get(user) ?? []).slice(1).flat()
  }
  const left = await namesNow()
  await aliases.settle(projectId, left)
  if (left.length > 0) return
  await states.change(projectId, user, (current) => (isLink(current) ? current : null))
  if ((await namesNow()).length > 0)
    await states.change(projectId, user, (current) => addOtherName(current, Date.now()))
}

function pick(properties: Properties, names: Iterable<string>): Properties {
  const wanted = new Set(names)
  return new Map([...properties].filter(([name]) => wanted.has(name)))
}

/** Names in the order in which they were linked. */
function byTime(names: Iterable<string>, links: ReadonlyMap<string, Alias>): string[] {
  const at = (name: string) => links.get(name)?.createdAt ?? 0
  return [...names].sort((a, b) => at(a) - at(b) || (a < b ? -1 : 1))
}

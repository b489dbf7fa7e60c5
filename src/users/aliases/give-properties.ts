import { ApiError } from '../../contract/errors.js'
import type { KeyClass } from '../../contract/key-class.js'
import { type Alias, isLink } from '../../model/alias.js'
import { type GivenProperties, giveProperties, type Profile, takeAwayProperties } from '../../model/profile.js'
import type { Properties } from '../../model/properties.js'
import type { StateFence, States } from '../../states/state-store.js'
import { type Toll, withToll } from '../../states/toll.js'

/** Properties of another name to give to a user, and the sender whose share of the journal this uses. */
export interface Gift {
  user: string
  other: GivenProperties
  /** default: the service itself */
  keyClass?: KeyClass
  toll?: Toll | null
  /** see `Repetition` */
  fence?: StateFence | undefined
}

/**
 * Gives a user the properties that its profile does not have.
 * @returns their names; none if the profile would be too large with them
 * @throws FencedError
 */
export async function giveTo(
  profiles: States<Profile>,
  projectId: string,
  { user, other, keyClass = 'secret', toll = null, fence }: Gift,
): Promise<string[]> {
  let given: string[] = []
  const take = (profile: Profile | null) => {
    given = [...other.properties.keys()].filter((name) => !profile?.properties.has(name))
    return giveProperties(profile, other, Date.now())
  }
  try {
    await profiles.change(projectId, user, withToll(take, toll), { keyClass, fence })
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'payload_too_large') throw error
    given = []
  }
  return given
}

export interface GiftParts {
  states: States<Alias>
  profiles: States<Profile>
}

/**
 * Takes properties that another name gave away from a profile, and from those that it passed them on to. Each link is
 * read after its profile has lost them: a call that passes them on at the same time notes that in the link before it
 * looks at the profile again (`returnLost`), so that one of the two calls sees the other.
 * @param given as the other name gave them: values that were set since stay
 * @returns by profile: the names of the properties that it lost
 */
export async function takeFrom(
  { states, profiles }: GiftParts,
  projectId: string,
  { to, given }: { to: string; given: GivenProperties },
): Promise<Map<string, Set<string>>> {
  const taken = new Map<string, Set<string>>()
  let going = given.properties
  for (let at = to; going.size > 0 && !taken.has(at); ) {
    const lost = new Set<string>()
    await profiles.change(projectId, at, (profile) => {
      lost.clear()
      const left = profile && takeAwayProperties(profile, { ...given, properties: going }, Date.now())
      for (const name of profile?.properties.keys() ?? []) if (!left?.properties.has(name)) lost.add(name)
      return left
    })
    taken.set(at, lost)
    const link = await states.get(projectId, at)
    if (!isLink(link) || link.givenTo === '') break
    going = pickProperties(going, link.given)
    if (going.size === 0) break
    await states.change(projectId, at, (current) => {
      if (!isLink(current) || current.givenTo !== link.givenTo) return current
      return { ...current, given: current.given.filter((name) => !going.has(name)) }
    })
    at = link.givenTo
  }
  return taken
}

/**
 * Takes back what a name has just given although it has lost it in the meantime. To be called after the gift is noted in
 * its link, see `takeFrom`.
 */
export async function returnLost(
  parts: GiftParts,
  projectId: string,
  { giver, own, to, given }: { giver: string; own: GivenProperties; to: string; given: readonly string[] },
): Promise<void> {
  if (given.length === 0) return
  const now = await parts.profiles.get(projectId, giver)
  const lost = pickProperties(
    own.properties,
    given.filter((name) => !now?.properties.has(name)),
  )
  await takeFrom(parts, projectId, { to, given: { ...own, properties: lost } })
}

export function pickProperties(properties: Properties, names: Iterable<string>): Properties {
  const wanted = new Set(names)
  return new Map([...properties].filter(([name]) => wanted.has(name)))
}

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
 * read after its profile has lost them, so that a call which passes them on at the same time is seen, or sees this one
 * (`noteGift`). A link forgets them once the next profile has lost them, so that an interrupted call can be repeated.
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
  let forget = async () => {}
  for (let at = to; going.size > 0 && !taken.has(at); ) {
    const [lost, kept] = [new Set<string>(), new Set<string>()]
    await profiles.change(projectId, at, (profile) => {
      lost.clear()
      kept.clear()
      const left = profile && takeAwayProperties(profile, { ...given, properties: going }, Date.now())
      for (const name of profile?.properties.keys() ?? []) (left?.properties.has(name) ? kept : lost).add(name)
      return left
    })
    taken.set(at, lost)
    await forget()
    forget = async () => {}
    const link = await states.get(projectId, at)
    if (!isLink(link) || link.givenTo === '') break
    // What the profile still has, it has with another value, which it may have passed on.
    const passed = pickProperties(
      going,
      link.given.filter((name) => !kept.has(name)),
    )
    const [name, { givenTo }] = [at, link]
    forget = async () => {
      await states.change(projectId, name, (current) => {
        if (!isLink(current) || current.givenTo !== givenTo) return current
        return { ...current, given: current.given.filter((property) => !passed.has(property)) }
      })
    }
    going = passed
    at = givenTo
  }
  await forget()
  return taken
}

/** Like `takeFrom`; deletes profiles that consisted of nothing else. */
export async function withdraw(
  parts: GiftParts,
  projectId: string,
  gift: { to: string; given: GivenProperties },
): Promise<void> {
  for (const user of (await takeFrom(parts, projectId, gift)).keys()) {
    await parts.profiles.change(projectId, user, (left) =>
      left?.isDerived && left.properties.size === 0 ? null : left,
    )
  }
}

/**
 * Notes a gift in the link of its giver. What should not have been given is withdrawn: everything if the link has
 * changed, or what the giver itself has lost in the meantime.
 * @param gift `own`: the giver's profile; null without one, so that nothing was given
 * @param note the changed link; null if the link is not the one that gave
 * @returns whether the gift was noted
 */
export async function noteGift(
  parts: GiftParts,
  projectId: string,
  { giver, own, to, given }: { giver: string; own: GivenProperties | null; to: string; given: readonly string[] },
  note: (link: Alias) => Alias | null,
): Promise<boolean> {
  let isNoted = false
  await parts.states.change(projectId, giver, (current) => {
    const noted = isLink(current) ? note(current) : null
    isNoted = noted !== null
    return noted ?? current
  })
  if (!own || given.length === 0) return isNoted
  const profile = isNoted ? await parts.profiles.get(projectId, giver) : null
  const lost = pickProperties(
    own.properties,
    given.filter((name) => !profile?.properties.has(name)),
  )
  await withdraw(parts, projectId, { to, given: { ...own, properties: lost } })
  return isNoted
}

export function pickProperties(properties: Properties, names: Iterable<string>): Properties {
  const wanted = new Set(names)
  return new Map([...properties].filter(([name]) => wanted.has(name)))
}

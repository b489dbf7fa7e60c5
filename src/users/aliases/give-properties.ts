import { ApiError } from '../../contract/errors.js'
import type { KeyClass } from '../../contract/key-class.js'
import { type GivenProperties, giveProperties, type Profile } from '../../model/profile.js'
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

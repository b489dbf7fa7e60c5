import { ApiError } from '../contract/errors.js'
import { give, type Profile } from '../model/profile.js'
import type { Properties } from '../model/properties.js'
import type { States } from './lane-states.js'

/** @returns the names of the properties that the user has got; none if its profile would be too large with them */
export async function giveTo(
  profiles: States<Profile>,
  projectId: string,
  user: string,
  properties: Properties,
): Promise<string[]> {
  let given: string[] = []
  try {
    await profiles.change(projectId, user, (profile) => {
      given = [...properties.keys()].filter((name) => !profile?.properties.has(name))
      return give(profile, properties, Date.now())
    })
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'payload_too_large') throw error
    given = []
  }
  return given
}

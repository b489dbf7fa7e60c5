import { ApiError } from '../contract/errors.js'
import { type Given, give, type Profile } from '../model/profile.js'
import type { States } from './lane-states.js'

/** @returns the names of the properties that the user has got; none if its profile would be too large with them */
export async function giveTo(
  profiles: States<Profile>,
  projectId: string,
  user: string,
  other: Given,
): Promise<string[]> {
  let given: string[] = []
  try {
    await profiles.change(projectId, user, (profile) => {
      given = [...other.properties.keys()].filter((name) => !profile?.properties.has(name))
      return give(profile, other, Date.now())
    })
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'payload_too_large') throw error
    given = []
  }
  return given
}

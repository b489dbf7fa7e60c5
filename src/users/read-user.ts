import type { Profile } from '../model/profile.js'
import { formatProperties } from '../model/properties.js'
import type { States } from '../states/state-store.js'
import type { Aliases } from './aliases/aliases.js'

export interface UserReadParts {
  profiles: Pick<States<Profile>, 'get'>
  aliases: Pick<Aliases, 'resolve'>
}

/** The profile of the user with this name or alias, as JSON; null if there is none. */
export async function readUser(
  { profiles, aliases }: UserReadParts,
  projectId: string,
  name: string,
): Promise<string | null> {
  const user = await aliases.resolve(projectId, name)
  const profile = await profiles.get(projectId, user)
  if (!profile) return null
  const { properties, createdAt, updatedAt } = profile
  return `{"distinct_id":${JSON.stringify(user)},"properties":${formatProperties(properties)},"created_at":${createdAt},"updated_at":${updatedAt}}`
}

import { forEachInBatches } from '../lib/for-each-in-batches.js'
import type { Profile } from '../model/profile.js'
import type { Barrier } from '../reads/read-barrier.js'
import type { States } from '../states/state-store.js'
import type { Aliases } from './aliases/aliases.js'

export interface DeleteParts {
  profiles: States<Profile>
  aliases: Aliases
  barrier: Pick<Barrier, 'requireProject'>
}

/**
 * Deletes a user's profile and aliases, and the profiles that the aliases had before they became aliases. Waits for
 * ClickHouse only if the project may have aliases.
 * @returns whether anything was deleted
 */
export async function deleteProfile(
  { profiles, aliases, barrier }: DeleteParts,
  projectId: string,
  name: string,
): Promise<boolean> {
  const user = await aliases.resolve(projectId, name)
  const levels = await aliases.findStoredNames(projectId, user, barrier)
  const deleted = await deleteProfiles(profiles, projectId, levels.flat())
  await aliases.remove(projectId, levels, barrier)
  // Until its alias was gone, a change sent under it may have made the user's profile again.
  if (levels.length > 1) await deleteProfiles(profiles, projectId, [user])
  return deleted.size > 0 || levels.length > 1
}

/** Deletes the profiles of these names. @returns the names that had one */
export async function deleteProfiles(
  profiles: Pick<States<Profile>, 'change'>,
  projectId: string,
  names: readonly string[],
): Promise<Set<string>> {
  const deleted = new Set<string>()
  await forEachInBatches(names, async (name) => {
    const remove = (profile: Profile | null) => {
      if (profile) deleted.add(name)
      else deleted.delete(name)
      return null
    }
    await profiles.change(projectId, name, remove, { keyClass: 'secret' })
  })
  return deleted
}

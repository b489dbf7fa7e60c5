import type { Connection } from '../client/connection.js'
import type { ProjectErased } from '../contract/project-schemas.js'
import type { CommandIo } from './command.js'
import { counted } from './progress.js'

/** How long a call may take, ms: it deletes for about 20 s, and waits for the store and the purge. */
export const ERASE_TIMEOUT_MS = 180_000

/**
 * Erases all data of the connection's project except its keys, and prints how much it was.
 * @param ending of the first line, such as `were removed`
 */
export async function eraseProject(
  connection: Connection,
  project: string,
  ending: string,
  { signal, stderr }: CommandIo,
): Promise<void> {
  const call = { method: 'DELETE', path: `/public/projects/${encodeURIComponent(project)}` } as const
  const total = { events: 0, profiles: 0, aliases: 0, sessions: 0, dead_letters: 0 }
  let last: ProjectErased
  do {
    const { value } = await connection.call(call, { signal })
    last = value as unknown as ProjectErased
    for (const kind of Object.keys(total) as (keyof typeof total)[]) total[kind] += last.erased[kind]
  } while (!last.complete)
  const { events, profiles, aliases, sessions, dead_letters } = total
  stderr.write(
    `Project ${project}: ${counted(events, 'event')}, ${counted(profiles, 'profile')}, ${counted(aliases, 'other name')}, ${counted(sessions, 'session')} and ${counted(dead_letters, 'dead letter')} ${ending}.\n`,
  )
  stderr.write(
    last.gone_at !== null
      ? `The data leaves the disks of ClickHouse by ${new Date(last.gone_at).toISOString()}.\n`
      : `The data no longer appears in any response, but it is still on disk. ${last.purge_error ?? 'ClickHouse is rewriting its tables.'}\n`,
  )
}

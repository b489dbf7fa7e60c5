import { setTimeout as wait } from 'node:timers/promises'
import { Connection } from '../../client/connection.js'
import type { ProjectErased } from '../../contract/responses.js'
import { KeyChanges } from '../../keys/key-changes.js'
import { COMMAND_LINE } from '../../model/audit-entry.js'
import { listKeys, openKeyStore } from '../../store/api-keys.js'
import type { CommandIo } from '../command.js'
import { checkService } from '../first-call.js'
import { counted } from '../progress.js'
import { withStore } from '../store.js'
import { PROJECT } from './keys.js'

/** A call deletes for about 20 s, and waits for the store and the purge. */
const TIMEOUT_MS = 180_000
/** A process refreshes its keys every 5 s, so a revoked key works for that long. */
const REVOKED_MS = 6_000

/**
 * Removes the demo's project, with all of its keys in the store. After an interruption, the next call completes it.
 * @returns the exit code
 */
export async function removeDemo(url: string, io: CommandIo): Promise<number> {
  return await withStore(io, async ({ first }) => {
    const changes = new KeyChanges(openKeyStore(first), COMMAND_LINE)
    // Revoke the old keys first, so that nothing sends with them any more.
    const earlier = (await listKeys(first, PROJECT)).filter(({ isValid }) => isValid)
    await changes.revoke(earlier, { mayBeLast: true })
    const removal = {
      projectId: PROJECT,
      kind: 'secret',
      label: 'Removal of the demo',
      origins: [],
      eventsOnly: false,
    } as const
    const made = await changes.create([removal])
    const secretKey = made[0]?.text ?? ''
    try {
      if (earlier.length > 0) await wait(REVOKED_MS, undefined, { signal: io.signal })
      return await erase(new Connection({ url, secretKey, timeoutMs: TIMEOUT_MS }), url, io)
    } finally {
      await changes.revoke(made, { mayBeLast: true })
    }
  })
}

async function erase(connection: Connection, url: string, { signal, stderr }: CommandIo): Promise<number> {
  await checkService(connection, url, 'read', signal)
  const call = { method: 'DELETE', path: `/public/projects/${PROJECT}` } as const
  const total = { events: 0, profiles: 0, aliases: 0, sessions: 0, dead_letters: 0 }
  let last: ProjectErased
  do {
    const { value } = await connection.call(call, { signal })
    last = value as unknown as ProjectErased
    for (const kind of Object.keys(total) as (keyof typeof total)[]) total[kind] += last.erased[kind]
  } while (!last.complete)
  const { events, profiles, aliases, sessions, dead_letters } = total
  stderr.write(
    `Project ${PROJECT}: ${counted(events, 'event')}, ${counted(profiles, 'profile')}, ${counted(aliases, 'other name')}, ${counted(sessions, 'session')} and ${counted(dead_letters, 'dead letter')} were removed, and its keys are revoked.\n`,
  )
  stderr.write(
    last.gone_at !== null
      ? `By ${new Date(last.gone_at).toISOString()} the data has left the disks of ClickHouse.\n`
      : `The data is in no response any longer, but still on disk. ${last.purge_error ?? 'ClickHouse is rewriting its tables.'}\n`,
  )
  return 0
}

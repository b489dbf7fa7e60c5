import { setTimeout as wait } from 'node:timers/promises'
import { Connection } from '../../client/connection.js'
import { KeyChanges } from '../../keys/key-changes.js'
import { COMMAND_LINE } from '../../model/audit-entry.js'
import { listKeys, openKeyStore } from '../../store/api-keys.js'
import { checkService } from '../check-service.js'
import type { CommandIo } from '../command.js'
import { ERASE_TIMEOUT_MS, eraseProject } from '../erase-project.js'
import { withStore } from '../store.js'
import { describeKey, PROJECT } from './keys.js'

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
    const made = await changes.create([describeKey('secret', 'Removal of the demo')])
    const secretKey = made[0]?.text ?? ''
    try {
      if (earlier.length > 0) await wait(REVOKED_MS, undefined, { signal: io.signal })
      const connection = new Connection({ url, secretKey, timeoutMs: ERASE_TIMEOUT_MS })
      await checkService(connection, url, 'read', io)
      await eraseProject(connection, PROJECT, 'were removed, and its keys are revoked', io)
      return 0
    } finally {
      await changes.revoke(made, { mayBeLast: true })
    }
  })
}

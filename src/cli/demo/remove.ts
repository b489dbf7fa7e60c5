import { setTimeout as wait } from 'node:timers/promises'
import { Connection } from '../../client/connection.js'
import { makeKey, storedKey } from '../../keys/keys.js'
import { insertKeys, readKeys, readStoreTime, revokeKeys } from '../../store/api-keys.js'
import type { CommandIo } from '../command.js'
import { ERASE_TIMEOUT_MS, eraseProject } from '../erase-project.js'
import { checkService } from '../first-call.js'
import { withStore } from '../store.js'
import { PROJECT } from './keys.js'

/** A process refreshes its keys every 5 s, so a revoked key works for that long. */
const REVOKED_MS = 6_000

/**
 * Removes the demo's project, with all of its keys in the store. After an interruption, the next call completes it.
 * @returns the exit code
 */
export async function removeDemo(url: string, io: CommandIo): Promise<number> {
  const secretKey = makeKey('secret')
  const key = storedKey(secretKey, { projectId: PROJECT, kind: 'secret' })
  return await withStore(io, async ({ first }) => {
    const isOfDemo = ({ projectId }: { projectId: string }) => projectId === PROJECT
    // Revoke the old keys first, so that nothing sends with them any more.
    const earlier = (await readKeys(first)).filter(isOfDemo)
    await revokeKeys(first, earlier)
    await insertKeys(first, [key], await readStoreTime(first))
    try {
      if (earlier.length > 0) await wait(REVOKED_MS, undefined, { signal: io.signal })
      const connection = new Connection({ url, secretKey, timeoutMs: ERASE_TIMEOUT_MS })
      await checkService(connection, url, 'read', io.signal)
      await eraseProject(connection, PROJECT, 'were removed, and its keys are revoked', io)
      return 0
    } finally {
      await revokeKeys(first, [key])
    }
  })
}

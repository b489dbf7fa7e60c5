import { makeKey, storedKey } from '../../keys/keys.js'
import { insertKeys, type KeyRecord, listKeys, readStoreTime } from '../../store/api-keys.js'
import type { CommandIo } from '../command.js'
import { withStore } from '../store.js'

/** The project that the demo fills by default. */
export const PROJECT = 'demo'

/**
 * Creates a secret and a read key for the project, and prints them with what to do with them.
 * @param url address of the service
 * @returns the secret key, and when the project began
 */
export async function openProject(io: CommandIo, url: string): Promise<{ secretKey: string; begun: number }> {
  const [secretKey, readKey] = [makeKey('secret'), makeKey('read')]
  const keys = [
    storedKey(secretKey, { projectId: PROJECT, kind: 'secret' }),
    storedKey(readKey, { projectId: PROJECT, kind: 'read' }),
  ]
  const begun = await withStore(io, async ({ first }) => {
    const now = await readStoreTime(first)
    const earlier = (await listKeys(first)).filter(({ projectId }) => projectId === PROJECT)
    await insertKeys(first, keys, now)
    return begunAt(earlier, now)
  })
  io.stdout.write(`SECRET_KEY=${secretKey}\nREAD_KEY=${readKey}\n`)
  io.stderr.write(`These keys of project "${PROJECT}" are shown only this once.
To look at the shop, open ${url}/ and sign in with the read key.
To ask from here: SECRET_KEY=<the read key> npx tallyhouse query --event purchased --metric users --interval week
`)
  return { secretKey, begun }
}

/**
 * Finds when the project began, in epoch ms: when its first key was created after the last time without a valid key.
 * @param keys all keys that the project ever had
 */
function begunAt(keys: readonly KeyRecord[], now: number): number {
  let begun = now
  let goodUntil = Number.NEGATIVE_INFINITY
  for (const { createdAt, revokedAt } of keys.toSorted((a, b) => a.createdAt - b.createdAt)) {
    if (createdAt >= goodUntil) begun = createdAt
    goodUntil = Math.max(goodUntil, revokedAt ?? Number.POSITIVE_INFINITY)
  }
  return now >= goodUntil ? now : begun
}

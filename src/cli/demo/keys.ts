import { makeKey, storedKey } from '../../keys/keys.js'
import { insertKeys, type KeyRecord, listKeys, readStoreTime } from '../../store/api-keys.js'
import type { CommandIo } from '../command.js'
import { withStore } from '../store.js'

/** The project that the demo fills, unless it is given a key of another one. */
export const PROJECT = 'demo'

/** Makes a secret and a read key of the project and prints them. @returns the secret one, and when the project was begun */
export async function openProject(io: CommandIo): Promise<{ secretKey: string; begun: number }> {
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
  io.stderr.write(`Keys of project ${PROJECT}, shown only this once.\n`)
  return { secretKey, begun }
}

/**
 * When the project was begun, epoch ms: when the first of its keys was made since it last had none that was good.
 * @param keys all that it ever had
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

import { KeyChanges } from '../../keys/key-changes.js'
import type { KeyKind, KeyRecord } from '../../keys/keys.js'
import { COMMAND_LINE } from '../../model/audit-entry.js'
import { listKeys, openKeyStore } from '../../store/api-keys.js'
import type { CommandIo } from '../command.js'
import { withStore } from '../store.js'

/** The project that the demo fills by default. */
export const PROJECT = 'demo'

/**
 * Creates a secret and a read key for the project, and prints them with instructions.
 * @param url address of the service
 * @returns the secret key, and when the project began
 */
export async function openProject(io: CommandIo, url: string): Promise<{ secretKey: string; begun: number }> {
  const { texts, begun } = await withStore(io, async ({ first }) => {
    const earlier = await listKeys(first, PROJECT)
    const changes = new KeyChanges(openKeyStore(first), COMMAND_LINE)
    const made = await changes.create([describeKey('secret', 'Demo'), describeKey('read', 'Demo')])
    return { texts: made.map(({ text }) => text), begun: begunAt([...earlier, ...made]) }
  })
  const [secretKey = '', readKey = ''] = texts
  io.stdout.write(`SECRET_KEY=${secretKey}\nREAD_KEY=${readKey}\n`)
  io.stderr.write(`These keys of project "${PROJECT}" are shown only this once.
To look at the shop, open ${url}/ and sign in with the secret key. With the read key you can change nothing.
To ask from here: SECRET_KEY=<the read key> npx tallyhouse query --event purchased --metric users --interval week
`)
  return { secretKey, begun }
}

/** A key of the project, to be created. */
export function describeKey(kind: KeyKind, label: string) {
  return { projectId: PROJECT, kind, label, origins: [], eventsOnly: false }
}

/**
 * Finds when the project began, in epoch ms: when its first key was created after the last time without a valid key.
 * @param keys all keys that the project ever had, one of them valid
 */
function begunAt(keys: readonly KeyRecord[]): number {
  let begun = 0
  let goodUntil = Number.NEGATIVE_INFINITY
  for (const { createdAt, revokedAt } of keys.toSorted((a, b) => a.createdAt - b.createdAt)) {
    if (createdAt >= goodUntil) begun = createdAt
    goodUntil = Math.max(goodUntil, revokedAt ?? Number.POSITIVE_INFINITY)
  }
  return begun
}

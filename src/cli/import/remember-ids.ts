import { KEY_CLASSES } from '../../contract/key-class.js'
import { INSERT_ID_BUCKET_MS, idBucketAt, OLD_ID_BUCKETS } from '../../journal/insert-id-memory.js'
import type { Relocation } from '../../journal/relocation.js'
import { INSERT_ID_BYTES, selectInsertIds, writeInsertId } from '../../model/insert-id.js'
import { readNamedEvents } from '../../store/dump.js'
import type { WholeStore } from '../whole-store.js'

/** Ids passed to the journals in one call. */
const PIECE = 10_000

/** Ids of one project in one time bucket. */
interface Some {
  projectId: string
  bucket: number
  ids: Buffer[]
}

/**
 * Adds the `insert_id`s of the stored events to the journals for the rest of their lifetime, so that a client that
 * resends an event does not store it twice. The class of key that sent an event is not stored, so the id is added for
 * both. Running it again has no effect.
 */
export async function rememberInsertIds(store: WholeStore): Promise<void> {
  const journals: Relocation[] = []
  try {
    for (const { number } of store.lanes) journals.push(await store.openRelocation(number))
    const since = (idBucketAt(Date.now()) - OLD_ID_BUCKETS) * INSERT_ID_BUCKET_MS
    const waiting = new Map<string, Some>()
    let count = 0
    for await (const events of readNamedEvents(store.shards, since)) {
      for (const event of events) {
        const { project_id: projectId, received_at: receivedAt } = event
        const bucket = idBucketAt(receivedAt)
        const name = `${bucket}:${projectId}`
        const some = waiting.get(name) ?? { projectId, bucket, ids: [] }
        if (some.ids.push(encodeInsertId(event)) === 1) waiting.set(name, some)
        if (++count < PIECE) continue
        count = 0
        await rememberAll(journals, waiting)
      }
    }
    await rememberAll(journals, waiting)
  } finally {
    for (const journal of journals) await journal.close()
  }
}

function encodeInsertId(event: { project_id: string; distinct_id: string; insert_id: string }): Buffer {
  const id = Buffer.alloc(INSERT_ID_BYTES)
  const { project_id: projectId, distinct_id: distinctId, insert_id: insertId } = event
  writeInsertId(id, 0, { projectId, distinctId, insertId })
  return id
}

async function rememberAll(journals: readonly Relocation[], waiting: Map<string, Some>): Promise<void> {
  for (const { projectId, bucket, ids: some } of waiting.values()) {
    const all = Buffer.concat(some)
    for (const [lane, journal] of journals.entries()) {
      const ids = selectInsertIds(all, lane, journals.length)
      if (ids.length === 0) continue
      for (const keyClass of KEY_CLASSES) await journal.addInsertIds({ sender: { projectId, keyClass }, bucket, ids })
    }
  }
  waiting.clear()
}

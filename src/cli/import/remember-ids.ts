import { KEY_CLASSES } from '../../contract/key-class.js'
import { INSERT_ID_BUCKET_MS, idBucketAt, OLD_ID_BUCKETS } from '../../journal/insert-id-memory.js'
import type { Relocation } from '../../journal/relocation.js'
import { INSERT_ID_BYTES, selectInsertIds, writeInsertId } from '../../model/insert-id.js'
import { namedEvents } from '../../store/dump.js'
import type { WholeStore } from '../whole-store.js'

/** Ids that are given to the journals at once. */
const PIECE = 10_000

/** Ids of one project that came in one bucket of time. */
interface Some {
  projectId: string
  bucket: number
  ids: Buffer[]
}

/**
 * Has the journals remember the `insert_id`s of the stored events for the rest of their time, as the journals of the store
 * that these come from did: so a client that sends one again does not store it twice. With which class of key an event came is
 * not stored, so it is known with either. It can be repeated.
 * @param now epoch milliseconds
 */
export async function rememberInsertIds(store: WholeStore, now = Date.now()): Promise<void> {
  const journals: Relocation[] = []
  try {
    for (const { number } of store.lanes) journals.push(await store.relocate(number))
    const since = (idBucketAt(now) - OLD_ID_BUCKETS) * INSERT_ID_BUCKET_MS
    const waiting = new Map<string, Some>()
    let count = 0
    for await (const events of namedEvents(store.shards, since)) {
      for (const event of events) {
        const { project_id: projectId, received_at: receivedAt } = event
        const bucket = idBucketAt(receivedAt)
        const name = `${bucket}:${projectId}`
        const some = waiting.get(name) ?? { projectId, bucket, ids: [] }
        if (some.ids.push(idOf(event)) === 1) waiting.set(name, some)
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

function idOf(event: { project_id: string; distinct_id: string; insert_id: string }): Buffer {
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

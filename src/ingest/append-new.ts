import type { BufferPool } from '../lib/buffer-pool.js'
import { listNamedEvents, withoutEvents } from '../model/identified-events.js'
import type { RequestIds } from '../model/request-ids.js'
import type { Appended, Appends, Submission } from './group-commit.js'
import type { KnownEvents } from './known-events.js'

export interface AppendNewParts {
  commits: Appends
  known: KnownEvents
  /** pool of the entries */
  buffers: BufferPool
}

/**
 * Appends the events of a batch whose `insert_id`s were not stored before a time, epoch ms. With the same time, a
 * repetition of the request appends the same events.
 * @returns the result of `append`, and how many events were stored before
 */
export async function appendNew(
  { commits, known, buffers }: AppendNewParts,
  batch: Submission,
  ids: RequestIds,
  storedBefore: number,
): Promise<{ appended: Appended | null; skipped: number }> {
  if (ids.kind !== 'events') return { appended: await commits.append(batch, ids), skipped: 0 }
  const { projectId, body, count } = batch
  const stored = await known
    .find(projectId, storedBefore, () => listNamedEvents(body, ids))
    .catch((error: unknown) => {
      buffers.release(body)
      throw error
    })
  if (stored.size === 0) return { appended: await commits.append(batch, ids), skipped: 0 }
  const rest = stored.size < count ? withoutEvents(body, ids, stored) : null
  buffers.release(body)
  const appended = rest && (await commits.append({ ...batch, body: rest.body, count: count - stored.size }, rest.ids))
  return { appended, skipped: stored.size }
}

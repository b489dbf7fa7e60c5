import type { BufferPool } from '../lib/buffer-pool.js'
import { listNamedEvents, withoutEvents } from '../model/identified-events.js'
import { renewInsertId } from '../model/insert-id.js'
import { type Position, positionAt } from '../model/position.js'
import type { EventIds, RequestIds } from '../model/request-ids.js'
import type { Appended, Appends, Submission } from './group-commit.js'
import type { KnownEvents } from './known-events.js'

export interface AppendNewParts {
  commits: Appends
  known: KnownEvents
  /** pool of the entries */
  buffers: BufferPool
}

/**
 * Appends the events of a batch whose `insert_id`s were not stored before a time, epoch ms. Events that were deleted are
 * stored again, even if the journals remember them, but once for each such time. With the same time, a repetition of the
 * request appends the same events.
 * @returns the result of `append`, and how many events were stored before
 */
export async function appendNew(
  { commits, known, buffers }: AppendNewParts,
  batch: Submission,
  ids: RequestIds,
  storedBefore: number,
): Promise<{ appended: Appended | null; skipped: number }> {
  if (ids.kind !== 'events') return { appended: await commits.append(batch, ids), skipped: 0 }
  const { body, count } = batch
  const rest = await selectNew(known, batch, ids, storedBefore).catch((error: unknown) => {
    buffers.release(body)
    throw error
  })
  if (rest?.body !== body) buffers.release(body)
  if (!rest) return { appended: null, skipped: count }
  const appended = await commits.append({ ...batch, body: rest.body, count: rest.count }, rest.ids)
  return { appended, skipped: count - rest.count }
}

/** What is left of a batch without the events that were stored before; null if nothing is. */
async function selectNew(
  known: KnownEvents,
  batch: Submission,
  ids: EventIds,
  storedBefore: number,
): Promise<{ body: Buffer; ids: EventIds; count: number } | null> {
  const { projectId, body, count } = batch
  const before = positionAt(storedBefore)
  const find = (last: Position) => known.find(projectId, last, () => listNamedEvents(body, ids))
  let stored = await find(before)
  if (stored.size > 0 && ids.key) {
    // If the time is yet to come, the events of a first attempt were stored before it, too, but a retry must not skip
    // them: it gets the first response.
    const first = await known.findFirst(ids.key)
    if (first !== null && first <= before) stored = await find(first - 1n)
  }
  if (stored.size === count) return null
  const rest = stored.size === 0 ? { body, ids } : withoutEvents(body, ids, stored)
  for (const index of await known.findDeleted({ ...batch, body: rest.body }, rest.ids, storedBefore)) {
    renewInsertId(rest.ids.digests, index, storedBefore)
  }
  return { ...rest, count: count - stored.size }
}

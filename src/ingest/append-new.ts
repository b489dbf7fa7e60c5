import type { BufferPool } from '../lib/buffer-pool.js'
import { listNamedEvents, withoutEvents } from '../model/identified-events.js'
import type { Sender } from '../model/sender.js'
import type { Appended, AppendOptions, Appends } from './group-commit.js'
import type { KnownEvents } from './known-events.js'

export interface AppendNewParts {
  commits: Pick<Appends, 'appendBatch'>
  known: KnownEvents
  /** pool of the entries */
  buffers: BufferPool
}

/** The events of a request. */
export interface WholeBatch extends AppendOptions {
  sender: Sender
  /** JSON `{"events":[…]}` */
  entry: Buffer
  count: number
}

/**
 * Appends the events of a batch whose `insert_id`s were not stored before a time, epoch ms. With the same time, a
 * repetition of the request appends the same events. @returns the result of `appendBatch`, and how many events were
 * stored before
 */
export async function appendNew(
  { commits, known, buffers }: AppendNewParts,
  { sender, entry, count, ...options }: WholeBatch,
  storedBefore: number,
): Promise<{ appended: Appended[]; skipped: number }> {
  const { insertIds } = options
  const find = async () =>
    insertIds ? await known.find(sender.projectId, storedBefore, () => listNamedEvents(entry, insertIds)) : NONE
  const stored = await find().catch((error: unknown) => {
    buffers.release(entry)
    throw error
  })
  if (!insertIds || stored.size === 0) {
    return { appended: await commits.appendBatch(sender, entry, count, options), skipped: 0 }
  }
  const rest = stored.size < count ? withoutEvents(entry, insertIds, stored) : null
  buffers.release(entry)
  if (!rest) return { appended: [], skipped: count }
  const others = { ...options, insertIds: rest.insertIds }
  return {
    appended: await commits.appendBatch(sender, rest.body, count - stored.size, others),
    skipped: stored.size,
  }
}

const NONE: ReadonlySet<number> = new Set()

import type { CallResult } from '../../client/connection.js'
import { NO_BATCH } from '../../model/batch-id.js'

/** The events of an import that the service has accepted, recorded so that the import can be undone. */
export interface StoredIds {
  /** of the batches that contain them */
  ids: string[]
  /** events that may be stored in batches with unknown ids */
  uncertain: number
}

/**
 * Reads the batch ids from a response. They are unknown if a proxy removed the header.
 * @param accepted number of accepted events
 */
export function readStoredIds({ headers }: CallResult, accepted: number): StoredIds {
  const text = headers.get('x-batch-ids')
  if (text === null) return { ids: [], uncertain: accepted }
  return { ids: text === NO_BATCH ? [] : text.split(','), uncertain: 0 }
}

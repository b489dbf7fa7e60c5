import type { CallResult } from '../../client/connection.js'
import { NO_BATCH } from '../../model/batch-id.js'

/** What an import knows about events that the service has accepted, so that it can be undone. */
export interface StoredIds {
  /** of the batches that hold them */
  ids: string[]
  /** events that may be stored in batches whose ids are not known */
  uncertain: number
}

/** The ids in the response to a batch. They are not known if a proxy removes the header. @param accepted events */
export function readStoredIds({ headers }: CallResult, accepted: number): StoredIds {
  const text = headers.get('x-batch-ids')
  if (text === null) return { ids: [], uncertain: accepted }
  return { ids: text === NO_BATCH ? [] : text.split(','), uncertain: 0 }
}

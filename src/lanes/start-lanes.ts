import type { Shards } from '../clickhouse/shards.js'
import { ApiError } from '../contract/errors.js'
import { takeOver } from '../store/journals.js'
import type { Lane } from './lane.js'
import { isUnknown } from './lanes.js'

export interface LaneStart {
  /** those whose shards are ready */
  lanes: readonly Lane[]
  /** whether this process stores events */
  isWriter: boolean
}

/**
 * Registers the journals in the store, and starts their writers. A failure in one lane does not stop the others. Call it
 * again until it returns null.
 * @returns the error of a lane that has been down since the start, if there is one; else null
 * @throws StoreError, StoreUnreachableError; ApiError `unavailable` if a journal went down meanwhile
 */
export async function startLanes(shards: Shards, { lanes, isWriter }: LaneStart): Promise<ApiError | null> {
  const start = async (lane: Lane) => {
    await takeOver(shards, lane, Date.now())
    if (isWriter) lane.writer.start()
  }
  const results = await Promise.allSettled(lanes.filter((lane) => !isUnknown(lane)).map(start))
  const failed = results.find((result) => result.status === 'rejected')
  if (failed) throw failed.reason
  const late = lanes.find(isUnknown)
  return late ? new ApiError('unavailable', `${late.name} has been down since the start.`) : null
}

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
 * Makes the journals those of this store, and starts their writers: each, whatever becomes of the others. May be called again
 * for the lanes that were down.
 * @returns why it is to be called again: a lane has been down since the start; null if there is none
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
  return late ? new ApiError('unavailable', `${late.name} is down since the start.`) : null
}

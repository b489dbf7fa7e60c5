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
 * Makes the journals those of this store, and starts their writers. May be called again for the lanes that were down.
 * @returns why it is to be called again: a lane has been down since the start; null if there is none
 * @throws StoreError, StoreUnreachableError; ApiError `unavailable` if a journal went down meanwhile
 */
export async function startLanes(shards: Shards, { lanes, isWriter }: LaneStart): Promise<ApiError | null> {
  let late: Lane | undefined
  for (const lane of lanes) {
    if (isUnknown(lane)) {
      late = lane
      continue
    }
    await takeOver(shards, lane, Date.now())
    if (isWriter) lane.writer.start()
  }
  return late ? new ApiError('unavailable', `${late.name} is down since the start.`) : null
}

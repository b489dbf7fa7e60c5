import { KEY_CLASSES, type KeyClass } from '../contract/key-class.js'
import type { IdUse } from '../journal/insert-id-memory.js'
import { chooseLane } from '../model/choose-lane.js'
import { INSERT_ID_BYTES, insertIdAt, listInsertIds } from '../model/insert-id.js'
import type { Position } from '../model/position.js'
import { findDigests, findKey, type IdempotencyKey, type RequestIds } from '../model/request-ids.js'
import type { Sender } from '../model/sender.js'
import type { Lane } from './lane.js'
import { keyOfPart } from './lane-router.js'

/** The ids of a sender that one lane remembers. */
export interface LaneIdUse extends IdUse {
  lane: number
}

/** The ids of requests, events and changes that the journals of all lanes remember. */
export class LaneIds {
  readonly #lanes: readonly Pick<Lane, 'number' | 'journal'>[]

  constructor(lanes: readonly Pick<Lane, 'number' | 'journal'>[]) {
    this.#lanes = lanes
  }

  /** How many ids of a project are remembered. @throws ApiError `unavailable` if a lane is down */
  async list(projectId: string): Promise<LaneIdUse[]> {
    const read = async ({ number: lane, journal }: Pick<Lane, 'number' | 'journal'>) => {
      return (await journal.ids.use(projectId)).map((use) => ({ ...use, lane }))
    }
    return (await Promise.all(this.#lanes.map(read))).flat()
  }

  /**
   * Whether a request was accepted before, because its key or the ids of all its events are known. Events of a batch
   * that was interrupted may still be missing.
   * @throws ApiError `unavailable` if a lane is down
   */
  async isRepetition(sender: Sender, ids: RequestIds): Promise<boolean> {
    const lanes = this.#lanes
    const key = findKey(ids)
    if (key) {
      const lane = lanes[chooseLane(key.key, lanes.length)]
      if (await lane?.journal.findRequest(key)) return true
    }
    const insertIds = findDigests(ids)
    if (!insertIds) return false
    // The first id usually decides it, and looking up all ids costs a thousand times as much.
    const all = insertIds.length / INSERT_ID_BYTES
    if ((await this.#countKnown(sender, insertIds.subarray(0, INSERT_ID_BYTES))) === 0) return false
    return all === 1 || (await this.#countKnown(sender, insertIds)) === all
  }

  /**
   * The first position of the entries that a request with this key appended; null if none is known.
   * @throws ApiError `unavailable` if a lane is down
   */
  async findFirst(key: IdempotencyKey): Promise<Position | null> {
    const { length } = this.#lanes
    const found = this.#lanes.map(async ({ number, journal }) => {
      const keys = length > 1 ? [keyOfPart(key, number, length)] : []
      if (chooseLane(key.key, length) === number) keys.push(key)
      return await Promise.all(keys.map((one) => journal.findRequest(one)))
    })
    const positions = (await Promise.all(found)).flat().flatMap((outcome) => {
      return outcome?.status === 'repeated' ? outcome.position : []
    })
    return positions.reduce<Position | null>((first, one) => (first === null || one < first ? one : first), null)
  }

  async #countKnown(sender: Sender, insertIds: Buffer): Promise<number> {
    return (await this.findKnown(sender, insertIds)).length
  }

  /**
   * The indexes of the ids that are known, in any order.
   * @throws ApiError `unavailable` if a lane is down
   */
  async findKnown(sender: Sender, insertIds: Buffer): Promise<number[]> {
    const found = this.#lanes.map(async ({ number, journal }) => {
      const own = listInsertIds(insertIds, number, this.#lanes.length)
      if (own.length === 0) return []
      const digests = Buffer.concat(own.map((i) => insertIdAt(insertIds, i)))
      return (await journal.ids.find({ sender, digests })).flatMap((i) => own[i] ?? [])
    })
    return (await Promise.all(found)).flat()
  }

  /**
   * Forgets all ids of a project, or those of one class of key.
   * @throws ApiError `unavailable` if a lane is down; a retry forgets what is left
   */
  async forget(projectId: string, keyClasses: readonly KeyClass[] = KEY_CLASSES): Promise<void> {
    for (const { journal } of this.#lanes) {
      for (const keyClass of keyClasses) await journal.ids.forget({ projectId, keyClass })
    }
  }
}

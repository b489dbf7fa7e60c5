import { KEY_CLASSES, type KeyClass } from '../contract/key-class.js'
import type { IdUse } from '../journal/insert-id-memory.js'
import type { Lane } from './lane.js'

/** What one lane remembers of the ids of a sender. */
export interface LaneIdUse extends IdUse {
  lane: number
}

/** The ids of events and changes that the journals of all lanes remember. */
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
   * Forgets all ids of a project, or those of one class of key.
   * @throws ApiError `unavailable` if a lane is down; a retry forgets what is left
   */
  async forget(projectId: string, keyClasses: readonly KeyClass[] = KEY_CLASSES): Promise<void> {
    for (const { journal } of this.#lanes) {
      for (const keyClass of keyClasses) await journal.ids.forget({ projectId, keyClass })
    }
  }
}

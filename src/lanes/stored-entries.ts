import type { BatchPlace } from '../model/batch-id.js'
import { maxPosition, START } from '../model/position.js'
import type { Lane } from './lane.js'

/** Waits until entries that were accepted are stored; their ids name the journal of their lane. */
export class StoredEntries {
  readonly #findLane: (id: number) => Pick<Lane, 'journal' | 'barrier' | 'shard'> | undefined

  /** @param findLane see `Lanes.findByJournal` */
  constructor(findLane: (id: number) => Pick<Lane, 'journal' | 'barrier' | 'shard'> | undefined) {
    this.#findLane = findLane
  }

  /**
   * Waits until an accepted entry is stored.
   * @returns the number of the shard where it should be
   * @throws ApiError `unavailable` if the store is behind, or the lane is down
   */
  async waitFor({ position, journalId }: BatchPlace): Promise<number> {
    const lane = this.#findLane(journalId)
    // All entries of an earlier journal are stored.
    if (!lane) return 0
    const { appended, stored } = await lane.journal.progress()
    if (position > stored && position <= appended) await lane.barrier.waitFor(position)
    return lane.shard.number
  }

  /** Waits for the last accepted entry of each journal; a caller may name positions that no journal has reached. */
  async waitForAll(places: readonly BatchPlace[]): Promise<void> {
    for (const journalId of new Set(places.map(({ journalId }) => journalId))) {
      const lane = this.#findLane(journalId)
      if (!lane) continue
      const { appended } = await lane.journal.progress()
      const own = places.filter((place) => place.journalId === journalId && place.position <= appended)
      const position = own.reduce((last, place) => maxPosition(last, place.position), START)
      await this.waitFor({ position, journalId })
    }
  }
}

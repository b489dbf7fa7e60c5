import type { LostPart } from '../store/part-notes.js'

/** Rows that the store has lost, or cannot read. */
export interface Loss extends Omit<LostPart, 'state' | 'isSettled'> {
  /** number of the shard */
  shard: number
  /** `unreadable`: it is in use, and a read failed */
  state: LostPart['state'] | 'unreadable'
}

import type { EventPlace } from './event-id.js'

/**
 * Identifies the events that a batch stored, which are those of one entry: 16 hexadecimal digits of the entry's
 * position and 8 of the journal's id. An event id would not do, because single events share an entry with those of
 * other requests.
 */
export type BatchPlace = Omit<EventPlace, 'index'>

const BATCH_ID = /^[0-9a-f]{24}$/
/** Returned instead of an id if a batch stored nothing because the `insert_id`s of all its events were known. */
export const NO_BATCH = 'none'

export function formatBatchId({ position, journalId }: BatchPlace): string {
  return position.toString(16).padStart(16, '0') + journalId.toString(16).padStart(8, '0')
}

/** @returns null if the text is not such an id */
export function parseBatchId(text: string): BatchPlace | null {
  if (!BATCH_ID.test(text)) return null
  return { position: BigInt(`0x${text.slice(0, 16)}`), journalId: Number.parseInt(text.slice(16), 16) }
}

import { DAY_MS } from '../contract/durations.js'
import type { Sender } from '../model/sender.js'

/** An insert_id is recognised for this long, and for up to INSERT_ID_BUCKET_MS longer. */
export const INSERT_ID_MEMORY_MS = 7 * DAY_MS
/**
 * Ids expire together, by the bucket of time in which they arrived. There are few buckets, because an id is looked up
 * in each of them.
 */
export const INSERT_ID_BUCKET_MS = INSERT_ID_MEMORY_MS / 2
/** Buckets before the current one that may hold an id that has not expired. */
export const OLD_ID_BUCKETS = INSERT_ID_MEMORY_MS / INSERT_ID_BUCKET_MS

export function idBucketAt(ms: number): number {
  return Math.floor(ms / INSERT_ID_BUCKET_MS)
}

/** How many ids of a sender a journal remembers, and since when. */
export interface IdUse {
  sender: Sender
  ids: number
  /** epoch ms: all ids that came later are known; null if all ids of the whole INSERT_ID_MEMORY_MS are */
  since: number | null
  /** whether the earlier ids were forgotten on request, not because there were too many */
  isRequested: boolean
}

/**
 * Computes `IdUse.since`.
 * @param since epoch ms: all ids that came before were forgotten early; null if none ever was
 */
export function shortenedSince(since: number | null, now: number): number | null {
  return since === null || now - since >= INSERT_ID_MEMORY_MS ? null : since
}

/** Warns that ids of a sender are being forgotten early. */
export function warnOfShortMemory(
  log: { warn(fields: object, message: string): void },
  { projectId, keyClass }: Sender,
) {
  const message =
    'more insert_ids arrive than are remembered; those of this project and kind of key are known for less than 7 days; ' +
    'see MAX_INSERT_IDS, and: tallyhouse ids'
  log.warn({ project: projectId, kind: keyClass }, message)
}

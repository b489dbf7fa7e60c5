import type { KeyClass, Sender } from '../model/sender.js'

/** An insert_id is recognised for this long, and for up to INSERT_ID_BUCKET_MS longer. */
export const INSERT_ID_MEMORY_MS = 7 * 24 * 60 * 60 * 1000
/** Ids expire together, by the bucket of time in which they arrived. There are few, because an id is looked up in each. */
export const INSERT_ID_BUCKET_MS = INSERT_ID_MEMORY_MS / 2
/** Buckets before the current one that may hold an id that has not expired. */
export const OLD_ID_BUCKETS = INSERT_ID_MEMORY_MS / INSERT_ID_BUCKET_MS

export function idBucketAt(ms: number): number {
  return Math.floor(ms / INSERT_ID_BUCKET_MS)
}

/**
 * How many ids of one sender a journal remembers, by the class of its key. If more come, the oldest are forgotten before
 * their time, half of them at once: whoever sends too many shortens only the time for which their own ids are known.
 */
export type MaxIds = Record<KeyClass, number>

/**
 * Whoever holds a key that is in a page can send any number of ids, so it gets half of what a secret key gets: at the
 * default, 5 million events a week and lane.
 */
const PAGE_SHARE = 1 / 2

/** @param max of a secret key */
export function maxIdsOf(max: number): MaxIds {
  return { secret: max, page: Math.floor(max * PAGE_SHARE) }
}

export const NO_MAX_IDS: MaxIds = { secret: Number.MAX_SAFE_INTEGER, page: Number.MAX_SAFE_INTEGER }

/** What a journal remembers of the ids of a sender. */
export interface IdUse {
  sender: Sender
  ids: number
  /** epoch ms from which on all ids are known; null if those of all INSERT_ID_MEMORY_MS are */
  since: number | null
}

/** See `IdUse.since`. @param since the last time that ids were forgotten early, all that came before it were; null: never */
export function shortenedSince(since: number | null, now: number): number | null {
  return since === null || now - since >= INSERT_ID_MEMORY_MS ? null : since
}

/** Warns that ids of a sender are forgotten early. */
export function warnOfShortMemory(
  log: { warn(fields: object, message: string): void },
  { projectId, keyClass }: Sender,
) {
  const message =
    'more insert_ids came than are remembered, so those of this project and kind of key are known for less than 7 days; ' +
    'see MAX_INSERT_IDS, and: tallyhouse ids'
  log.warn({ project: projectId, kind: keyClass }, message)
}

/** An insert_id is recognised for this long, and for up to INSERT_ID_BUCKET_MS longer. */
const INSERT_ID_MEMORY_MS = 7 * 24 * 60 * 60 * 1000
/** Ids expire together, by the bucket of time in which they arrived. There are few, because an id is looked up in each. */
export const INSERT_ID_BUCKET_MS = INSERT_ID_MEMORY_MS / 2
/** Buckets before the current one that may hold an id that has not expired. */
export const OLD_ID_BUCKETS = INSERT_ID_MEMORY_MS / INSERT_ID_BUCKET_MS

export function idBucketAt(ms: number): number {
  return Math.floor(ms / INSERT_ID_BUCKET_MS)
}

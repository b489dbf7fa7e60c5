import type { KeyClass } from '../contract/key-class.js'

/** How much of something is remembered of one sender, by the class of its key. */
export type PerClass = Record<KeyClass, number>

/** Nobody remembers as many. */
export const ANY_NUMBER: PerClass = { secret: Number.MAX_SAFE_INTEGER, page: Number.MAX_SAFE_INTEGER }

/**
 * Whoever reads a page has its key and can send any number of ids, so it gets half of what a secret key gets: at the default,
 * 5 million events a week and lane.
 */
const PAGE_SHARE_OF_IDS = 1 / 2
/** Pages repeat few requests by `Idempotency-Key`: at the default, a million a day and lane. */
const PAGE_SHARE_OF_KEYS = 1 / 10

/**
 * How many ids of one sender a journal remembers. If more come, the oldest are forgotten before their time, half of them at
 * once: whoever sends too many shortens only the time for which their own ids are known.
 * @param max of a secret key
 */
export function limitIds(max: number): PerClass {
  return { secret: max, page: Math.ceil(max * PAGE_SHARE_OF_IDS) }
}

/** How many idempotency keys of one sender a journal remembers; a new one beyond them is refused. @param max 0: any number */
export function limitKeys(max: number): PerClass {
  return max === 0 ? ANY_NUMBER : { secret: max, page: Math.ceil(max * PAGE_SHARE_OF_KEYS) }
}

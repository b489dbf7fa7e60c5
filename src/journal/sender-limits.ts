import type { KeyClass } from '../contract/key-class.js'

/** A limit per sender, by the class of its key. */
export type PerClass = Record<KeyClass, number>

/** A limit that is never reached. */
export const ANY_NUMBER: PerClass = { secret: Number.MAX_SAFE_INTEGER, page: Number.MAX_SAFE_INTEGER }

/**
 * The key of a page is public, and anyone can send any number of ids with it. So a page key gets half as many as a
 * secret key: at the default, 5 million events per week and lane.
 */
const PAGE_SHARE_OF_IDS = 1 / 2
/** Pages send few requests with an `Idempotency-Key`: at the default, a million per day and lane. */
const PAGE_SHARE_OF_KEYS = 1 / 10

/**
 * How many ids of one sender a journal remembers. If there are more, the older half is forgotten early, so a sender of
 * too many ids shortens only its own memory.
 * @param max limit of a secret key
 */
export function limitIds(max: number): PerClass {
  return { secret: max, page: Math.ceil(max * PAGE_SHARE_OF_IDS) }
}

/**
 * How many idempotency keys of one sender a journal remembers; more are refused.
 * @param max limit of a secret key; 0: any number
 */
export function limitKeys(max: number): PerClass {
  return max === 0 ? ANY_NUMBER : { secret: max, page: Math.ceil(max * PAGE_SHARE_OF_KEYS) }
}

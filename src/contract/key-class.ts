/**
 * The classes of keys: `page` for keys that may be in a web page, where anyone can read them, and `secret`. Each class
 * has its own insert_ids and idempotency keys, so requests with a page key can neither hide events that come with a
 * secret key nor use up its limits.
 */
export const KEY_CLASSES = ['page', 'secret'] as const
export type KeyClass = (typeof KEY_CLASSES)[number]

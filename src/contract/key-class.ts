/**
 * The classes of keys: those that may be in a web page, where anybody reads them, and secret ones. What comes with one of them
 * never makes an event of the other known, or uses up what the other may have remembered.
 */
export const KEY_CLASSES = ['page', 'secret'] as const
export type KeyClass = (typeof KEY_CLASSES)[number]

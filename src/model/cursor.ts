import { idAfter, parseEventId, withHyphens } from './event-id.js'

/** `asc`: the order in which the events were accepted; `desc`: the newest first. */
export type Order = 'asc' | 'desc'

/** Prefix of cursors for reading from the newest event to the oldest. */
const DESCENDING = 'd'

/** Formats a cursor: the first id of a page as 22 characters, and the order. It is opaque to clients. */
export function formatCursor(id: string, order: Order = 'asc'): string {
  const text = Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url')
  return order === 'desc' ? `${DESCENDING}${text}` : text
}

/** @returns null if the text is not a cursor that this service can have issued */
export function parseCursor(cursor: string): { id: string; order: Order } | null {
  const order = cursor.length === 23 && cursor.startsWith(DESCENDING) ? 'desc' : 'asc'
  const text = order === 'desc' ? cursor.slice(DESCENDING.length) : cursor
  const id = withHyphens(Buffer.from(text, 'base64url').toString('hex'))
  return parseEventId(id) && formatCursor(id, order) === cursor ? { id, order } : null
}

/** The cursor of the page after an event, whether or not that page has events yet. */
export function cursorAfter(eventId: string): string {
  return formatCursor(idAfter(eventId))
}

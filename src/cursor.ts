import { parseEventId } from './event-id.js'

/** A cursor is the first id of a page as 22 characters; callers need not know. */
export function formatCursor(id: string): string {
  return Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url')
}

/** @returns the id, or null where the text is no cursor that this service can have given out */
export function parseCursor(cursor: string): string | null {
  const id = withHyphens(Buffer.from(cursor, 'base64url').toString('hex'))
  return parseEventId(id) && formatCursor(id) === cursor ? id : null
}

/** The cursor of the page that begins behind an event, whether there is one already or not. */
export function cursorAfter(eventId: string): string {
  const next = BigInt(`0x${eventId.replaceAll('-', '')}`) + 1n
  return formatCursor(withHyphens(next.toString(16).padStart(32, '0')))
}

function withHyphens(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

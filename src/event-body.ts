import { elements, memberText } from './json.js'

/** An event as a request's validation has seen it; what is null counts as absent. */
export interface ParsedEvent {
  event: string
  distinct_id: string
  timestamp?: number | null
  /** a string, which no client can send, where the event was rewritten before: it is the exact text already */
  properties?: object | string | null
}

/**
 * ClickHouse matches the names of fields byte by byte, so a name that is spelled with escapes (`"\u0065vent"`) would
 * be missed, and so would a key that is to be overwritten. These are the escapes of letters, digits, `_` and `-`.
 */
const HIDING_ESCAPE = /\\u00(?:[4-7]|3[0-9]|2d)/i
const ESCAPE = Buffer.from('\\u00')
const PLAIN_KEY = /^[\w-]+$/

/** The key that a request came with, and whether it is the body that has it. */
export interface UsedKey {
  text: string
  isInBody: boolean
}

/**
 * The bytes to keep of the body of `/track`: the client's own, without its key.
 * @param raw valid UTF-8 and valid JSON; may be written to
 */
export function keptEvent(raw: Buffer, event: ParsedEvent, key: UsedKey): Buffer {
  return overwriteKey(raw, key) ? raw : Buffer.from(rewriteEvent(raw.toString(), 0, event))
}

/** The bytes to keep of the body of `/track/batch`, as `keptEvent`. */
export function keptBatch(raw: Buffer, events: ParsedEvent[], key: UsedKey): Buffer {
  return overwriteKey(raw, key) ? raw : Buffer.from(rewriteBatch(raw.toString(), events))
}

/**
 * The same events in a spelling that ClickHouse reads as `JSON.parse` does: fields of the contract only, each once, and
 * the properties as a string that holds their exact text. For entries that ClickHouse refused.
 * @param body JSON `{"events":[…]}`
 */
export function rewriteEntry(body: Buffer): Buffer {
  const text = body.toString()
  return Buffer.from(rewriteBatch(text, (JSON.parse(text) as { events: ParsedEvent[] }).events))
}

function rewriteBatch(text: string, events: ParsedEvent[]): string {
  const start = text.length - text.trimStart().length
  const list = memberText(text, 'events', start) ?? '[]'
  const spans = elements(list)
  return `{"events":[${events.map((event, i) => rewriteEvent(list, spans[i]?.start ?? 0, event)).join(',')}]}`
}

function rewriteEvent(text: string, at: number, { event, distinct_id, timestamp, properties }: ParsedEvent): string {
  const known = { event, distinct_id, timestamp: timestamp ?? null }
  const exact = typeof properties === 'string' ? properties : properties ? memberText(text, 'properties', at) : '{}'
  return `${JSON.stringify(known).slice(0, -1)},"properties":${JSON.stringify(exact)}}`
}

/**
 * Overwrites the key where it is in the body once, as the field that has to be there.
 * @returns false where that is not certain, or a name may be hidden: then the body is not to be kept as it is
 */
function overwriteKey(raw: Buffer, { text, isInBody }: UsedKey): boolean {
  if (raw.includes(ESCAPE) && HIDING_ESCAPE.test(raw.toString('latin1'))) return false
  const at = raw.indexOf(text)
  if (!isInBody) return at === -1
  if (!PLAIN_KEY.test(text) || at === -1 || raw.indexOf(text, at + text.length) !== -1) return false
  raw.fill('*', at, at + text.length)
  return true
}

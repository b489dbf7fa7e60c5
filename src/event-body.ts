import { elements, memberText } from './json.js'

/** An event as a request's validation has seen it; what is null counts as absent. */
export interface ParsedEvent {
  event: string
  distinct_id: string
  timestamp?: number | null
  properties?: object | null
}

/**
 * ClickHouse matches the names of fields byte by byte, so a name that is spelled with escapes (`"\u0065vent"`) would
 * be missed, and so would a key that is to be overwritten. These are the escapes of letters, digits, `_` and `-`.
 */
const HIDING_ESCAPE = /\\u00(?:[4-7]|3[0-9]|2d)/i
const ESCAPE = Buffer.from('\\u00')
const PLAIN_KEY = /^[\w-]+$/

/**
 * The bytes to keep of the body of `/track`: the client's own, without its key.
 * @param raw valid UTF-8 and valid JSON; may be written to
 */
export function keptEvent(raw: Buffer, event: ParsedEvent, key: string | undefined): Buffer {
  return overwriteKey(raw, key) ? raw : Buffer.from(rewriteEvent(raw.toString(), 0, event))
}

/** The bytes to keep of the body of `/track/batch`, as `keptEvent`. */
export function keptBatch(raw: Buffer, events: ParsedEvent[], key: string | undefined): Buffer {
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
  const exact = properties ? memberText(text, 'properties', at) : '{}'
  return `${JSON.stringify(known).slice(0, -1)},"properties":${JSON.stringify(exact)}}`
}

/** @returns false where the key cannot be found for certain, or a name may be hidden; then the body is not to be kept */
function overwriteKey(raw: Buffer, key: string | undefined): boolean {
  if (raw.includes(ESCAPE) && HIDING_ESCAPE.test(raw.toString('latin1'))) return false
  if (key === undefined) return true
  const at = raw.indexOf(key)
  if (!PLAIN_KEY.test(key) || at === -1 || raw.indexOf(key, at + key.length) !== -1) return false
  raw.fill('*', at, at + key.length)
  return true
}

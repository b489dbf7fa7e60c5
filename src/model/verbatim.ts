import { elements, memberText } from '../json/spans.js'
import { ScannedBody } from './scanned-body.js'

/** An event as a request's validation has seen it; what is null counts as absent. */
export interface ParsedEvent {
  event: string
  distinct_id: string
  timestamp?: number | null
  /** a string, which no client can send, where the event was rewritten before: it is the exact text already */
  properties?: object | string | null
}

/**
 * The bytes to keep of the body of `/track`: the client's own, without its key, where a scan has found nothing unusual in
 * them. ClickHouse matches the names of fields byte by byte and takes none twice, so everything else is rewritten.
 * @param raw valid JSON; may be written to
 */
export function verbatimEvent(raw: Buffer, body: ParsedEvent | ScannedBody, key: string): Buffer {
  if (canBeKept(raw, body, key)) return raw
  const text = raw.toString()
  return Buffer.from(rewriteEvent(text, 0, body instanceof ScannedBody ? JSON.parse(text) : body))
}

/** The bytes to keep of the body of `/track/batch`, as `keptEvent`. */
export function verbatimBatch(raw: Buffer, body: { events: ParsedEvent[] } | ScannedBody, key: string): Buffer {
  if (canBeKept(raw, body, key)) return raw
  const text = raw.toString()
  return Buffer.from(rewriteBatch(text, body instanceof ScannedBody ? JSON.parse(text).events : body.events))
}

/** Overwrites the key in a body that can. A field that nobody knows could hold the key as well, even behind an escape. */
function canBeKept(raw: Buffer, body: object, key: string): body is ScannedBody {
  if (!(body instanceof ScannedBody)) return false
  body.overwriteKey(raw)
  return !body.hasOthers || !(raw.includes(key) || raw.includes('\\'))
}

/** An entry is not what the service writes, as when it was damaged; nothing can be made of it. */
export class EntryError extends Error {
  override readonly name = 'EntryError'
  /** with what it quotes of the entry, which is not for the log */
  readonly reason: string

  constructor(error: unknown) {
    super('The entry holds no events.')
    this.reason = `The entry holds no events: ${error instanceof Error ? error.message : error}`
  }
}

/**
 * The same events in a spelling that ClickHouse reads as `JSON.parse` does: fields of the contract only, each once, and
 * the properties as a string that holds their exact text. For entries that ClickHouse refused.
 * @param body JSON `{"events":[…]}`
 * @throws EntryError where it is something else
 */
export function rewriteEntry(body: Buffer): Buffer {
  const text = body.toString()
  try {
    return Buffer.from(rewriteBatch(text, (JSON.parse(text) as { events: ParsedEvent[] }).events))
  } catch (error) {
    throw new EntryError(error)
  }
}

function rewriteBatch(text: string, events: ParsedEvent[]): string {
  const list = memberText(text, 'events') ?? '[]'
  const spans = elements(list)
  return `{"events":[${events.map((event, i) => rewriteEvent(list, spans[i]?.start ?? 0, event)).join(',')}]}`
}

function rewriteEvent(text: string, at: number, { event, distinct_id, timestamp, properties }: ParsedEvent): string {
  const known = { event, distinct_id, timestamp: timestamp ?? null }
  const exact = typeof properties === 'string' ? properties : properties ? memberText(text, 'properties', at) : '{}'
  return `${JSON.stringify(known).slice(0, -1)},"properties":${JSON.stringify(exact)}}`
}

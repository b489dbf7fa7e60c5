import { type JsonValue, readJson } from '../json/value.js'
import { ScannedBody } from './scanned-body.js'

/** A validated event; null fields count as absent. */
export interface ParsedEvent {
  event: string
  distinct_id: string
  timestamp?: number | null
  insert_id?: string | null
  session_id?: string | null
  /**
   * a string only in an event that was rewritten before: the exact JSON of its properties, which no client can send as
   * one
   */
  properties?: object | string | null
}

/**
 * The bytes of a `/track` body to store: the client's own, with its key overwritten, if a scan found nothing unusual in
 * them. ClickHouse matches field names byte by byte and rejects duplicates, so every other body is rewritten.
 * @param raw valid JSON; may be modified
 * @param key of the request, which must not be stored; absent if it has none
 */
export function verbatimEvent(raw: Buffer, body: ParsedEvent | ScannedBody, key: string | undefined): Buffer {
  if (isVerbatim(raw, body, key)) return raw
  return Buffer.from(rewriteEvent(readJson(raw), body instanceof ScannedBody ? JSON.parse(raw.toString()) : body))
}

/** The bytes of a `/track/batch` body to store, see `verbatimEvent`. */
export function verbatimBatch(
  raw: Buffer,
  body: { events: ParsedEvent[] } | ScannedBody,
  key: string | undefined,
): Buffer {
  if (isVerbatim(raw, body, key)) return raw
  return Buffer.from(rewriteBatch(raw, body instanceof ScannedBody ? JSON.parse(raw.toString()).events : body.events))
}

/**
 * Whether the body can be stored verbatim; if so, overwrites its key. An unknown field could hold the key as well, even
 * escaped.
 */
function isVerbatim(raw: Buffer, body: object, key: string | undefined): body is ScannedBody {
  if (!(body instanceof ScannedBody)) return false
  body.overwriteKey(raw)
  return !body.hasOthers || key === undefined || !(raw.includes(key) || raw.includes('\\'))
}

/** An entry cannot be rewritten, because it is not in the form that the service writes; for example, it is damaged. */
export class EntryError extends Error {
  override readonly name = 'EntryError'
  /** may quote the entry, so it must not be logged */
  readonly reason: string

  constructor(error: unknown) {
    super('The entry holds no events.')
    this.reason = `The entry holds no events: ${error instanceof Error ? error.message : 'it cannot be read'}`
  }
}

/**
 * Rewrites an entry that ClickHouse refused into one that it reads as `JSON.parse` does: the contract's fields only,
 * each once, and the properties as a string that holds their exact text.
 * @param body JSON `{"events":[…]}`
 * @throws EntryError if the body is anything else
 */
export function rewriteEntry(body: Buffer): Buffer {
  try {
    return Buffer.from(rewriteBatch(body, (JSON.parse(body.toString()) as { events: ParsedEvent[] }).events))
  } catch (error) {
    throw new EntryError(error)
  }
}

/**
 * Replaces an event that must not be stored, so that the following events keep their indexes, and so their ids. No
 * accepted event looks like this.
 */
export const ERASED_EVENT = '{"event":"","distinct_id":""}'

/**
 * Finds the indexes of an entry's events that were erased.
 * @param body JSON, valid or not; nothing can have been erased from one that is not an entry
 */
export function findErasedIndexes(body: Buffer): number[] {
  // Few entries have any, so most need not be parsed.
  if (!body.includes(ERASED_EVENT)) return []
  return readEvents(body).flatMap(({ text }, index) => (text === ERASED_EVENT ? [index] : []))
}

/** Replaces the skipped events of an entry, so that it can be stored as a dead letter without their indexes. */
export function eraseSkipped(body: Buffer, skip: readonly number[]): Buffer {
  const events = readEvents(body)
  if (events.length === 0) return body
  const skipped = new Set(skip)
  const texts = events.map(({ text }, i) => (skipped.has(i) ? ERASED_EVENT : text))
  return Buffer.from(`{"events":[${texts}]}`)
}

/** The events of an entry; none if the body is no entry. */
function readEvents(body: Buffer): JsonValue[] {
  return readJson(body)?.member('events')?.elements() ?? []
}

function rewriteBatch(raw: Buffer, events: readonly ParsedEvent[]): string {
  const texts = readEvents(raw)
  return `{"events":[${events.map((event, i) => rewriteEvent(texts[i], event))}]}`
}

function rewriteEvent(
  text: JsonValue | null | undefined,
  { event, distinct_id, timestamp, insert_id, session_id, properties }: ParsedEvent,
): string {
  const ids = { ...(insert_id && { insert_id }), ...(session_id && { session_id }) }
  const known = { event, distinct_id, timestamp: timestamp ?? null, ...ids }
  const exact = typeof properties === 'string' ? properties : properties ? text?.member('properties')?.text : '{}'
  return `${JSON.stringify(known).slice(0, -1)},"properties":${JSON.stringify(exact)}}`
}

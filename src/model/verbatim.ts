import type { GivenContext } from '../contract/context.js'
import { isAt, space } from '../json/tokens.js'
import { type JsonValue, readJson } from '../json/value.js'
import { CONTEXT_START, type RequestContext, toRequestContext } from './request-context.js'
import { BATCH_HEAD, BATCH_TAIL, CONTEXTS_HEAD, findHead, OFFSETS_PER_EVENT, ScannedBody } from './scanned-body.js'

/** A validated event; null fields count as absent. */
export interface ParsedEvent {
  event: string
  distinct_id: string
  timestamp?: number | null
  insert_id?: string | null
  session_id?: string | null
  /** valid if it is used */
  context?: GivenContext | null
  /**
   * a string only in an event that was rewritten before: the exact JSON of its properties, which no client can send as
   * one
   */
  properties?: object | string | null
}

/** A tracking body that was parsed and validated, unlike a `ScannedBody`. */
export interface ParsedBody {
  /** whether it is `{"events":[…]}`, not a single event */
  isBatch: boolean
  /** number of events */
  count: number
  events: readonly ParsedEvent[]
}

/**
 * The context to store events with: each event's own, that of the request, or none. Only secret keys may send events
 * with contexts.
 */
export type EventContexts = 'own' | RequestContext | null

/**
 * The bytes of a tracking body to store: the client's own, with its key overwritten, if a scan found nothing unusual in
 * them. ClickHouse matches field names byte by byte and rejects duplicates, so every other body is rewritten.
 * @param raw valid JSON; may be modified
 * @param key of the request, which must not be stored; absent if it has none
 */
export function keepVerbatim(
  raw: Buffer,
  body: ScannedBody | ParsedBody,
  key: string | undefined,
  contexts: EventContexts,
): Buffer {
  return body.isBatch ? keepBatch(raw, body, key, contexts) : keepEvent(raw, body, key, contexts)
}

function keepEvent(
  raw: Buffer,
  body: ScannedBody | ParsedBody,
  key: string | undefined,
  contexts: EventContexts,
): Buffer {
  if (isVerbatim(raw, body, key) && !body.hasContexts) {
    if (contexts === 'own' || contexts === null) return raw
    const rest = space(raw, 0) + 1
    const event = Buffer.allocUnsafe(contexts.head.length + raw.length - rest)
    raw.copy(event, contexts.head.copy(event), rest)
    return event
  }
  const parsed = body instanceof ScannedBody ? JSON.parse(raw.toString()) : body.events[0]
  return Buffer.from(rewriteEvent(readJson(raw), parsed, contexts))
}

function keepBatch(
  raw: Buffer,
  body: ScannedBody | ParsedBody,
  key: string | undefined,
  contexts: EventContexts,
): Buffer {
  if (isVerbatim(raw, body, key)) {
    if (contexts === 'own') return body.hasContexts ? Buffer.concat([SPACE, raw]) : raw
    if (!body.hasContexts) return contexts === null ? raw : withContext(raw, body, contexts)
  }
  const events = body instanceof ScannedBody ? JSON.parse(raw.toString()).events : body.events
  return Buffer.from(rewriteBatch(raw, events, contexts))
}

/** Turns the body into an entry; see `mayHaveContexts`. */
const SPACE = Buffer.from(' ')
const COMMA = Buffer.from(',')

/** Copies the events of a batch, and gives each the context of the request. */
function withContext(raw: Buffer, { count, offsets }: ScannedBody, { head }: RequestContext): Buffer {
  const spans = offsets ?? findSpan(raw)
  let length = CONTEXTS_HEAD.length + count * head.length + BATCH_TAIL.length - COMMA.length
  for (let i = 0; i < count; i++)
    length += (spans[i * OFFSETS_PER_EVENT + 1] ?? 0) - (spans[i * OFFSETS_PER_EVENT] ?? 0)
  const entry = Buffer.allocUnsafe(length)
  let at = CONTEXTS_HEAD.copy(entry)
  for (let i = 0; i < count; i++) {
    if (i > 0) at += COMMA.copy(entry, at)
    at += head.copy(entry, at)
    at += raw.copy(entry, at, (spans[i * OFFSETS_PER_EVENT] ?? 0) + 1, spans[i * OFFSETS_PER_EVENT + 1])
  }
  BATCH_TAIL.copy(entry, at)
  return entry
}

/** The start and end of the only event of a batch. */
function findSpan(raw: Buffer): number[] {
  const [event] = readEvents(raw)
  if (!event) throw new RangeError('a batch has at least one event')
  return [event.start, event.end]
}

/** Whether an event begins with a context. */
export function startsWithContext(event: Buffer): boolean {
  return isAt(event, 0, CONTEXT_START)
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
    return Buffer.from(rewriteBatch(body, (JSON.parse(body.toString()) as { events: ParsedEvent[] }).events, 'own'))
  } catch (error) {
    throw new EntryError(error)
  }
}

/**
 * Replaces an event that must not be stored, so that the following events keep their indexes, and so their ids. No
 * valid event looks like this.
 */
export const ERASED_EVENT = '{"event":"","distinct_id":""}'

/**
 * Finds the indexes of an entry's events that were erased.
 * @param body JSON, valid or not; if it is not an entry, no event can have been erased from it
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
  return Buffer.from(`${findHead(body)}${texts}${BATCH_TAIL}`)
}

/** The events of an entry; none if the body is not an entry. */
function readEvents(body: Buffer): JsonValue[] {
  return readJson(body)?.member('events')?.elements() ?? []
}

function rewriteBatch(raw: Buffer, events: readonly ParsedEvent[], contexts: EventContexts): string {
  const texts = readEvents(raw)
  return formatEntry(events.map((event, i) => rewriteEvent(texts[i], event, contexts)))
}

/** An entry of these events. */
export function formatEntry(events: readonly string[]): string {
  const start = CONTEXT_START.toString()
  const head = events.some((event) => event.startsWith(start)) ? CONTEXTS_HEAD : BATCH_HEAD
  return `${head}${events}${BATCH_TAIL}`
}

function rewriteEvent(
  text: JsonValue | null | undefined,
  { event, distinct_id, timestamp, insert_id, session_id, context, properties }: ParsedEvent,
  contexts: EventContexts,
): string {
  const stored = contexts === 'own' ? context && toRequestContext(context) : contexts
  const ids = { ...(insert_id && { insert_id }), ...(session_id && { session_id }) }
  // The context comes first, because that is where `startsWithContext` looks for it.
  const first = stored ? { context: stored.value } : {}
  const known = { ...first, event, distinct_id, timestamp: timestamp ?? null, ...ids }
  const exact = typeof properties === 'string' ? properties : properties ? text?.member('properties')?.text : '{}'
  return `${JSON.stringify(known).slice(0, -1)},"properties":${JSON.stringify(exact)}}`
}

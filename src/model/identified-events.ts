import { BACKSLASH, QUOTE } from '../json/bytes.js'
import { readJson } from '../json/value.js'
import { findInsertIdLane, hasInsertId, INSERT_ID_BYTES, writeInsertId } from './insert-id.js'
import { type EventIds, type IdempotencyKey, makeRequestIds, type RequestIds } from './request-ids.js'
import { BATCH_TAIL, findHead, OFFSETS_PER_EVENT, ScannedBody } from './scanned-body.js'
import type { ParsedBody, ParsedEvent } from './verbatim.js'

/**
 * The ids of a request.
 * @param key of the request
 * @param raw the body that was scanned, or parsed
 */
export function readRequestIds(
  projectId: string,
  key: IdempotencyKey | null,
  raw: Buffer,
  body: ScannedBody | ParsedBody,
): RequestIds {
  if (!(body instanceof ScannedBody)) return makeRequestIds(key, digestIds(projectId, body.events))
  const { offsets, count, hasIds } = body
  if (!hasIds || !offsets) return makeRequestIds(key, null)
  const digests = Buffer.alloc(count * INSERT_ID_BYTES)
  const spans = new Uint32Array(2 * count)
  for (let i = 0; i < count; i++) {
    const slot = i * OFFSETS_PER_EVENT
    spans[2 * i] = offsets[slot] ?? 0
    spans[2 * i + 1] = offsets[slot + 1] ?? 0
    const user = offsets[slot + 2] ?? 0
    const id = offsets[slot + 3] ?? 0
    if (id !== 0) writeInsertId(digests, i, { projectId, distinctId: textAt(raw, user), insertId: textAt(raw, id) })
  }
  return makeRequestIds(key, digests, spans)
}

/** The digests of the ids of events, see `EventIds`; null if none has one. */
export function digestIds(
  projectId: string,
  events: readonly Pick<ParsedEvent, 'distinct_id' | 'insert_id'>[],
): Buffer | null {
  if (!events.some(({ insert_id }) => insert_id)) return null
  const digests = Buffer.alloc(events.length * INSERT_ID_BYTES)
  for (const [i, { distinct_id: distinctId, insert_id: insertId }] of events.entries()) {
    if (insertId) writeInsertId(digests, i, { projectId, distinctId, insertId })
  }
  return digests
}

/** The distinct_id of each event in a body that was scanned. */
export function readUserNames(raw: Buffer, { offsets, count, firstUser }: ScannedBody): string[] {
  if (!offsets) return [textAt(raw, firstUser)]
  return Array.from({ length: count }, (_, i) => textAt(raw, offsets[i * OFFSETS_PER_EVENT + 2] ?? 0))
}

/** The JSON string at an offset of valid JSON. */
function textAt(raw: Buffer, at: number): string {
  let end = at + 1
  let isPlain = true
  for (let byte = raw[end]; byte !== QUOTE; byte = raw[++end]) {
    if (byte !== BACKSLASH) continue
    isPlain = false
    end++
  }
  return isPlain ? raw.toString('utf8', at + 1, end) : (JSON.parse(raw.toString('utf8', at, end + 1)) as string)
}

/** The events of a batch that go to one lane. */
export interface Part {
  /** number of the lane; null for events without an id, which may go to any */
  lane: number | null
  count: number
  /** pieces of JSON `{"events":[…]}` */
  pieces: Buffer[]
  /** see `EventIds.digests`; null for events without ids */
  digests: Buffer | null
}

const COMMA = Buffer.from(',')

/** Splits a batch by the lanes that remember its ids. @param body JSON `{"events":[…]}` */
export function splitByLane(body: Buffer, { digests, spans }: EventIds, lanes: number): Part[] {
  const events = spans ?? spansIn(body)
  const head = findHead(body)
  const parts = new Map<number | null, Part & { ids: Buffer[] }>()
  for (let i = 0; i * INSERT_ID_BYTES < digests.length; i++) {
    const lane = hasInsertId(digests, i) ? findInsertIdLane(digests, i, lanes) : null
    let part = parts.get(lane)
    if (!part) {
      part = { lane, count: 0, pieces: [], digests: null, ids: [] }
      parts.set(lane, part)
    }
    part.pieces.push(part.count++ === 0 ? head : COMMA, body.subarray(events[2 * i], events[2 * i + 1]))
    if (lane !== null) part.ids.push(digests.subarray(i * INSERT_ID_BYTES, (i + 1) * INSERT_ID_BYTES))
  }
  return [...parts.values()].map(({ ids, ...part }) => {
    part.pieces.push(BATCH_TAIL)
    return { ...part, digests: part.lane === null ? null : Buffer.concat(ids) }
  })
}

/** The fields that identify an event of a request. */
export interface NamedEvent {
  /** index in the request */
  index: number
  distinctId: string
  insertId: string
  /** epoch ms; null if the event has none */
  timestamp: number | null
}

/** The events of a batch that have an id. @param body JSON `{"events":[…]}` */
export function listNamedEvents(body: Buffer, { digests, spans }: EventIds): NamedEvent[] {
  const events = spans ?? spansIn(body)
  const named: NamedEvent[] = []
  for (let index = 0; index * INSERT_ID_BYTES < digests.length; index++) {
    if (!hasInsertId(digests, index)) continue
    const event = readJson(body.subarray(events[2 * index], events[2 * index + 1]))
    const read = (field: string) => event?.member(field)?.value ?? null
    named.push({
      index,
      distinctId: read('distinct_id') as string,
      insertId: read('insert_id') as string,
      timestamp: read('timestamp') as number | null,
    })
  }
  return named
}

/**
 * A batch without some of its events. At least one has to remain.
 * @param body JSON `{"events":[…]}`
 * @param left indexes of the events to leave out
 */
export function withoutEvents(
  body: Buffer,
  sent: EventIds,
  left: ReadonlySet<number>,
): { body: Buffer; ids: EventIds } {
  const { digests, spans } = sent
  const events = spans ?? spansIn(body)
  const head = findHead(body)
  const pieces: Buffer[] = []
  const own: Buffer[] = []
  for (let i = 0; i * INSERT_ID_BYTES < digests.length; i++) {
    if (left.has(i)) continue
    pieces.push(pieces.length === 0 ? head : COMMA, body.subarray(events[2 * i], events[2 * i + 1]))
    own.push(digests.subarray(i * INSERT_ID_BYTES, (i + 1) * INSERT_ID_BYTES))
  }
  const ids = { ...sent, digests: Buffer.concat(own), spans: null }
  return { body: Buffer.concat([...pieces, BATCH_TAIL]), ids }
}

function spansIn(body: Buffer): Uint32Array {
  const events = readJson(body)?.member('events')?.elements() ?? []
  return Uint32Array.from(events.flatMap(({ start, end }) => [start, end]))
}

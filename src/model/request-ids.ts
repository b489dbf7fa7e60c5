/** Identifies a request that may be repeated. Keys are counted and limited per sender. */
export interface IdempotencyKey {
  /** SHA-256 of sender and `Idempotency-Key`, hexadecimal */
  key: string
  /** SHA-256 of the route and the body, hexadecimal: tells a repetition from another request with the same key */
  fingerprint: string
}

/** The ids of a request that has an `Idempotency-Key`, and whose events have no ids. */
export interface KeyIds {
  kind: 'request'
  key: IdempotencyKey
}

/** The ids of a request whose events have `insert_id`s. */
export interface EventIds {
  kind: 'events'
  /** INSERT_ID_BYTES for each event, NO_INSERT_ID for one without an id */
  digests: Buffer
  /** start and end of each event in the body, in bytes; null if they are not known */
  spans: Uint32Array | null
  /** of the request; null if it has none */
  key: IdempotencyKey | null
}

/**
 * The ids by which a repetition is recognised. They are read once from each request, and passed on as they are until
 * the journal looks them up and remembers them.
 */
export type RequestIds = { kind: 'none' } | KeyIds | EventIds

/** The ids of requests without any. */
export const NO_IDS: RequestIds = { kind: 'none' }

/** The ids of an entry: of its request, or the key of the request of each event that shares it. */
export type EntryIds = RequestIds | { kind: 'shared'; keys: IdempotencyKey[] }

/** @param digests see `EventIds` */
export function makeRequestIds(
  key: IdempotencyKey | null,
  digests: Buffer | null,
  spans: Uint32Array | null = null,
): RequestIds {
  if (digests) return { kind: 'events', digests, spans, key }
  return key ? { kind: 'request', key } : NO_IDS
}

/** The key of the whole request or entry. */
export function findKey(ids: EntryIds): IdempotencyKey | null {
  return ids.kind === 'request' || ids.kind === 'events' ? ids.key : null
}

/** See `EventIds`. */
export function findDigests(ids: EntryIds): Buffer | null {
  return ids.kind === 'events' ? ids.digests : null
}

import type { TSchema } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { BatchBody, IdentifyBody, ProfileBody } from '../contract/schemas.js'
import { MAX_WARNINGS, pointerPart, type Warning } from '../contract/warning.js'
import { createNearestFinder } from '../lib/nearest.js'
import { findOtherFields, type OtherField } from '../model/other-fields.js'
import { ScannedBody } from '../model/scanned-body.js'

/** How much of a batch with unknown fields is searched. They are usually in the first events. */
const LIMITS = { fields: MAX_WARNINGS, events: 100, bytes: 1024 * 1024 }
/** Maximum number of characters shown of a field's name; no name in the contract is longer. */
const MAX_SHOWN = 255

/** The fields of an object, and how to warn about others. */
interface Known {
  names: ReadonlySet<string>
  /** names that clients of other services use for these fields, in lower case and without punctuation */
  synonyms: Readonly<Record<string, string>>
  nearest: (given: string) => string | undefined
  /** what to do with a field that resembles none of them */
  advice: string
}

const USER = synonyms('distinct_id', 'user', 'userid', 'uid', 'anonymousid', 'visitorid', 'profileid', 'customerid')
const KEY = synonyms('apiKey', 'key', 'secretkey', 'token', 'writekey')
const OWN_DATA = [
  'props',
  'traits',
  'attributes',
  'params',
  'parameters',
  'data',
  'payload',
  'custom',
  'fields',
  'meta',
]
const PROPERTIES = synonyms(
  'properties',
  ...OWN_DATA,
  'metadata',
  'eventproperties',
  'userproperties',
  'customproperties',
)

const EVENT = listKnown(BatchBody.properties.events.items, {
  advice: 'Put your own data into properties.',
  synonyms: {
    ...USER,
    ...PROPERTIES,
    ...synonyms('event', 'name', 'type', 'eventname', 'eventtype', 'action'),
    ...synonyms('timestamp', 'time', 'ts', 'date', 'datetime', 'at', 'createdat', 'occurredat', 'sentat', 'eventtime'),
    ...synonyms('session_id', 'session', 'sessionid', 'sid', 'visitid'),
    ...synonyms('insert_id', 'messageid', 'eventid', 'uuid', 'dedupid', 'idempotencykey'),
  },
})
/** The fields that an event may have with a browser key, which may not set the context. */
const { context: _, ...OF_PAGE } = BatchBody.properties.events.items.properties
const PAGE_EVENT: Known = {
  ...EVENT,
  names: new Set(Object.keys(OF_PAGE)),
  nearest: createNearestFinder(Object.keys(OF_PAGE)),
}
const BATCH = listKnown(BatchBody, { advice: 'A batch only has events. Put fields into each event.', synonyms: KEY })
const IDENTIFY = listKnown(IdentifyBody, {
  advice: 'Put your own data into properties.',
  synonyms: { ...KEY, ...USER, ...PROPERTIES },
})
const PROFILE = listKnown(ProfileBody, {
  advice: 'Put changes into operations.',
  synonyms: {
    ...KEY,
    ...USER,
    ...synonyms('operations', ...OWN_DATA, 'properties', 'userproperties', 'ops', 'operation', 'changes', 'update'),
    ...synonyms('operations', 'set', 'add', 'append', 'setonce', 'unset', 'prepend', 'union', 'remove', 'increment'),
  },
})

/** Fields that an event may have without a warning: its id from an export, and the key from a single-event body. */
const IGNORED = new Set(['eventId', 'apiKey'])

/** The member `warnings` of a response; nothing if there are none, so that the response does not change. */
export function withWarnings(warnings: Warning[]): { warnings?: Warning[] } {
  return warnings.length > 0 ? { warnings } : {}
}

/** Warns of the fields of a body that `/users/identify` ignores. */
export function identifyWarnings({ body, key }: FastifyRequest): Warning[] {
  return formatWarnings(listUnknownFields(body as object, null, IDENTIFY.names), key, () => IDENTIFY)
}

/** Warns of the fields of a body that `/users/profile` ignores. */
export function profileWarnings({ body, key }: FastifyRequest): Warning[] {
  return formatWarnings(listUnknownFields(body as object, null, PROFILE.names), key, () => PROFILE)
}

/**
 * Warns of the ignored fields of a batch and of its events; in a large batch, only of those in the first events. Costs
 * nothing if the scan has found no unknown field. Call it while `rawBody` still belongs to the request.
 */
export function batchWarnings({ body, key, keyKind, rawBody }: FastifyRequest): Warning[] {
  const known = keyKind === 'secret' ? EVENT : PAGE_EVENT
  const knownAt = ({ event }: Pick<OtherField, 'event'>) => (event === null ? BATCH : known)
  if (!(body instanceof ScannedBody)) {
    return formatWarnings(fieldsInBatch(body as { events: object[] }, known), key, knownAt)
  }
  if (!body.hasOthers && !(body.hasContexts && known === PAGE_EVENT)) return []
  const isKnown = (field: OtherField) => isIgnored(field) || knownAt(field).names.has(field.name)
  return formatWarnings(findOtherFields(rawBody, 'batch', isKnown, LIMITS), key, knownAt)
}

/**
 * Warns of the ignored fields of a single event. Costs nothing if the scan has found no unknown field. Call it while
 * `rawBody` still belongs to the request.
 */
export function eventWarnings({ body, key, rawBody }: FastifyRequest): Warning[] {
  if (!(body instanceof ScannedBody)) {
    return formatWarnings(listUnknownFields(body as object, 0, EVENT.names), key, () => EVENT)
  }
  if (!body.hasOthers) return []
  const isKnown = (field: OtherField) => isIgnored(field) || EVENT.names.has(field.name)
  return formatWarnings(findOtherFields(rawBody, 'event', isKnown, LIMITS), key, () => EVENT)
}

function fieldsInBatch(body: { events: object[] }, { names }: Known): OtherField[] {
  const found = listUnknownFields(body, null, BATCH.names)
  for (const [index, event] of body.events.entries()) {
    if (found.length >= LIMITS.fields) break
    found.push(...listUnknownFields(event, index, names))
  }
  return found
}

function listUnknownFields(body: object, event: number | null, names: ReadonlySet<string>): OtherField[] {
  return Object.entries(body)
    .filter(([name, value]) => value !== null && !names.has(name))
    .map(([name]) => ({ event, name }))
    .filter((field) => !isIgnored(field))
}

function isIgnored({ event, name }: OtherField): boolean {
  return event !== null && IGNORED.has(name)
}

/** @param key of the request, which no response repeats */
function formatWarnings(
  fields: OtherField[],
  key: string | undefined,
  knownAt: (field: OtherField) => Known,
): Warning[] {
  return fields
    .filter(({ name }) => key === undefined || !name.includes(key))
    .slice(0, MAX_WARNINGS)
    .map((field) => {
      const { synonyms, nearest, advice } = knownAt(field)
      const shown = shorten(field.name)
      const plain = normalizeName(shown)
      const meant = Object.hasOwn(synonyms, plain) ? synonyms[plain] : nearest(shown)
      const path = `${field.event === null ? '' : `/events/${field.event}`}/${pointerPart(shown)}`
      return { path, message: `The field ${shown} is ignored. ${meant ? `Did you mean ${meant}?` : advice}` }
    })
}

function normalizeName(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '')
}

function shorten(name: string): string {
  const characters = [...name.slice(0, 2 * MAX_SHOWN)]
  const isCut = name.length > 2 * MAX_SHOWN || characters.length > MAX_SHOWN
  return isCut ? `${characters.slice(0, MAX_SHOWN).join('')}…` : name
}

function listKnown(schema: TSchema, more: Pick<Known, 'synonyms' | 'advice'>): Known {
  const names = Object.keys(schema.properties)
  return { names: new Set(names), nearest: createNearestFinder(names), ...more }
}

function synonyms(meant: string, ...names: string[]): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, meant]))
}

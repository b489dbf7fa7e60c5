import { MAX_TIMESTAMP } from '../contract/limits.js'
import { ANONYMOUS, groupName } from '../contract/user-names.js'
import { elementTexts, isArray, memberTexts } from '../json/texts.js'
import type { JsonValue } from '../json/value.js'
import type { MessageSource } from '../model/request-context.js'
import {
  type Decoded,
  decodeEach,
  makeAlias,
  makeInsertId,
  readAddress,
  readSessionId,
  type SdkMessage,
  type SdkRequest,
  withoutKey,
} from './message.js'
import { EMPTY_ROW, FieldFault, JsonRow, NoEvent, objectText, RowFault, toSetOperations, withRest } from './row.js'
import { parseDecimal, toMilliseconds } from './time.js'
import { lastKnown, type Origin, readTimestamp, type Vendor } from './vendor.js'

/**
 * PostHog's batch export of the model `events`, as JSON lines or as CSV with the same columns. Properties are an
 * object, or a string that holds one. A row of the model `persons` has no event and is a profile.
 * https://posthog.com/docs/cdp/batch-exports
 */
export const posthog: Vendor = {
  messages: (row, options) => (isPerson(row) ? [toProfile(row)] : decode(row, { ...options })),
}

function isPerson(row: JsonRow): boolean {
  return row.has('distinct_id') && !row.has('event') && (row.has('properties') || row.has('is_deleted'))
}

/** Converts a profile; the export only has the time of its creation. */
function toProfile(row: JsonRow): Decoded {
  const distinctId = row.readNonEmpty('distinct_id')
  if (distinctId === undefined) throw new RowFault('The row names no user.')
  if (DELETED.has(row.readText('is_deleted') ?? '')) throw new NoEvent('The person was deleted.')
  const operations = toSetOperations(row.readObject('properties', true))
  return { type: 'change', distinctId, operations, insertId: undefined, time: lastKnown(row.readText('created_at')) }
}

/** Spellings of true in exports. */
const DELETED = new Set(['true', '1', '"true"', '"True"', '"TRUE"', '"t"', '"1"'])

/** Libraries that repeat a request with its original `sent_at`, so it must not correct their clocks. */
const SERVER_LIBRARY = /^posthog-(?:node|edge|python|ruby|php|go|java|dotnet|elixir|rust)(?:\/|$)/
/** Pattern of a key of this service. */
const KEY = /^[a-z]{2}_[\w-]{43}$/
/** Fields of a captured event that are stored separately, or contain the key. */
const PLACED = ['event', 'distinct_id', 'properties', 'api_key', 'token']

/**
 * Decodes a request of PostHog's SDKs: an envelope with a batch, an array of events, or one event.
 * @throws RowFault if it is none of them
 */
export function posthogMessages(json: JsonValue, request: SdkRequest): SdkMessage[] {
  const envelope = json.isArray ? undefined : new JsonRow(json)
  const batch = envelope ? envelope.readElements('batch') : json.elements()
  if (batch === null) throw new RowFault('The batch is not an array.')
  const sentAt = readSentAt(envelope, request)
  // If the request has its own key, an event may have an ordinary property called token.
  const hasOwnKey = envelope !== undefined && (batch !== undefined || envelope.has('api_key'))
  return decodeEach(batch ?? [json], request, (row) => {
    const inner = row.readNestedRow('properties') ?? EMPTY_ROW
    for (const each of [row.value('api_key'), row.value('token'), inner.value('token')]) {
      refuseForeign(each, request, hasOwnKey)
    }
    return decode(row, { request, sentAt: isUncorrected(row, inner, request) ? null : sentAt })
  })
}

/** Removes the request's key, and any other key of the same project. */
function withoutKeys(inner: JsonRow, token: unknown, { key, isOwnKey }: SdkRequest): string {
  return withoutKey(inner.text, typeof token === 'string' && isOwnKey?.(token) ? token : key)
}

/** @throws RowFault if an event with this token is for a project other than the request's */
function refuseForeign(token: unknown, { key, isOwnKey }: SdkRequest, hasOwnKey: boolean): void {
  if (typeof token !== 'string' || token === '' || token === key || isOwnKey?.(token)) return
  if (!hasOwnKey || KEY.test(token)) throw new RowFault('The token belongs to another project.')
}

function decode(row: JsonRow, origin: Origin): Decoded[] {
  const { request } = origin
  const inner = row.readNestedRow('properties', request === undefined || row.isTable) ?? EMPTY_ROW
  const event = row.value('event')
  const user = row.readNonEmpty('distinct_id') ?? inner.readNonEmpty('distinct_id')
  // PostHog refuses events without a user, but the rows of some other products have the same names for the rest.
  if (user === undefined && !request) throw new RowFault('The row has no distinct_id, unlike events of PostHog.')
  const distinctId = user ?? ANONYMOUS
  const insertId = findInsertId(row, inner)
  const time = readTimestamp(timeIn(row, origin), origin, 'none')
  const own = request ? withoutKeys(inner, inner.value('token'), request) : inner.text
  const properties = withRest(row, own, '$posthog', PLACED)
  // PostHog's newer SDK for Node moves it out of the properties.
  const session_id = readSessionId(inner, '$session_id') ?? readSessionId(row, 'session_id')
  const parts = { event, distinct_id: distinctId, timestamp: String(time), properties, session_id }
  const messages: Decoded[] = [{ type: 'event', parts, insertId, ...(request && { source: findSource(inner) }) }]
  const operations = readOperations(row, inner, origin)
  const isIdentify = event === '$identify'
  const isChange = operations.length > 0 || isIdentify
  if (isChange && distinctId !== ANONYMOUS && hasProfile(row, inner)) {
    messages.push({ type: 'change', distinctId, identifies: isIdentify, operations, insertId, time })
  }
  if (event === '$groupidentify') messages.push(...groupChanges(inner, insertId, time))
  if (isIdentify) messages.push(...makeAlias(distinctId, inner.readNonEmpty('$anon_distinct_id'), 'inferred'))
  if (event === '$create_alias') messages.push(...makeAlias(distinctId, inner.readNonEmpty('alias'), 'said'))
  if (event === '$merge_dangerously') messages.push(...makeAlias(distinctId, inner.readNonEmpty('alias'), 'merge'))
  return messages
}

/**
 * Finds the id that the SDK assigned. posthog-js up to 1.63 only has it in the properties, and posthog-python 1 and
 * posthog-ruby up to 2.10 use Segment's name for it. All others send a `uuid`, which PostHog keeps.
 */
function findInsertId(row: JsonRow, inner: JsonRow): string | undefined {
  const id = row.readNonEmpty('uuid') ?? inner.readNonEmpty('$insert_id') ?? row.readNonEmpty('messageId')
  return id === undefined ? undefined : makeInsertId(id)
}

/** Makes the changes of an event to the profile of its group. */
function groupChanges(inner: JsonRow, insertId: string | undefined, time: number): Decoded[] {
  const [type, key] = [inner.readNonEmpty('$group_type'), inner.readNonEmpty('$group_key')]
  if (type === undefined || key === undefined) return []
  const operations = toSetOperations(inner.readObject('$group_set'))
  return [{ type: 'change', distinctId: groupName(type, key), isGroup: true, operations, insertId, time }]
}

/** Reads an event's operations on the profile. A member of its properties takes precedence over one next to them. */
function readOperations(row: JsonRow, inner: JsonRow, { request }: Origin): string[] {
  const operations: [string, string][] = []
  for (const name of ['$set', '$set_once']) {
    // An export has columns of these names, too.
    const column = request ? undefined : row.readObject(name.slice(1), true)
    const given = [column, row.readObject(name), inner.readObject(name)].filter((text) => text !== undefined)
    // Hardly any message has one, and a Map is slow to create.
    if (given.length === 0) continue
    const merged = new Map(given.flatMap((text) => [...memberTexts(text)]))
    if (merged.size > 0) operations.push([name, objectText([...merged])])
  }
  const unset = namesIn(inner.readText('$unset') ?? row.readText('$unset'))
  if (unset !== undefined) operations.push(['$unset', unset])
  return operations.length === 0 ? [] : [objectText(operations)]
}

/** Returns the text of a list of names, which may also be given as an object's members; undefined if there are none. */
function namesIn(text = '[]'): string | undefined {
  if (isArray(text)) return elementTexts(text).length === 0 ? undefined : text
  if (text.startsWith('{')) return JSON.stringify([...memberTexts(text).keys()])
  throw new FieldFault('The $unset is not a list of names.', '$unset')
}

/** What an event says about its sender. */
function findSource(inner: JsonRow): MessageSource {
  const isPlaceless = inner.value('$geoip_disable') === true
  return {
    userAgent: inner.readNonEmpty('$raw_user_agent'),
    address: isPlaceless ? null : readAddress(inner.value('$ip')),
    timezone: isPlaceless ? undefined : inner.readNonEmpty('$timezone'),
    language: inner.readNonEmpty('$browser_language'),
  }
}

function hasProfile(row: JsonRow, inner: JsonRow): boolean {
  return inner.value('$process_person_profile') !== false && readOption(row, 'process_person_profile') !== false
}

/** Reads an option of an event. PostHog's newer SDK for Node moves some properties to these. */
function readOption(row: JsonRow, name: string): unknown {
  return row.readNestedRow('options')?.value(name)
}

/**
 * Returns the text of the event's time. `offset` is how long before the request the event happened, in ms.
 * @throws FieldFault if the offset is needed and not a number
 */
function timeIn(row: JsonRow, { request, sentAt }: Origin): string | undefined {
  const timestamp = row.readText('timestamp')
  const offset = row.readText('offset')
  if (timestamp !== undefined || offset === undefined || !request) return timestamp
  const ms = parseDecimal(offset)
  const at = ms === null ? null : Math.round((sentAt ?? request.receivedAt) - ms)
  if (at !== null && at >= 0 && at <= MAX_TIMESTAMP) return `"${new Date(at).toISOString()}"`
  throw new FieldFault(`The offset ${offset.slice(0, 100)} is not a number of milliseconds.`, 'offset')
}

/** Whether the time of the request must not correct the event's clock. */
function isUncorrected(row: JsonRow, inner: JsonRow, { header }: SdkRequest): boolean {
  return (
    inner.value('$is_server') === true ||
    inner.value('$ignore_sent_at') === true ||
    readOption(row, 'disable_skew_correction') === true ||
    readOption(row, 'is_server') === true ||
    [inner.value('$lib'), row.value('library'), header('posthog-sdk-info')].some(
      (library) => typeof library === 'string' && SERVER_LIBRARY.test(library),
    )
  )
}

/** Reads when the SDK sent the request, in epoch ms: from the envelope, a header, or the query. */
function readSentAt(envelope: JsonRow | undefined, { header, fields }: SdkRequest): number | null {
  const text = envelope?.value('sent_at') ?? header('posthog-request-timestamp')
  if (typeof text === 'string') return toMilliseconds(text, 'iso')
  return toMilliseconds(fields.get('_') ?? fields.get('sent_at') ?? '', 'ms')
}

import { memberTexts } from '../json/spans.js'
import type { JsonValue } from '../json/value.js'
import { ANONYMOUS, groupName } from '../model/user-names.js'
import { insertIdOf, messagesOfEach, type SdkMessage, type SdkRequest, withoutKey } from './message.js'
import {
  EMPTY_ROW,
  isEmpty,
  JsonRow,
  objectText,
  profileChange,
  RowFault,
  timestampText,
  unquoted,
  type Vendor,
  withRest,
} from './row.js'
import { sdkTime, toMilliseconds } from './time.js'

/**
 * PostHog's batch export of the model `events`, as JSON lines or as CSV with the same columns. Properties are an object,
 * or a string that holds one. A row of the model `persons` has no event and is a profile.
 * https://posthog.com/docs/cdp/batch-exports
 */
export const posthog: Vendor = {
  time: 'iso',
  parts(row, time) {
    return {
      event: row.value('event'),
      distinct_id: row.nameOf('distinct_id'),
      timestamp: timestampText(row.requiredText('timestamp'), time),
      properties: withRest(row, unquoted(row.textOf('properties')), '$posthog', ['event', 'distinct_id', 'properties']),
    }
  },
  isProfile: (row) => row.has('distinct_id') && !row.has('event') && row.has('properties'),
  profile(row) {
    if (!this.isProfile(row)) return undefined
    return profileChange(row.nameOf('distinct_id'), unquoted(row.textOf('properties')))
  },
}

/** Libraries that repeat a request with its first `sent_at`, however late: their clocks are not corrected by it. */
const SERVER_LIBRARY = /^posthog-(?:node|edge|python|ruby|php|go|java|dotnet|elixir|rust)(?:\/|$)/
/** What a key of this service looks like. */
const KEY = /^[a-z]{2}_[\w-]{43}$/
/** Fields of a captured event that have a place of their own, or hold the key. */
const PLACED = ['event', 'distinct_id', 'properties', 'api_key', 'token']

/**
 * The messages of a request of PostHog's SDKs: an envelope with a batch, an array of events, or one event.
 * @throws RowFault if it is none of them
 */
export function posthogMessages(json: JsonValue, request: SdkRequest): SdkMessage[] {
  const envelope = json.isArray ? undefined : new JsonRow(json)
  const batch = envelope ? envelope.elementsOf('batch') : json.elements()
  if (batch === null) throw new RowFault('The batch is not an array.')
  const sentAt = sentAtOf(envelope, request)
  // Beside a key of the request's own, an event may have a property of its own that is called token.
  const hasOwnKey = envelope !== undefined && (batch !== undefined || envelope.has('api_key'))
  return messagesOfEach(batch ?? [json], request, (row) => messagesIn(row, request, sentAt, hasOwnKey))
}

/** Without the request's key, and without another one of the same project. */
function withoutKeys(inner: JsonRow, token: unknown, { key, isOwnKey }: SdkRequest): string {
  return withoutKey(inner.text, typeof token === 'string' && isOwnKey?.(token) ? token : key)
}

/** @throws RowFault if an event with this token is for another project than the request */
function refuseForeign(token: unknown, { key, isOwnKey }: SdkRequest, hasOwnKey: boolean): void {
  if (typeof token !== 'string' || token === '' || token === key || isOwnKey?.(token)) return
  if (!hasOwnKey || KEY.test(token)) throw new RowFault('The token is that of another project than the request.')
}

function messagesIn(row: JsonRow, request: SdkRequest, sentAt: number | null, hasOwnKey: boolean): SdkMessage[] {
  const properties = row.rowOf('properties')
  if (properties === null) throw new RowFault("The event's properties are not an object.")
  const inner = properties ?? EMPTY_ROW
  const token = inner.value('token')
  for (const each of [row.value('api_key'), row.value('token'), token]) refuseForeign(each, request, hasOwnKey)
  const event = row.value('event')
  const distinctId = row.filled('distinct_id') ?? inner.filled('distinct_id') ?? ANONYMOUS
  const uuid = row.filled('uuid')
  const insertId = uuid === undefined ? undefined : insertIdOf(uuid)
  const timestamp = timeOf(row, inner, request, sentAt)
  const text = withRest(row, withoutKeys(inner, token, request), '$posthog', PLACED)
  const messages: SdkMessage[] = [
    {
      type: 'event',
      parts: {
        event,
        distinct_id: distinctId,
        timestamp: String(timestamp),
        properties: text,
      },
      insertId,
    },
  ]
  const operations = operationsOf(row, inner)
  const isIdentify = event === '$identify'
  if (operations.length > 0 || isIdentify) {
    if (distinctId !== ANONYMOUS && hasProfile(row, inner))
      messages.push({ type: 'change', distinctId, identifies: isIdentify, operations, insertId })
  }
  if (event === '$groupidentify') messages.push(...groupChanges(inner, insertId))
  const alias = isIdentify
    ? inner.filled('$anon_distinct_id')
    : event === '$create_alias'
      ? inner.filled('alias')
      : undefined
  const isOther = alias !== undefined && alias !== distinctId && distinctId !== ANONYMOUS
  if (isOther) messages.push({ type: 'alias', distinctId, alias, link: isIdentify ? 'inferred' : 'said' })
  return messages
}

/** What an event sets in the profile of the group that it names. */
function groupChanges(inner: JsonRow, insertId: string | undefined): SdkMessage[] {
  const [type, key] = [inner.filled('$group_type'), inner.filled('$group_key')]
  if (type === undefined || key === undefined) return []
  const set = inner.textOf('$group_set')
  const operations = set?.startsWith('{') && !isEmpty(set) ? [objectText([['$set', set]])] : []
  return [{ type: 'change', distinctId: groupName(type, key), isGroup: true, operations, insertId }]
}

/** What an event sets in the profile; a member among its properties wins over one beside them. */
function operationsOf(row: JsonRow, inner: JsonRow): string[] {
  const operations: [string, string][] = []
  for (const name of ['$set', '$set_once']) {
    const [beside, within] = [row.textOf(name), inner.textOf(name)]
    if (beside === undefined && within === undefined) continue
    const given = [beside, within].filter((text) => text?.startsWith('{'))
    const merged = new Map(given.flatMap((text) => [...memberTexts(text ?? '{}')]))
    if (merged.size > 0) operations.push([name, objectText([...merged])])
  }
  const unset = inner.textOf('$unset') ?? row.textOf('$unset')
  if (unset?.startsWith('[')) operations.push(['$unset', unset])
  return operations.length === 0 ? [] : [objectText(operations)]
}

function hasProfile(row: JsonRow, inner: JsonRow): boolean {
  return inner.value('$process_person_profile') !== false && optionOf(row, 'process_person_profile') !== false
}

/** PostHog's newer SDK for Node lifts some properties out into the options of an event. */
function optionOf(row: JsonRow, name: string): unknown {
  return row.rowOf('options')?.value(name)
}

/** `offset` says how long before the request the event happened, in ms. */
function timeOf(row: JsonRow, inner: JsonRow, request: SdkRequest, sentAt: number | null): number {
  const { receivedAt } = request
  const offset = row.value('offset')
  const timestamp = row.value('timestamp')
  const given = typeof timestamp === 'string' ? toMilliseconds(timestamp, 'iso') : null
  const time = given ?? (typeof offset === 'number' ? Math.round((sentAt ?? receivedAt) - offset) : null)
  const isCorrected = sentAt !== null && !isUncorrected(row, inner, request)
  return sdkTime(time, { sentAt: isCorrected ? sentAt : null, receivedAt })
}

/** Whether the clock that gave the event its time is not corrected by that of the request. */
function isUncorrected(row: JsonRow, inner: JsonRow, { header }: SdkRequest): boolean {
  return (
    inner.value('$is_server') === true ||
    inner.value('$ignore_sent_at') === true ||
    optionOf(row, 'disable_skew_correction') === true ||
    optionOf(row, 'is_server') === true ||
    [inner.value('$lib'), row.value('library'), header('posthog-sdk-info')].some(
      (library) => typeof library === 'string' && SERVER_LIBRARY.test(library),
    )
  )
}

/** When the SDK says that it sent the request: in the envelope, in a header, or in the query, in ms. */
function sentAtOf(envelope: JsonRow | undefined, { header, fields }: SdkRequest): number | null {
  const text = envelope?.value('sent_at') ?? header('posthog-request-timestamp')
  if (typeof text === 'string') return toMilliseconds(text, 'iso')
  return toMilliseconds(fields.get('_') ?? fields.get('sent_at') ?? '', 'ms')
}

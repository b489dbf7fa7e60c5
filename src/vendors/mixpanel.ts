import { ANONYMOUS, groupName } from '../contract/user-names.js'
import { elementTexts, isArray } from '../json/texts.js'
import type { JsonValue } from '../json/value.js'
import type { MessageSource } from '../model/request-context.js'
import {
  type Decoded,
  decodeEach,
  listMessages,
  MAX_MESSAGES,
  makeAlias,
  makeInsertId,
  readAddress,
  type SdkAlias,
  type SdkMessage,
  type SdkRequest,
  TooManyMessagesError,
  withoutKey,
  withoutRepeatedAliases,
} from './message.js'
import { EMPTY_ROW, FieldFault, type JsonRow, objectText, parseName, RowFault, toSetOperations } from './row.js'
import { lastKnown, type Origin, readTimestamp, type Vendor } from './vendor.js'

/**
 * Mixpanel. Events come from the raw export, as `{"event":…,"properties":{"time":…,"distinct_id":…,…}}`, so
 * everything is in the properties. People come from the profile query (`/engage`), as
 * `{"$distinct_id":…,"$properties":{…}}`.
 * https://developer.mixpanel.com/reference/raw-event-export and https://developer.mixpanel.com/reference/engage-query
 */
export const mixpanel: Vendor = {
  messages: (row, options) => {
    if (row.has('$distinct_id') && !row.has('event')) return [toProfile(row)]
    if (row.readNestedRow('properties') === undefined) {
      const isResponse = !row.has('event') && Boolean(row.readElements('results'))
      throw new RowFault(isResponse ? RESPONSE : 'The row has no properties, unlike events of Mixpanel.')
    }
    return decode(row, { ...options })
  },
}

const RESPONSE = 'The row is a whole response of /engage. Import its results, as `jq .results` writes them.'

/** The operators of an update, which are the same as in `/users/profile`. */
const OPERATORS = ['$set', '$set_once', '$add', '$append', '$union', '$remove', '$unset']
/** Prefix that Mixpanel puts before a device id to name an anonymous user. */
const DEVICE = '$device:'

/** Decodes a call to `/track` or `/import`: one event, or an array of them. */
export function mixpanelEvents(json: JsonValue, request: SdkRequest): SdkMessage[] {
  return withoutRepeatedAliases(decodeEach(listMessages(json), request, (row) => decode(row, { request })))
}

function decode(row: JsonRow, origin: Origin): Decoded[] {
  const { request } = origin
  const inner = row.readNestedRow('properties') ?? EMPTY_ROW
  const token = request && checkedToken(inner.value('token'), request)
  const properties =
    request && token !== undefined ? withoutKey(withoutKey(inner.text, request.key), token) : inner.text
  const event = row.value('event')
  const distinct_id = findUser(event, inner, origin)
  const time = readTimestamp(inner.readText('time'), origin, 's or ms')
  const id = inner.readNonEmpty('$insert_id')
  const messages: Decoded[] = [
    {
      type: 'event',
      parts: { event, distinct_id, timestamp: String(time), properties },
      insertId: id !== undefined && typeof event === 'string' ? makeInsertId(event, id) : undefined,
      ...(request && { source: findSource(inner, request) }),
    },
  ]
  if (event === '$identify') {
    const user = inner.readNonEmpty('$identified_id') ?? distinct_id
    if (user !== ANONYMOUS) {
      messages.push({ type: 'change', distinctId: user, identifies: true, operations: [], insertId: undefined, time })
    }
    messages.push(
      ...makeAlias(user, inner.readNonEmpty('$anon_id') ?? inner.readNonEmpty('$anon_distinct_id'), 'inferred'),
    )
  }
  if (event === '$create_alias') messages.push(...makeAlias(distinct_id, inner.readNonEmpty('alias'), 'said'))
  if (event === '$merge') messages.push(...merged(inner))
  else messages.push(...inferred(inner))
  return messages
}

/** What an event says about its sender; `ip=0` in the query applies to all events of the request. */
function findSource(inner: JsonRow, { fields }: SdkRequest): MessageSource {
  const [own, other] = [readAddress(inner.value('ip')), readAddress(inner.value('$ip'))]
  const address = own === undefined ? other : own
  return {
    userAgent: inner.readNonEmpty('$raw_user_agent') ?? inner.readNonEmpty('$user_agent'),
    address: address === undefined ? readAddress(fields.get('ip')) : address,
    timezone: inner.readNonEmpty('$timezone'),
  }
}

/**
 * Finds the user of an event. In an export, `distinct_id` may be a user that Mixpanel linked later; then the original
 * id is in another field. A merge has no user.
 */
function findUser(event: unknown, inner: JsonRow, { request }: Origin): string {
  if (event === '$merge') return ANONYMOUS
  const before = request ? undefined : inner.readNonEmpty('$distinct_id_before_identity')
  const given = before ?? inner.readNonEmpty('distinct_id')
  const identified = event === '$identify' ? inner.readNonEmpty('$identified_id') : undefined
  return given ?? identified ?? inner.readNonEmpty('$user_id') ?? inner.readNonEmpty('$device_id') ?? ANONYMOUS
}

/** Makes the aliases that an event implies: its device and its user, and the user before and after identification. */
function inferred(inner: JsonRow): SdkAlias[] {
  const [userId, deviceId] = [inner.readNonEmpty('$user_id'), inner.readNonEmpty('$device_id')]
  const devices = deviceId === undefined || deviceId.startsWith(DEVICE) ? [deviceId] : [DEVICE + deviceId, deviceId]
  return [
    ...devices.flatMap((device) => makeAlias(userId, device, 'inferred')),
    ...makeAlias(inner.readNonEmpty('distinct_id'), inner.readNonEmpty('$distinct_id_before_identity'), 'inferred'),
  ]
}

/** Makes the aliases of a merge: `$distinct_ids` are users who are the same. */
function merged(inner: JsonRow): SdkAlias[] {
  const text = inner.readText('$distinct_ids')
  const names = text !== undefined && isArray(text) ? elementTexts(text).map(parseName) : []
  const [user, ...others] = names.filter((name) => name !== undefined && name !== '')
  if (user === undefined || others.length === 0 || others.length + 1 < names.length) {
    throw new FieldFault('The $distinct_ids are not a list of two ids.', '$distinct_ids', text === undefined)
  }
  return others.flatMap((other) => makeAlias(user, other, 'merge'))
}

/** Converts a profile, as of the time when the user was last seen. */
function toProfile(row: JsonRow): Decoded {
  const distinctId = row.readNonEmpty('$distinct_id')
  if (distinctId === undefined) throw new RowFault('The row names no user.')
  if (!row.has('$properties')) throw new RowFault('The row has no $properties, unlike profiles of Mixpanel.')
  const properties = row.readNestedRow('$properties')
  const time = lastKnown(properties?.readText('$last_seen'))
  return { type: 'change', distinctId, operations: toSetOperations(properties?.text), insertId: undefined, time }
}

/** Decodes a call to `/engage` or `/groups`: one update of a profile, or an array of them. */
export function mixpanelUpdates(json: JsonValue, request: SdkRequest): SdkMessage[] {
  return decodeEach(listMessages(json), request, (row) => {
    checkedToken(row.value('$token'), request)
    const group = readGroup(row)
    const isGroup = group !== undefined
    const distinctId = group ?? findUpdatedUser(row)
    if (row.has('$delete')) return [{ type: 'delete', distinctId, isGroup }]
    const given = OPERATORS.flatMap((name) => {
      // The operand of `$unset` is a list.
      const operand = name === '$unset' ? row.readText(name) : row.readObject(name)
      return operand === undefined ? [] : [[name, operand] as const]
    })
    if (given.length === 0) throw new RowFault(`The update has none of ${OPERATORS.join(', ')}.`)
    const time = readTimestamp(row.readText('$time'), { request }, 's or ms')
    return [{ type: 'change', distinctId, isGroup, operations: [objectText(given)], insertId: undefined, time }]
  })
}

function readGroup(row: JsonRow): string | undefined {
  const [key, id] = [row.readNonEmpty('$group_key'), row.readNonEmpty('$group_id')]
  return key === undefined || id === undefined ? undefined : groupName(key, id)
}

function findUpdatedUser(row: JsonRow): string {
  const name = row.readNonEmpty('$distinct_id') ?? row.readNonEmpty('$user_id') ?? row.readNonEmpty('$device_id')
  if (name === undefined) throw new FieldFault('The update names no user.', '$distinct_id', true)
  return name
}

/**
 * Converts a body with one event per line to a JSON array. A line that is not valid JSON becomes a string in it, which
 * is then a separate fault. A text without a valid line is returned unchanged.
 * @throws TooManyMessagesError
 */
export function linesToArray(text: string): string {
  const all = text.split('\n', MAX_MESSAGES + 1)
  if (all.length > MAX_MESSAGES) throw new TooManyMessagesError()
  const lines = all.filter((line) => line.trim() !== '')
  const values = lines.map((line) => (isJson(line) ? line : JSON.stringify(line)))
  return values.some((value, i) => value === lines[i]) ? `[${values.join(',')}]` : text
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/**
 * Checks an event's token. Each event may have its own, and a request made with a secret has both.
 * @returns the token, or the request's key if there is none
 */
function checkedToken(token: unknown, { key, isOwnKey = () => false }: SdkRequest): string {
  if (token === undefined || token === null || token === '' || token === key) return key
  if (typeof token === 'string' && isOwnKey(token)) return token
  throw new FieldFault('The token belongs to another project.', 'token')
}

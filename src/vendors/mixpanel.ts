import type { JsonValue } from '../json/value.js'
import { ANONYMOUS, groupName } from '../model/user-names.js'
import {
  FieldFault,
  insertIdOf,
  MAX_MESSAGES,
  messagesOfEach,
  type SdkMessage,
  type SdkRequest,
  TooManyMessagesError,
  withoutKey,
} from './message.js'
import { EMPTY_ROW, type JsonRow, objectText, profileChange, RowFault, timestampText, type Vendor } from './row.js'
import { sdkTime, toMilliseconds } from './time.js'

/**
 * Mixpanel. Events come from the raw export, as `{"event":…,"properties":{"time":…,"distinct_id":…,…}}`, so all that it
 * says is in the properties. People come from the profile query (`/engage`), as `{"$distinct_id":…,"$properties":{…}}`.
 * https://developer.mixpanel.com/reference/raw-event-export and https://developer.mixpanel.com/reference/engage-query
 */
export const mixpanel: Vendor = {
  time: 's',
  parts(row, time) {
    const inner = row.rowOf('properties')
    if (!inner) throw new RowFault('The row has no properties, as an event of Mixpanel has.')
    const timestamp = inner.textOf('time')
    if (timestamp === undefined) throw new RowFault('The row has no time among its properties.')
    return {
      event: row.value('event'),
      distinct_id: inner.filled('distinct_id') ?? inner.filled('$device_id'),
      timestamp: timestampText(timestamp, time),
      properties: inner.text,
    }
  },
  isProfile: (row) => row.has('$distinct_id') && !row.has('event'),
  profile(row) {
    return this.isProfile(row) ? profileChange(row.nameOf('$distinct_id'), row.textOf('$properties')) : undefined
  },
}

/** A number below this is a time in seconds: it is the year 5138, and as milliseconds it is March 1973. */
const SECONDS_BELOW = 1e11
/** The operators of an update, which are those of `/users/profile`. */
const OPERATORS = ['$set', '$set_once', '$add', '$append', '$union', '$remove', '$unset']

/** The messages of a call to `/track` or `/import`: one event, or an array of them. */
export function mixpanelEvents(json: JsonValue, request: SdkRequest): SdkMessage[] {
  return messagesOfEach(elementsOf(json), request, (row) => {
    const properties = row.rowOf('properties')
    if (properties === null) throw new FieldFault('The properties are not an object.', 'properties')
    const inner = properties ?? EMPTY_ROW
    const token = checkedToken(inner.value('token'), request)
    const event = row.value('event')
    const distinct_id = inner.filled('distinct_id') ?? inner.filled('$user_id') ?? inner.filled('$device_id')
    const id = inner.filled('$insert_id')
    const timestamp = sdkTime(timeOf(inner), { sentAt: null, receivedAt: request.receivedAt })
    const messages: SdkMessage[] = [
      {
        type: 'event',
        parts: {
          event,
          distinct_id: distinct_id ?? ANONYMOUS,
          timestamp: timestamp === null ? undefined : String(timestamp),
          properties: withoutKey(withoutKey(inner.text, request.key), token),
        },
        insertId: id === undefined ? undefined : insertIdOf(String(event), id),
      },
    ]
    const isIdentify = event === '$identify'
    const alias = isIdentify
      ? inner.filled('$anon_distinct_id')
      : event === '$create_alias'
        ? inner.filled('alias')
        : undefined
    if (isIdentify && distinct_id !== undefined) {
      messages.push({ type: 'change', distinctId: distinct_id, identifies: true, operations: [], insertId: undefined })
    }
    if (alias !== undefined && distinct_id !== undefined && alias !== distinct_id) {
      messages.push({ type: 'alias', distinctId: distinct_id, alias, link: isIdentify ? 'inferred' : 'said' })
    }
    return messages
  })
}

/** The messages of a call to `/engage` or `/groups`: one update of a profile, or an array of them. */
export function mixpanelUpdates(json: JsonValue, request: SdkRequest): SdkMessage[] {
  return messagesOfEach(elementsOf(json), request, (row) => {
    checkedToken(row.value('$token'), request)
    const distinctId = profileOf(row)
    const isGroup = row.filled('$group_key') !== undefined && row.filled('$group_id') !== undefined
    if (row.has('$delete')) return [{ type: 'delete', distinctId }]
    const given = OPERATORS.flatMap((name) => {
      const operand = row.textOf(name)
      return operand === undefined ? [] : [[name, operand] as const]
    })
    if (given.length === 0) throw new RowFault(`The update has none of ${OPERATORS.join(', ')}.`)
    return [{ type: 'change', distinctId, isGroup, operations: [objectText(given)], insertId: undefined }]
  })
}

/**
 * The events of a body that holds one on each line, as an array: a line that is not valid JSON is one of its strings, and
 * so becomes a fault of its own. A text that has no line that is valid JSON is returned as it is.
 * @throws TooManyMessagesError
 */
export function arrayOfLines(text: string): string {
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

function elementsOf(json: JsonValue): JsonValue[] {
  return json.isArray ? json.elements() : [json]
}

/**
 * Each event may bring a token of its own, and a request that is made with a secret has both.
 * @returns the token, or the request's key if there is none
 */
function checkedToken(token: unknown, { key, isOwnKey = () => false }: SdkRequest): string {
  if (token === undefined || token === null || token === '' || token === key) return key
  if (typeof token === 'string' && isOwnKey(token)) return token
  throw new FieldFault('The token is that of another project than the request.', 'token')
}

function profileOf(row: JsonRow): string {
  const [group, id] = [row.filled('$group_key'), row.filled('$group_id')]
  if (group !== undefined && id !== undefined) return groupName(group, id)
  const name = row.filled('$distinct_id') ?? row.filled('$user_id') ?? row.filled('$device_id')
  if (name === undefined) throw new FieldFault('The update names no user.', '$distinct_id', true)
  return name
}

function timeOf(properties: JsonRow): number | null {
  const text = properties.textOf('time')
  if (text === undefined) return null
  const content = text.startsWith('"') ? (JSON.parse(text) as string) : text
  return toMilliseconds(content, Number(content) < SECONDS_BELOW ? 's' : 'ms') ?? toMilliseconds(content, 'iso')
}

import { groupName } from '../contract/user-names.js'
import { elementTexts, isArray, memberTexts } from '../json/texts.js'
import type { JsonValue } from '../json/value.js'
import type { MessageSource } from '../model/request-context.js'
import {
  type Decoded,
  decodeEach,
  listMessages,
  makeAlias,
  makeInsertId,
  readAddress,
  readSessionId,
  type SdkMessage,
  type SdkRequest,
  withoutRepeatedAliases,
} from './message.js'
import { FieldFault, isEmpty, isEmptyArray, JsonRow, objectText, parseName, RowFault, withRest } from './row.js'
import { toMilliseconds } from './time.js'
import { type Origin, readTimestamp, type Vendor } from './vendor.js'

/**
 * Amplitude's Export API: an archive of gzipped files of JSON lines, with times in UTC without a zone. Each event
 * contains the user's properties at that time, which are set in the profile.
 * https://amplitude.com/docs/apis/analytics/export
 */
export const amplitude: Vendor = {
  messages: (row, options) => decode(row, { ...options }),
}

/** Libraries that may repeat a request long after its upload time, so it must not correct their clocks. */
const SERVER_LIBRARY = /^amplitude-node/

/**
 * Decodes a request of Amplitude's SDKs or of its HTTP API.
 * @param json an envelope with events; amplitude-js 8 sends only the events, and the first HTTP API may send a single
 * one
 * @throws RowFault if it is neither
 */
export function amplitudeMessages(json: JsonValue, request: SdkRequest): SdkMessage[] {
  const envelope = json.isArray ? undefined : new JsonRow(json)
  const isAlone = envelope?.has('event_type') === true && !envelope.has('events')
  const events = isAlone ? [json] : envelope ? envelope.readElements('events') : json.elements()
  if (!events) throw new RowFault('The request has no list of events.')
  const uploadTime = isAlone ? undefined : (envelope?.value('client_upload_time') ?? request.fields.get('upload_time'))
  const uploadedAt = typeof uploadTime === 'string' ? toMilliseconds(uploadTime, envelope ? 'iso' : 'ms') : null
  const messages = decodeEach(events, request, (row) => {
    const library = row.value('library')
    const isServer = typeof library === 'string' && SERVER_LIBRARY.test(library)
    return decode(row, { request, sentAt: isServer ? null : uploadedAt })
  })
  return withoutRepeatedAliases(messages)
}

/** Decodes a call to `/identify`: the properties of one user, or an array of these. */
export function amplitudeIdentifications(json: JsonValue, request: SdkRequest): SdkMessage[] {
  return withoutRepeatedAliases(decodeEach(listMessages(json), request, (row) => decode(row, { request }, '$identify')))
}

/** Decodes a call to `/groupidentify`: the properties of one group, or an array of these. */
export function amplitudeGroupIdentifications(json: JsonValue, request: SdkRequest): SdkMessage[] {
  return decodeEach(listMessages(json), request, (row) => {
    const [type, names] = [row.readNonEmpty('group_type'), row.readText('group_value')]
    if (type === undefined) throw new FieldFault('The message names no group type.', 'group_type', true)
    if (names === undefined) throw new FieldFault('The message names no group.', 'group_value', true)
    const origin = { request }
    return groupChanges(row, origin, [[type, names]], { insertId: undefined, time: request.receivedAt })
  })
}

/**
 * Decodes a call to `/usermap`: one mapping of a user to another, or an array of these.
 * https://amplitude.com/docs/apis/analytics/user-mapping
 */
export function amplitudeUserMappings(json: JsonValue, request: SdkRequest): SdkMessage[] {
  return decodeEach(listMessages(json), request, (row) => {
    const [userId, globalId] = [row.readNonEmpty('user_id'), row.readNonEmpty('global_user_id')]
    if (userId === undefined) throw new FieldFault('The mapping has no user_id.', 'user_id', true)
    if (row.value('unmap') === true) throw new FieldFault(UNMAPPED, 'unmap')
    if (globalId === undefined) throw new FieldFault('The mapping has no global_user_id.', 'global_user_id', true)
    return makeAlias(globalId, userId, 'merge')
  })
}

const UNMAPPED = 'This call cannot remove an alias. Use DELETE /public/users/:userId/aliases/:alias with a secret key.'

/** The fields of a change other than its operations. */
interface Occasion {
  insertId: string | undefined
  time: number
}

function decode(row: JsonRow, origin: Origin, type = row.value('event_type')): Decoded[] {
  const { request } = origin
  const [userId, deviceId] = [row.readNonEmpty('user_id'), row.readNonEmpty('device_id')]
  // An export also has an id that Amplitude assigned.
  const distinctId = userId ?? deviceId ?? (request ? undefined : row.readNonEmpty('amplitude_id'))
  const insertId = findInsertId(row)
  const time = readTimestamp(timeIn(row, origin), origin, 'ms')
  if (type === '$groupidentify') return groupChanges(row, origin, groupsIn(row), { insertId, time })
  if (distinctId === undefined) {
    throw new FieldFault('The event has neither a user_id nor a device_id.', 'user_id', true)
  }
  const messages: Decoded[] = []
  const isIdentify = type === '$identify'
  if (!isIdentify) {
    const own = row.readObject('event_properties')
    const properties = withRest(row, own, '$amplitude', ['event_type', 'event_properties'])
    const session_id = findSessionId(row)
    const parts = { event: type, distinct_id: distinctId, timestamp: String(time), properties, session_id }
    messages.push({ type: 'event', parts, insertId, ...(request && { source: findSource(row) }) })
  }
  const change = readChange(row, 'user_properties', origin)
  if (change.clears || change.operations.length > 0 || isIdentify) {
    const identifies = isIdentify && userId !== undefined
    messages.push({ type: 'change', distinctId, identifies, ...change, insertId, time })
  }
  messages.push(...makeAlias(userId, deviceId, 'inferred'))
  return messages
}

/** In an export, the SDK's id is `$insert_id`, and `uuid` is one that Amplitude assigned. */
function findInsertId(row: JsonRow): string | undefined {
  const id = row.readNonEmpty('insert_id') ?? row.readNonEmpty('$insert_id') ?? row.readNonEmpty('uuid')
  return id === undefined ? undefined : makeInsertId(id)
}

/** What an event says about its sender; the address `$remote` means the address of the request. */
function findSource(row: JsonRow): MessageSource {
  return {
    userAgent: row.readNonEmpty('user_agent'),
    address: readAddress(row.value('ip')),
    language: row.readNonEmpty('language'),
  }
}

/** Amplitude's id of an event outside of any session. */
const NO_SESSION = -1

function findSessionId(row: JsonRow): string | undefined {
  const id = readSessionId(row, 'session_id')
  return Number(id) === NO_SESSION ? undefined : id
}

function timeIn(row: JsonRow, { request }: Origin): string | undefined {
  const exported = request ? undefined : row.readText('event_time')
  return exported ?? row.readText('time') ?? row.readText('timestamp')
}

/** Reads the groups of a message: pairs of a type and the JSON text of a name, or of a list of names. */
function groupsIn(row: JsonRow): (readonly [type: string, names: string])[] {
  const groups = row.readObject('groups')
  if (groups === undefined || isEmpty(groups)) {
    throw new FieldFault('The message names no group.', 'groups', groups === undefined)
  }
  return [...memberTexts(groups)]
}

/** Makes a change of the profile of each of these groups. */
function groupChanges(
  row: JsonRow,
  origin: Origin,
  groups: readonly (readonly [type: string, names: string])[],
  occasion: Occasion,
): Decoded[] {
  const change = readChange(row, 'group_properties', origin)
  return groups.flatMap(([type, names]) => {
    return listValues(names).map((text): Decoded => {
      const name = parseName(text)
      if (name === undefined) throw new FieldFault('The name of a group is not a string.', 'groups')
      return { type: 'change', distinctId: groupName(type, name), isGroup: true, ...change, ...occasion }
    })
  })
}

/** Translates Amplitude's operators into ours. Each value of a list becomes one operation, in order. */
function readChange(row: JsonRow, field: string, { request }: Origin): { operations: string[]; clears: boolean } {
  const text = row.readObject(field) ?? '{}'
  const operations: string[] = []
  const plain: [string, string][] = []
  let clears = false
  for (const [operator, operand] of memberTexts(text)) {
    // An export has the resulting properties instead of operators, even if their names begin with a dollar sign.
    const isOwn = !operator.startsWith('$') || (!request && !OPERATORS.has(operator))
    if (isOwn) plain.push([operator, operand])
    else if (operator === '$clearAll') clears = true
    else operations.push(...toOperations(operator, operand, field))
  }
  if (plain.length > 0) operations.push(operation('$set', plain))
  return { operations, clears }
}

/** Characters of an operator that a reason quotes. */
const MAX_QUOTED = 100

const OPERATORS = new Set([
  '$set',
  '$setOnce',
  '$add',
  '$unset',
  '$append',
  '$prepend',
  '$preInsert',
  '$postInsert',
  '$remove',
  '$clearAll',
])

function toOperations(operator: string, operand: string, field: string): string[] {
  if (operand === 'null' || isEmptyArray(operand)) return []
  if (!operand.startsWith('{'))
    throw new FieldFault(`The operand of ${operator.slice(0, MAX_QUOTED)} is not an object.`, field)
  if (isEmpty(operand)) return []
  const entries = [...memberTexts(operand)]
  switch (operator) {
    case '$set':
      return [operation(operator, entries)]
    case '$add':
      // amplitude-js 8 also accepts a number in a string.
      return [
        operation(
          operator,
          entries.map(([name, value]) => [name, NUMBER_IN_STRING.exec(value)?.[1] ?? value]),
        ),
      ]
    case '$setOnce':
      return [operation('$set_once', entries)]
    case '$unset':
      return [`{"$unset":${JSON.stringify(entries.map(([name]) => name))}}`]
    case '$preInsert':
    case '$postInsert':
      return [
        operation(
          '$union',
          entries.map(([name, value]) => [name, isArray(value) ? value : `[${value}]`]),
        ),
      ]
    case '$append':
    case '$remove':
      return entries.flatMap(([name, value]) => listValues(value).map((one) => operation(operator, [[name, one]])))
    case '$prepend':
      // Prepended in reverse, so that the list keeps its order.
      return entries.flatMap(([name, value]) => {
        return listValues(value)
          .toReversed()
          .map((one) => operation(operator, [[name, one]]))
      })
    default:
      throw new FieldFault(`The operator ${operator.slice(0, MAX_QUOTED)} is not known.`, field)
  }
}

const NUMBER_IN_STRING = /^"(-?(?:0|[1-9]\d*)(?:\.\d+)?)"$/

function operation(operator: string, entries: (readonly [string, string])[]): string {
  return objectText([[operator, objectText(entries)]])
}

function listValues(value: string): string[] {
  return isArray(value) ? elementTexts(value) : [value]
}

import { elementTexts, isArray, isNumber, memberTexts } from '../json/spans.js'
import type { JsonValue } from '../json/value.js'
import { groupName } from '../model/user-names.js'
import { FieldFault, insertIdOf, messagesOfEach, type SdkMessage, type SdkRequest } from './message.js'
import { isEmpty, JsonRow, objectText, profileChange, RowFault, timestampText, type Vendor, withRest } from './row.js'
import { sdkTime, toMilliseconds } from './time.js'

/**
 * Amplitude's Export API: an archive of gzipped files of JSON lines; times are UTC and name no zone. Each event carries
 * the user's properties at that time, which are set in the profile.
 * https://amplitude.com/docs/apis/analytics/export
 */
export const amplitude: Vendor = {
  time: 'iso',
  parts(row, time) {
    return {
      event: row.value('event_type'),
      distinct_id: userOf(row),
      timestamp: timestampText(row.requiredText('event_time'), time),
      properties: withRest(row, row.textOf('event_properties'), '$amplitude', ['event_type', 'event_properties']),
    }
  },
  isProfile: () => false,
  profile(row) {
    const set = row.textOf('user_properties')
    return set === undefined || isEmpty(set) ? undefined : profileChange(userOf(row), set)
  },
}

/** The user's id, else the device's, else the one that Amplitude assigned. */
function userOf(row: JsonRow): string | undefined {
  return row.filled('user_id') ?? row.filled('device_id') ?? row.filled('amplitude_id')
}

/** Libraries that repeat a request long after its upload time: their clocks are not corrected by it. */
const SERVER_LIBRARY = /^amplitude-node/

/**
 * The messages of a request of Amplitude's SDKs.
 * @param json an envelope with events, or from amplitude-js 8 the events alone
 * @throws RowFault if it is neither
 */
export function amplitudeMessages(json: JsonValue, request: SdkRequest): SdkMessage[] {
  const envelope = json.isArray ? undefined : new JsonRow(json)
  const events = envelope ? envelope.elementsOf('events') : json.elements()
  if (!events) throw new RowFault('The request has no list of events.')
  const uploadTime = envelope ? envelope.value('client_upload_time') : request.fields.get('upload_time')
  const sentAt = typeof uploadTime === 'string' ? toMilliseconds(uploadTime, envelope ? 'iso' : 'ms') : null
  return withoutRepeatedAliases(messagesOfEach(events, request, (row) => messagesIn(row, request, sentAt)))
}

/** Each event says again whose device it comes from. */
function withoutRepeatedAliases(messages: SdkMessage[]): SdkMessage[] {
  const said = new Set<string>()
  return messages.filter((message) => {
    if (message.type !== 'alias') return true
    const pair = JSON.stringify([message.distinctId, message.alias])
    return !said.has(pair) && said.add(pair)
  })
}

function messagesIn(row: JsonRow, { receivedAt }: SdkRequest, uploadedAt: number | null): SdkMessage[] {
  const [userId, deviceId] = [row.filled('user_id'), row.filled('device_id')]
  const distinctId = userId ?? deviceId
  const type = row.value('event_type')
  const id = row.filled('insert_id') ?? row.filled('uuid')
  const insertId = id === undefined ? undefined : insertIdOf(id)
  if (type === '$groupidentify') return groupChanges(row, insertId)
  if (distinctId === undefined) {
    throw new FieldFault('The event has neither a user_id nor a device_id.', 'user_id', true)
  }
  const messages: SdkMessage[] = []
  const library = row.value('library')
  const sentAt = typeof library === 'string' && SERVER_LIBRARY.test(library) ? null : uploadedAt
  const timestamp = sdkTime(timeOf(row), { sentAt, receivedAt })
  if (type !== '$identify') {
    messages.push({
      type: 'event',
      parts: {
        event: type,
        distinct_id: distinctId,
        timestamp: timestamp === null ? undefined : String(timestamp),
        properties: propertiesOf(row),
      },
      insertId,
    })
  }
  const change = changeOf(row, 'user_properties')
  if (change.clears || change.operations.length > 0 || type === '$identify') {
    messages.push({ type: 'change', distinctId, ...change, insertId })
  }
  if (userId !== undefined && deviceId !== undefined && userId !== deviceId) {
    messages.push({ type: 'alias', distinctId: userId, alias: deviceId, link: 'inferred' })
  }
  return messages
}

function propertiesOf(row: JsonRow): string {
  const own = row.textOf('event_properties')
  if (own !== undefined && !own.startsWith('{')) {
    throw new FieldFault('The event_properties are not an object.', 'event_properties')
  }
  return withRest(row, own, '$amplitude', ['event_type', 'event_properties'])
}

/** A change of the profile of each group that the message names. */
function groupChanges(row: JsonRow, insertId: string | undefined): SdkMessage[] {
  const change = changeOf(row, 'group_properties')
  const groups = row.textOf('groups')
  if (groups === undefined) throw new FieldFault('The message names no group.', 'groups', true)
  if (!groups.startsWith('{') || isEmpty(groups)) throw new FieldFault('The message names no group.', 'groups')
  return [...memberTexts(groups)].flatMap(([type, names]) => {
    return valuesOf(names).map((text): SdkMessage => {
      // A number as it is spelled.
      const name: unknown = isNumber(text) ? text : JSON.parse(text)
      if (typeof name !== 'string') throw new FieldFault('The name of a group is not a string.', 'groups')
      return { type: 'change', distinctId: groupName(type, name), isGroup: true, ...change, insertId }
    })
  })
}

/** Amplitude's operators in terms of ours. Each value of a list is one operation, in its order. */
function changeOf(row: JsonRow, field: string): { operations: string[]; clears: boolean } {
  const text = row.textOf(field) ?? '{}'
  if (!text.startsWith('{')) throw new FieldFault(`The ${field} are not an object.`, field)
  const operations: string[] = []
  const plain: [string, string][] = []
  let clears = false
  for (const [operator, operand] of memberTexts(text)) {
    if (!operator.startsWith('$')) plain.push([operator, operand])
    else if (operator === '$clearAll') clears = true
    else operations.push(...operationsOf(operator, operand, field))
  }
  if (plain.length > 0) operations.push(operation('$set', plain))
  return { operations, clears }
}

function operationsOf(operator: string, operand: string, field: string): string[] {
  if (!operand.startsWith('{')) throw new FieldFault(`The operand of ${operator} is not an object.`, field)
  if (isEmpty(operand)) return []
  const entries = [...memberTexts(operand)]
  switch (operator) {
    case '$set':
      return [operation(operator, entries)]
    case '$add':
      // amplitude-js 8 also takes a number in a string.
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
      return entries.flatMap(([name, value]) => valuesOf(value).map((one) => operation(operator, [[name, one]])))
    case '$prepend':
      // The first of a list is to be the first.
      return entries.flatMap(([name, value]) => {
        return valuesOf(value)
          .toReversed()
          .map((one) => operation(operator, [[name, one]]))
      })
    default:
      throw new FieldFault(`The operator ${operator} is not known.`, field)
  }
}

const NUMBER_IN_STRING = /^"(-?(?:0|[1-9]\d*)(?:\.\d+)?)"$/

function operation(operator: string, entries: (readonly [string, string])[]): string {
  return objectText([[operator, objectText(entries)]])
}

function valuesOf(value: string): string[] {
  return isArray(value) ? elementTexts(value) : [value]
}

function timeOf(row: JsonRow): number | null {
  const text = row.textOf('time') ?? row.textOf('timestamp')
  return text === undefined || text.startsWith('"') ? null : toMilliseconds(text, 'ms')
}

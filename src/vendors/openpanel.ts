import { isNumber } from '../json/texts.js'
import type { JsonValue } from '../json/value.js'
import { ANONYMOUS, groupName } from '../model/user-names.js'
import { messagesOfEach, type SdkChange, type SdkMessage, type SdkRequest } from './message.js'
import { isEmpty, type JsonRow, objectText, RowFault, withRest } from './row.js'
import { timestampOf } from './vendor.js'

/** What of an event has a place of its own. */
const EVENT_FIELDS = ['name', 'profileId', 'properties']

/** The messages of a request of OpenPanel's SDKs, which send each call by itself and give no ids. */
export function openpanelMessages(json: JsonValue, request: SdkRequest): SdkMessage[] {
  return messagesOfEach([json], request, (row) => {
    const payload = row.rowIn('payload')
    if (!payload) throw new RowFault('The message has no payload.')
    return messagesIn(row.value('type'), payload, request)
  })
}

function messagesIn(type: unknown, payload: JsonRow, request: SdkRequest): SdkMessage[] {
  const time = request.receivedAt
  switch (type) {
    case 'track':
      return [eventOf(payload, request)]
    case 'identify':
      return [{ ...changeOf(userOf(payload), '$set', traitsOf(payload), time), identifies: true }]
    case 'increment':
    case 'decrement':
      return [changeOf(userOf(payload), '$add', stepOf(payload, type === 'decrement'), time)]
    case 'group': {
      const [kind, id] = [payload.filled('type'), payload.filled('id')]
      if (id === undefined) throw new RowFault('The group has no id.')
      const name = kind === undefined ? groupName(id) : groupName(kind, id)
      const traits = traitsOf(payload, payload.without(['id', 'type', 'properties']))
      return [{ ...changeOf(name, '$set', traits, time), isGroup: true }]
    }
    case 'assign_group': {
      const groups = payload.textOf('groupIds')
      if (!groups?.startsWith('[')) throw new RowFault('The message names no groups.')
      // Of a visitor without a profile, the events name the groups.
      if (payload.filled('profileId') === undefined) return []
      return [changeOf(userOf(payload), '$union', objectText([['$groups', groups]]), time)]
    }
    // Recordings of sessions are not kept, and an alias says nothing by itself.
    case 'replay':
    case 'alias':
      return []
    default:
      throw new RowFault('The message has no type that OpenPanel knows.')
  }
}

function eventOf(payload: JsonRow, request: SdkRequest): SdkMessage {
  const properties = payload.rowIn('properties')
  const timestamp = timestampOf(properties?.textOf('__timestamp'), { request }, 'ms')
  return {
    type: 'event',
    parts: {
      event: payload.value('name'),
      distinct_id: payload.filled('profileId') ?? ANONYMOUS,
      timestamp: String(timestamp),
      properties: isEmpty(payload.without(EVENT_FIELDS))
        ? (properties?.text ?? '{}')
        : withRest(payload, properties?.text, '$openpanel', EVENT_FIELDS),
    },
    insertId: undefined,
  }
}

function changeOf(distinctId: string, operator: string, operands: string, time: number): SdkChange {
  const operations = isEmpty(operands) ? [] : [objectText([[operator, operands]])]
  return { type: 'change', distinctId, operations, insertId: undefined, time }
}

/** The text of an object with the members of another, and of its `properties`. */
function traitsOf(payload: JsonRow, own = payload.without(['profileId', 'properties'])): string {
  const properties = payload.objectIn('properties') ?? '{}'
  if (isEmpty(properties)) return own
  return isEmpty(own) ? properties : `${own.slice(0, -1)},${properties.slice(1)}`
}

function stepOf(payload: JsonRow, isDown: boolean): string {
  const property = payload.filled('property')
  const value = payload.textOf('value') ?? '1'
  if (property === undefined) throw new RowFault('The message names no property.')
  if (!isNumber(value)) throw new RowFault('The value is not a number.')
  const negative = value.startsWith('-') ? value.slice(1) : `-${value}`
  return objectText([[property, isDown ? negative : value]])
}

function userOf(payload: JsonRow): string {
  const name = payload.filled('profileId')
  if (name === undefined) throw new RowFault('The message names no profile.')
  return name
}

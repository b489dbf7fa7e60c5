import { ANONYMOUS, groupName } from '../contract/user-names.js'
import { isNumber } from '../json/texts.js'
import type { JsonValue } from '../json/value.js'
import { decodeEach, readAddress, type SdkChange, type SdkMessage, type SdkRequest } from './message.js'
import { isEmpty, type JsonRow, objectText, RowFault, withRest } from './row.js'
import { readTimestamp } from './vendor.js'

/** Fields of an event that are stored separately. */
const EVENT_FIELDS = ['name', 'profileId', 'properties']

/** Decodes a request of OpenPanel's SDKs, which send one call per request and no ids. */
export function openpanelMessages(json: JsonValue, request: SdkRequest): SdkMessage[] {
  return decodeEach([json], request, (row) => {
    const payload = row.readNestedRow('payload')
    if (!payload) throw new RowFault('The message has no payload.')
    return messagesIn(row.value('type'), payload, request)
  })
}

function messagesIn(type: unknown, payload: JsonRow, request: SdkRequest): SdkMessage[] {
  const time = request.receivedAt
  switch (type) {
    case 'track':
      return [toEvent(payload, request)]
    case 'identify':
      return [{ ...toChange(requireUser(payload), '$set', joinTraits(payload), time), identifies: true }]
    case 'increment':
    case 'decrement':
      return [toChange(requireUser(payload), '$add', toIncrement(payload, type === 'decrement'), time)]
    case 'group': {
      const [kind, id] = [payload.readNonEmpty('type'), payload.readNonEmpty('id')]
      if (id === undefined) throw new RowFault('The group has no id.')
      const name = kind === undefined ? groupName(id) : groupName(kind, id)
      const traits = joinTraits(payload, payload.without(['id', 'type', 'properties']))
      return [{ ...toChange(name, '$set', traits, time), isGroup: true }]
    }
    case 'assign_group': {
      const groups = payload.readText('groupIds')
      if (!groups?.startsWith('[')) throw new RowFault('The message names no groups.')
      // A visitor without a profile is not changed; the events name the groups.
      if (payload.readNonEmpty('profileId') === undefined) return []
      return [toChange(requireUser(payload), '$union', objectText([['$groups', groups]]), time)]
    }
    // Session recordings are not stored, and an alias has no effect.
    case 'replay':
    case 'alias':
      return []
    default:
      throw new RowFault('The message has no type that OpenPanel knows.')
  }
}

function toEvent(payload: JsonRow, request: SdkRequest): SdkMessage {
  const properties = payload.readNestedRow('properties')
  const timestamp = readTimestamp(properties?.readText('__timestamp'), { request }, 'ms')
  return {
    type: 'event',
    parts: {
      event: payload.value('name'),
      distinct_id: payload.readNonEmpty('profileId') ?? ANONYMOUS,
      timestamp: String(timestamp),
      properties: isEmpty(payload.without(EVENT_FIELDS))
        ? (properties?.text ?? '{}')
        : withRest(payload, properties?.text, '$openpanel', EVENT_FIELDS),
    },
    insertId: undefined,
    source: {
      userAgent: properties?.readNonEmpty('__userAgent'),
      address: readAddress(properties?.value('__ip')),
    },
  }
}

function toChange(distinctId: string, operator: string, operands: string, time: number): SdkChange {
  const operations = isEmpty(operands) ? [] : [objectText([[operator, operands]])]
  return { type: 'change', distinctId, operations, insertId: undefined, time }
}

/** Joins the members of an object and of its `properties` into one object. */
function joinTraits(payload: JsonRow, own = payload.without(['profileId', 'properties'])): string {
  const properties = payload.readObject('properties') ?? '{}'
  if (isEmpty(properties)) return own
  return isEmpty(own) ? properties : `${own.slice(0, -1)},${properties.slice(1)}`
}

function toIncrement(payload: JsonRow, isDown: boolean): string {
  const property = payload.readNonEmpty('property')
  const value = payload.readText('value') ?? '1'
  if (property === undefined) throw new RowFault('The message names no property.')
  if (!isNumber(value)) throw new RowFault('The value is not a number.')
  const negative = value.startsWith('-') ? value.slice(1) : `-${value}`
  return objectText([[property, isDown ? negative : value]])
}

function requireUser(payload: JsonRow): string {
  const name = payload.readNonEmpty('profileId')
  if (name === undefined) throw new RowFault('The message names no profile.')
  return name
}

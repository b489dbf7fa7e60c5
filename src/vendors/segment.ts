import type { JsonValue } from '../json/value.js'
import { ANONYMOUS, groupName } from '../model/user-names.js'
import { insertIdOf, messagesOfEach, type SdkMessage, type SdkRequest } from './message.js'
import {
  isEmpty,
  JsonRow,
  NoEvent,
  objectText,
  profileChange,
  RowFault,
  timestampText,
  type Vendor,
  withRest,
} from './row.js'
import { sdkTime, toMilliseconds } from './time.js'

/**
 * Segment's messages as it stores them in a bucket, as JSON lines. `track` is an event with a name of its own; `page` and
 * `screen` are events with these names. `identify` and `group` change a profile, a group's being `$group:` and its id.
 * `alias` is skipped.
 * https://segment.com/docs/connections/storage/catalog/aws-s3/ and https://segment.com/docs/connections/spec/
 */
export const segment: Vendor = {
  time: 'iso',
  parts(row, time) {
    const type = row.value('type')
    if (type === 'alias') throw new NoEvent('Messages of the type alias are not events.')
    if (type !== 'track' && type !== 'page' && type !== 'screen') {
      throw new RowFault('The row has no type that Segment gives to messages.')
    }
    const timestamp = row.textOf('timestamp') ?? row.textOf('receivedAt') ?? row.requiredText('timestamp')
    return {
      event: type === 'track' ? row.value('event') : type,
      distinct_id: row.filled('userId') ?? row.filled('anonymousId'),
      timestamp: timestampText(timestamp, time),
      properties: withRest(row, row.textOf('properties'), '$segment', ['event', 'properties']),
    }
  },
  isProfile: (row) => row.value('type') === 'identify' || row.value('type') === 'group',
  profile(row) {
    if (!this.isProfile(row)) return undefined
    if (row.value('type') === 'identify') {
      const traits = row.textOf('traits') ?? traitsInContext(row)
      return profileChange(row.filled('userId') ?? row.filled('anonymousId'), traits)
    }
    const group = row.filled('groupId')
    return profileChange(group === undefined ? undefined : groupName(group), row.textOf('traits'))
  },
}

function traitsInContext(row: JsonRow): string | undefined {
  return row.rowOf('context')?.textOf('traits')
}

/** Libraries that repeat a request with its first `sentAt`, however late: their clocks are not corrected by it. */
const SERVER_LIBRARY = /node|ruby|python|java$|php|go$|\.net|server/i
/** Events that stand for messages which are no `track`. */
const EVENT_NAMES: ReadonlyMap<string, string> = new Map([
  ['page', 'page'],
  ['screen', 'screen'],
  ['identify', '$identify'],
  ['group', '$group'],
  ['alias', '$alias'],
])

/** Jitsu's SDK masks what follows the colon of its key. */
const MASKED = ':***'

/**
 * The messages of a request of Segment's protocol, as the SDKs of Segment, RudderStack and Jitsu send them.
 * @param json one message, or a batch
 * @param type of the only message, where the path says it; without it, there is a batch
 * @throws RowFault if it is neither
 */
export function segmentMessages(json: JsonValue, request: SdkRequest, type?: string): SdkMessage[] {
  const envelope = new JsonRow(json)
  const batch = type === undefined ? envelope.elementsOf('batch') : undefined
  if (batch === null) throw new RowFault('The batch is not an array.')
  const sentAt = batch ? timeOf(envelope, 'sentAt') : null
  return messagesOfEach(batch ?? [json], request, (row) => {
    if (isForeign(row.value('writeKey'), request)) throw new RowFault('The message has the key of another project.')
    return messagesIn(row, request, timeOf(row, 'sentAt') ?? sentAt, String(row.value('type') ?? type))
  })
}

/** Whether a message says that it is for another project than the request. */
function isForeign(writeKey: unknown, { key, isOwnKey }: SdkRequest): boolean {
  if (typeof writeKey !== 'string' || writeKey === '' || writeKey.endsWith(MASKED)) return false
  return writeKey !== key && !writeKey.endsWith(`:${key}`) && isOwnKey?.(writeKey) !== true
}

function messagesIn(row: JsonRow, request: SdkRequest, sent: number | null, type: string): SdkMessage[] {
  const event = type === 'track' ? row.value('event') : EVENT_NAMES.get(type)
  if (type !== 'track' && event === undefined) throw new RowFault('The message has no type that Segment has.')
  const [userId, anonymousId] = [row.filled('userId'), row.filled('anonymousId')]
  const sentAt = SERVER_LIBRARY.test(libraryOf(row)) ? null : sent
  const time = timeOf(row, 'timestamp') ?? timeOf(row, 'originalTimestamp')
  const timestamp = sdkTime(time, { sentAt, receivedAt: request.receivedAt })
  const messageId = row.filled('messageId')
  const insertId = messageId === undefined ? undefined : insertIdOf(messageId)
  const properties = withRest(row, row.textOf('properties'), '$segment', ['event', 'properties', 'writeKey'])
  const distinct_id = userId ?? anonymousId ?? row.filled('previousId') ?? ANONYMOUS
  const messages: SdkMessage[] = [
    {
      type: 'event',
      parts: { event, distinct_id, timestamp: String(timestamp), properties },
      insertId,
    },
  ]
  const traits = row.textOf('traits') ?? (type === 'identify' ? traitsInContext(row) : undefined)
  if (type === 'identify' && distinct_id !== ANONYMOUS) {
    const identifies = userId !== undefined
    messages.push({ type: 'change', distinctId: distinct_id, identifies, operations: setOf(traits), insertId })
    if (userId !== undefined && anonymousId !== undefined && userId !== anonymousId) {
      messages.push({ type: 'alias', distinctId: userId, alias: anonymousId, link: 'inferred' })
    }
  }
  const groupId = row.filled('groupId')
  if (type === 'group' && groupId !== undefined) {
    const change = { type: 'change', isGroup: true, operations: setOf(traits), insertId } as const
    messages.push({ ...change, distinctId: groupName(groupId) })
  }
  const previousId = row.filled('previousId')
  if (type === 'alias' && userId !== undefined && previousId !== undefined && userId !== previousId) {
    messages.push({ type: 'alias', distinctId: userId, alias: previousId, link: 'said' })
  }
  return messages
}

/** Operations that set these properties; none if there is nothing to set. */
function setOf(traits: string | undefined): string[] {
  return traits?.startsWith('{') && !isEmpty(traits) ? [objectText([['$set', traits]])] : []
}

function timeOf(row: JsonRow, name: string): number | null {
  const value = row.value(name)
  return typeof value === 'string' ? toMilliseconds(value, 'iso') : null
}

function libraryOf(row: JsonRow): string {
  const library = row.rowOf('context')?.rowOf('library')?.value('name')
  return typeof library === 'string' ? library : ''
}

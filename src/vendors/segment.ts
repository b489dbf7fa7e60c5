import { ANONYMOUS, groupName } from '../contract/user-names.js'
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
} from './message.js'
import { JsonRow, NoEvent, RowFault, toSetOperations, withRest } from './row.js'
import { toMilliseconds } from './time.js'
import { type Origin, readTimestamp, type Vendor } from './vendor.js'

/**
 * Segment's messages in a bucket, as JSON lines: what its SDKs send, with times corrected by Segment.
 * https://segment.com/docs/connections/storage/catalog/aws-s3/ and https://segment.com/docs/connections/spec/
 */
export const segment: Vendor = {
  messages: (row, options) => decode(row, { ...options }, row.value('type')),
}

/** Libraries that repeat a request with its original `sentAt`, so it must not correct their clocks. */
const SERVER_LIBRARY = /node|ruby|python|java$|php|go$|\.net|server/i
/** Names of the events for messages other than `track`. */
const EVENT_NAMES: ReadonlyMap<unknown, string> = new Map([
  ['page', 'page'],
  ['screen', 'screen'],
  ['identify', '$identify'],
  ['group', '$group'],
  ['alias', '$alias'],
])

/** Fields that are stored separately, or contain the key. */
const PLACED = ['event', 'properties']
const PLACED_LIVE = [...PLACED, 'writeKey']

/** Jitsu's SDK masks the part of its key after the colon. */
const MASKED = ':***'

/**
 * Decodes a request of Segment's protocol, which the SDKs of Segment, RudderStack and Jitsu use.
 * @param json one message, or a batch
 * @param type from the path of a single message; absent for a batch
 * @throws RowFault if it is neither
 */
export function segmentMessages(json: JsonValue, request: SdkRequest, type?: string): SdkMessage[] {
  const envelope = new JsonRow(json)
  const batch = type === undefined ? envelope.readElements('batch') : undefined
  if (batch === null) throw new RowFault('The batch is not an array.')
  const sentWith = batch ? readSentAt(envelope) : null
  return decodeEach(batch ?? [json], request, (row) => {
    if (isForeign(row.value('writeKey'), request))
      throw new RowFault('The key of the message belongs to another project.')
    const sentAt = SERVER_LIBRARY.test(readLibrary(row)) ? null : (readSentAt(row) ?? sentWith)
    return decode(row, { request, sentAt }, row.value('type') ?? type)
  })
}

/** Whether a message declares that it is for a project other than its request's. */
function isForeign(writeKey: unknown, { key, isOwnKey }: SdkRequest): boolean {
  if (typeof writeKey !== 'string' || writeKey === '' || writeKey.endsWith(MASKED)) return false
  return writeKey !== key && !writeKey.endsWith(`:${key}`) && isOwnKey?.(writeKey) !== true
}

/**
 * Every message is an event; `identify`, `group` and `alias` also change profiles and names. In an export, a message of
 * these types without a time only makes its change.
 */
function decode(row: JsonRow, origin: Origin, type: unknown): Decoded[] {
  const event = type === 'track' ? row.value('event') : EVENT_NAMES.get(type)
  if (type !== 'track' && event === undefined) throw new RowFault('The message has no type that Segment knows.')
  const [userId, anonymousId, previousId] = [
    row.readNonEmpty('userId'),
    row.readNonEmpty('anonymousId'),
    row.readNonEmpty('previousId'),
  ]
  const distinct_id = userId ?? anonymousId ?? previousId ?? ANONYMOUS
  const time = readTime(row, origin, type)
  const messageId = row.readNonEmpty('messageId')
  const insertId = messageId === undefined ? undefined : makeInsertId(messageId)
  const used = origin.request ? PLACED_LIVE : PLACED
  const properties = withRest(row, row.readObject('properties'), '$segment', used)
  const messages: Decoded[] = []
  if (time !== undefined) {
    const session_id = readSessionId(readContext(row), 'sessionId')
    const parts = { event, distinct_id, timestamp: String(time), properties, session_id }
    messages.push({ type: 'event', parts, insertId, ...(origin.request && { source: findSource(row) }) })
  }
  if (type === 'identify' && distinct_id !== ANONYMOUS) {
    const operations = toSetOperations(row.readObject('traits') ?? readContext(row)?.readObject('traits'))
    const identifies = userId !== undefined
    messages.push({ type: 'change', distinctId: distinct_id, identifies, operations, insertId, time })
    messages.push(...makeAlias(userId, anonymousId, 'inferred'))
  }
  const groupId = row.readNonEmpty('groupId')
  if (type === 'group' && groupId !== undefined) {
    const operations = toSetOperations(row.readObject('traits'))
    messages.push({ type: 'change', distinctId: groupName(groupId), isGroup: true, operations, insertId, time })
  }
  if (type === 'alias') messages.push(...makeAlias(userId, previousId, 'said'))
  if (messages.length === 0) throw new NoEvent('The message has no time, and says nothing about a user.')
  return messages
}

/**
 * Reads the time of a message. In a bucket, `timestamp` and `receivedAt` are by Segment's clock, but
 * `originalTimestamp` is not.
 */
function readTime(row: JsonRow, origin: Origin, type: unknown): number | undefined {
  const received = origin.request ? undefined : row.readText('receivedAt')
  const text = row.readText('timestamp') ?? received ?? row.readText('originalTimestamp')
  const isNeeded = origin.request !== undefined || type === 'track' || type === 'page' || type === 'screen'
  return text === undefined && !isNeeded ? undefined : readTimestamp(text, origin, 'none')
}

/** Reads when the request was sent. A time that cannot be parsed is ignored. */
function readSentAt(row: JsonRow): number | null {
  const value = row.value('sentAt')
  return typeof value === 'string' ? toMilliseconds(value, 'iso') : null
}

/** What the context says about the sender. */
function findSource(row: JsonRow): MessageSource {
  const context = readContext(row)
  return {
    userAgent: context?.readNonEmpty('userAgent'),
    address: readAddress(context?.value('ip')),
    timezone: context?.readNonEmpty('timezone'),
    language: context?.readNonEmpty('locale'),
  }
}

/** The context, in which RudderStack's SDKs also put the session; Segment's have none. */
function readContext(row: JsonRow): JsonRow | undefined {
  return findNested(row, 'context')
}

/** An object in a message that says more about the event. One that cannot be read counts as missing. */
function findNested(row: JsonRow | undefined, name: string): JsonRow | undefined {
  try {
    return row?.readNestedRow(name)
  } catch (error) {
    if (error instanceof RowFault) return undefined
    throw error
  }
}

function readLibrary(row: JsonRow): string {
  const context = readContext(row)
  const library = context?.value('library')
  const name = typeof library === 'string' ? library : findNested(context, 'library')?.value('name')
  return typeof name === 'string' ? name : ''
}

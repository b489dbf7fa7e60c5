import { describeNameFault, describeTimestampFault, isName, isTimestamp } from '../contract/limits.js'
import { memberText } from '../json/texts.js'
import { TallyhouseError } from './errors.js'

/**
 * Properties as callers pass them: any object except an array. It is `object` because values of interface types have
 * no index signature. Values that JSON cannot express are treated like in `JSON.stringify`.
 */
export type GivenProperties = object

/**
 * The text of a JSON object. It is sent byte for byte, so that `12345678901234567890` and `1.0`
 * stay as they are.
 */
export type JsonText = string

export interface TrackEvent {
  /** 1 to 255 characters */
  event: string
  /** the user: 1 to 255 characters */
  distinct_id: string
  properties?: GivenProperties | JsonText | null | undefined
  /**
   * epoch milliseconds; default: the time of the call, however long the event then waits in the
   * queue
   */
  timestamp?: number | Date | null | undefined
  /**
   * id of the event, 1 to 255 characters: the service stores only the first event of a user with the same id within 7
   * days
   */
  insert_id?: string | null | undefined
  /** the session that the event belongs to, 1 to 255 characters */
  session_id?: string | null | undefined
}

/**
 * Formats an event as the JSON that the service expects.
 * @param now epoch milliseconds
 * @throws TallyhouseError `invalid_request`, like the service, because an invalid event would fail the others of its
 * batch
 */
export function formatEvent(
  { event, distinct_id, properties, timestamp, insert_id, session_id }: TrackEvent,
  now: number,
): JsonText {
  const time = timestamp instanceof Date ? timestamp.getTime() : (timestamp ?? now)
  checkName('event', event)
  checkName('distinct_id', distinct_id)
  if (!isTimestamp(time)) throw invalid('timestamp', describeTimestampFault(time))
  if (insert_id != null) checkName('insert_id', insert_id)
  if (session_id != null) checkName('session_id', session_id)
  const ids = { insert_id: insert_id ?? undefined, session_id: session_id ?? undefined }
  const rest = properties == null ? '' : `,"properties":${formatObject('properties', properties)}`
  return `${JSON.stringify({ event, distinct_id, timestamp: time, ...ids }).slice(0, -1)}${rest}}`
}

/** Parses what `formatEvent` returned; the properties keep their exact text. */
export function parseEvent(text: JsonText): TrackEvent {
  const { event, distinct_id, timestamp, insert_id, session_id } = JSON.parse(text) as {
    event: string
    distinct_id: string
    timestamp: number
    insert_id?: string
    session_id?: string
  }
  const properties = memberText(text, 'properties')
  const ids = { ...(insert_id !== undefined && { insert_id }), ...(session_id !== undefined && { session_id }) }
  return { event, distinct_id, timestamp, ...ids, ...(properties !== undefined && { properties }) }
}

/**
 * @param value an object, or its JSON text, which is not changed
 * @throws TallyhouseError `invalid_request`
 */
export function formatObject(field: string, value: object | JsonText): JsonText {
  const text = typeof value === 'string' ? value : toJson(field, value)
  if (!isObjectText(text)) throw invalid(field, 'must be an object, or the JSON text of one')
  return text
}

/** @throws TallyhouseError `invalid_request` */
export function checkName(field: string, value: unknown): asserts value is string {
  if (isName(value)) return
  throw invalid(field, describeNameFault(value))
}

function toJson(field: string, value: object): string | undefined {
  try {
    return JSON.stringify(value)
  } catch (error) {
    throw invalid(field, `cannot be written as JSON: ${error instanceof Error ? error.message : error}`)
  }
}

/** The text becomes part of a body and must not change the body's structure, so it must parse as exactly one object. */
function isObjectText(text: string | undefined): text is JsonText {
  if (text === undefined || !text.isWellFormed()) return false
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}

function invalid(field: string, message: string): TallyhouseError {
  return new TallyhouseError('invalid_request', `${field} ${message}.`, { details: [{ path: `/${field}`, message }] })
}

import { TrackBody } from './schemas.js'
import { compileCheck } from './validation.js'

/** The fields of an event before they are checked, as a row of an import names them. */
export interface EventParts {
  event: unknown
  distinct_id: unknown
  /** milliseconds as the text of a JSON number; undefined if the row has no time */
  timestamp: string | undefined
  /** the exact text of a valid JSON value */
  properties: string | undefined
}

/** The service would refuse this event; the message says why. */
export class EventFault extends Error {
  override readonly name = 'EventFault'
}

/**
 * MAX_PROPERTY_DEPTH is a setting of the service, which reports properties that are nested too
 * deeply.
 */
const check = compileCheck(TrackBody, null)

/**
 * Writes an event as JSON, for a batch. The properties are copied byte for byte.
 * @throws EventFault if the service would refuse the event, in the service's words
 */
export function formatEvent({ event, distinct_id, timestamp, properties = '{}' }: EventParts): string {
  const time = timestamp === undefined ? undefined : JSON.parse(timestamp)
  // Valid JSON that begins with a brace is an object, so its members need not be parsed.
  const value = { event, distinct_id, timestamp: time, properties: properties.startsWith('{') ? {} : properties }
  const error = check(value)
  if (error) throw new EventFault(error.message.replace(/^\//, ''))
  const names = `{"event":${JSON.stringify(event)},"distinct_id":${JSON.stringify(distinct_id)}`
  return `${names}${timestamp === undefined ? '' : `,"timestamp":${timestamp}`},"properties":${properties}}`
}

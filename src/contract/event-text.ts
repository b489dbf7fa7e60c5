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
  insert_id?: unknown
}

/** The service would refuse this event; the message says why. */
export class EventFault extends Error {
  override readonly name = 'EventFault'
  /** the field at fault, such as `distinct_id`; undefined if it is none of the event's own */
  readonly field: string | undefined
  readonly isMissing: boolean

  constructor(message: string, field?: string, isMissing = false) {
    super(message)
    this.field = field
    this.isMissing = isMissing
  }
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
export function formatEvent({ event, distinct_id, timestamp, properties = '{}', insert_id }: EventParts): string {
  // Valid JSON that begins with a brace is an object, so its members need not be parsed.
  const value = {
    event,
    distinct_id,
    timestamp: timestamp && JSON.parse(timestamp),
    insert_id,
    properties: properties.startsWith('{') ? {} : properties,
  }
  const error = check(value)
  if (error) {
    const field = error.details?.[0]?.path.split('/')[1]
    const isMissing = field !== undefined && ((value as Record<string, unknown>)[field] ?? null) === null
    throw new EventFault(error.message.replace(/^\//, ''), field, isMissing)
  }
  const names = `{"event":${JSON.stringify(event)},"distinct_id":${JSON.stringify(distinct_id)}`
  const time = timestamp === undefined ? '' : `,"timestamp":${timestamp}`
  const id = insert_id == null ? '' : `,"insert_id":${JSON.stringify(insert_id)}`
  return `${names}${time}${id},"properties":${properties}}`
}

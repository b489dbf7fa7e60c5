import { type GivenContext, trimContext } from './context.js'
import { isName } from './limits.js'
import { EventContext, TrackBody } from './schemas.js'
import { compileCheck } from './validation.js'

/** The fields of an event before validation, named like the columns of an import. */
export interface EventParts {
  event: unknown
  distinct_id: unknown
  /** milliseconds as the text of a JSON number; undefined if the row has no time */
  timestamp: string | undefined
  /** the exact text of a valid JSON value */
  properties: string | undefined
  insert_id?: unknown
  session_id?: unknown
  /** the JSON of a valid context; undefined if the event has none */
  context?: string | undefined
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
 * Matches most timestamps, and only ones that the check would accept. It excludes 9 and 10 digits, which may be seconds
 * by mistake.
 */
const TIMESTAMP = /^(?:0|[1-9](?:\d{0,7}|\d{10,12}))$/

/** @throws EventFault if the service would refuse the event */
function checkAll({ timestamp, properties = '{}', context: _, ...names }: EventParts): void {
  // Valid JSON that begins with a brace is an object, so its members need not be parsed.
  const value = {
    ...names,
    timestamp: timestamp && JSON.parse(timestamp),
    properties: properties.startsWith('{') ? {} : properties,
  }
  const error = check(value)
  if (!error) return
  const field = error.details?.[0]?.path.split('/')[1]
  const isMissing = field !== undefined && ((value as Record<string, unknown>)[field] ?? null) === null
  throw new EventFault(error.message.replace(/^\//, ''), field, isMissing)
}

/**
 * Formats an event as JSON, for a batch. The properties are copied byte for byte.
 * @throws EventFault if the service would refuse the event, in the service's words
 */
export function formatEvent(parts: EventParts): string {
  const { event, distinct_id, timestamp, properties = '{}', insert_id, session_id, context } = parts
  const isUsual =
    isName(event) &&
    isName(distinct_id) &&
    properties.startsWith('{') &&
    (insert_id == null || isName(insert_id)) &&
    (session_id == null || isName(session_id)) &&
    (timestamp === undefined || TIMESTAMP.test(timestamp))
  if (!isUsual) checkAll(parts)
  // The context comes first, because that is where readers look for it.
  const first = context === undefined ? '' : `"context":${context},`
  const names = `{${first}"event":${quote(event as string)},"distinct_id":${quote(distinct_id as string)}`
  const time = timestamp === undefined ? '' : `,"timestamp":${timestamp}`
  const id = insert_id == null ? '' : `,"insert_id":${quote(insert_id as string)}`
  const session = session_id == null ? '' : `,"session_id":${quote(session_id as string)}`
  return `${names}${time}${id}${session},"properties":${properties}}`
}

const checkContext = compileCheck(EventContext, null)

/**
 * Writes the context of an event as `EventParts` has it.
 * @param context a value of JSON
 * @throws EventFault if the service would refuse it
 */
export function formatContext(context: unknown): string | undefined {
  if (context === undefined || context === null) return undefined
  const error = checkContext({ context })
  if (error) throw new EventFault(error.message.replace(/^\//, ''), 'context')
  const json = JSON.stringify(trimContext(context as GivenContext))
  return json === '{}' ? undefined : json
}

/** Characters that need no escaping in JSON; most names have no others. */
const PLAIN = /^[\w $@.:/-]*$/

function quote(name: string): string {
  return PLAIN.test(name) ? `"${name}"` : JSON.stringify(name)
}

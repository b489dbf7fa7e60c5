import {
  type EventParts,
  type JsonRow,
  NoEvent,
  JsonRow as Row,
  RowFault,
  timestampText,
  unquoted,
  withMember,
} from './event-text.js'
import type { TimeFormat } from './time.js'

/** How the rows of another product's export become events. */
export interface Vendor {
  /** how its export writes times, where the command does not say otherwise */
  time: TimeFormat
  /**
   * The event's own properties stay as they are, byte for byte. What else the export says of the event becomes one more
   * property, named `$` and the vendor, so that nothing is lost.
   * @throws RowFault where the row is no event of this vendor
   * @throws NoEvent where it is something else that this vendor exports
   */
  parts(row: JsonRow, time: TimeFormat): EventParts
}

/**
 * The raw export: `{"event":…,"properties":{"time":…,"distinct_id":…,…}}`. Everything that it says is in the properties.
 * https://developer.mixpanel.com/reference/raw-event-export
 */
const mixpanel: Vendor = {
  time: 's',
  parts(row, time) {
    const properties = row.textOf('properties')
    if (!properties?.startsWith('{')) throw new RowFault('The row has no properties, as an event of Mixpanel has.')
    const inner = new Row(properties)
    const timestamp = inner.textOf('time')
    if (timestamp === undefined) throw new RowFault('The row has no time among its properties.')
    return {
      event: row.value('event'),
      distinct_id: inner.nameOf('distinct_id') ?? inner.nameOf('$device_id'),
      timestamp: timestampText(timestamp, time),
      properties,
    }
  },
}

/**
 * The Export API's archive of gzipped files of JSON lines; times are UTC without a zone. A user without an id is named by
 * the device, else by Amplitude's own id.
 * https://amplitude.com/docs/apis/analytics/export
 */
const amplitude: Vendor = {
  time: 'iso',
  parts(row, time) {
    return {
      event: row.value('event_type'),
      distinct_id: row.nameOf('user_id') ?? row.nameOf('device_id') ?? row.nameOf('amplitude_id'),
      timestamp: timestampText(required(row, 'event_time'), time),
      properties: withRest(row, row.textOf('event_properties'), '$amplitude', ['event_type', 'event_properties']),
    }
  },
}

/**
 * A batch export of the model `events` as JSON lines, or the same columns as CSV. Properties are an object or a string
 * that holds one.
 * https://posthog.com/docs/cdp/batch-exports
 */
const posthog: Vendor = {
  time: 'iso',
  parts(row, time) {
    return {
      event: row.value('event'),
      distinct_id: row.nameOf('distinct_id'),
      timestamp: timestampText(required(row, 'timestamp'), time),
      properties: withRest(row, unquoted(row.textOf('properties')), '$posthog', ['event', 'distinct_id', 'properties']),
    }
  },
}

/**
 * Messages as Segment stores them in a bucket, JSON lines: `track` is an event of its own name; `page` and `screen` are
 * events of these names. `identify`, `group` and `alias` say something of a user and are no events.
 * https://segment.com/docs/connections/storage/catalog/aws-s3/ and https://segment.com/docs/connections/spec/
 */
const segment: Vendor = {
  time: 'iso',
  parts(row, time) {
    const type = row.value('type')
    if (type === 'identify' || type === 'group' || type === 'alias') {
      throw new NoEvent(`Messages of the type ${type} are no events.`)
    }
    if (type !== 'track' && type !== 'page' && type !== 'screen') {
      throw new RowFault('The row has no type that Segment gives to messages.')
    }
    const timestamp = row.textOf('timestamp') ?? row.textOf('receivedAt') ?? required(row, 'timestamp')
    return {
      event: type === 'track' ? row.value('event') : type,
      distinct_id: row.nameOf('userId') ?? row.nameOf('anonymousId'),
      timestamp: timestampText(timestamp, time),
      properties: withRest(row, row.textOf('properties'), '$segment', ['event', 'properties']),
    }
  },
}

export const VENDORS = { mixpanel, amplitude, posthog, segment }
export type VendorName = keyof typeof VENDORS

function required(row: JsonRow, name: string): string {
  const text = row.textOf(name)
  if (text === undefined) throw new RowFault(`The row has no ${name}.`)
  return text
}

function withRest(row: JsonRow, properties = '{}', name: string, used: readonly string[]): string {
  if (!properties.startsWith('{')) throw new RowFault("The event's properties are not an object.")
  return withMember(properties, name, row.without(used))
}

import {
  type EventParts,
  type JsonRow,
  NoEvent,
  type ProfileChange,
  JsonRow as Row,
  RowFault,
  timestampText,
  unquoted,
  withMember,
} from './row.js'
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
  /**
   * What the row says of a user; undefined where it says nothing.
   * @throws RowFault where it is to say something, and does not
   */
  profile(row: JsonRow): ProfileChange | undefined
  /** Whether the row is about a user and no event. */
  isProfile(row: JsonRow): boolean
}

/**
 * People come from the export of profiles (`/engage`), as `{"$distinct_id":…,"$properties":{…}}`, events from the raw
 * export: `{"event":…,"properties":{"time":…,"distinct_id":…,…}}`. Everything that it says is in the properties.
 * https://developer.mixpanel.com/reference/raw-event-export and https://developer.mixpanel.com/reference/engage-query
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
  isProfile: (row) => row.has('$distinct_id') && !row.has('event'),
  profile(row) {
    return this.isProfile(row) ? change(row.nameOf('$distinct_id'), row.textOf('$properties')) : undefined
  },
}

/**
 * The Export API's archive of gzipped files of JSON lines; times are UTC without a zone. A user without an id is named by
 * the device, else by Amplitude's own id. Each event has what was known of its user, which becomes the profile.
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
  isProfile: () => false,
  profile(row) {
    const set = row.textOf('user_properties')
    if (set === undefined || isEmpty(set)) return undefined
    return change(row.nameOf('user_id') ?? row.nameOf('device_id') ?? row.nameOf('amplitude_id'), set)
  },
}

/**
 * A batch export of the model `events` as JSON lines, or the same columns as CSV. Properties are an object or a string
 * that holds one. A row of the model `persons` has no event, and is a profile.
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
  isProfile: (row) => row.has('distinct_id') && !row.has('event') && row.has('properties'),
  profile(row) {
    return this.isProfile(row) ? change(row.nameOf('distinct_id'), unquoted(row.textOf('properties'))) : undefined
  },
}

/**
 * Messages as Segment stores them in a bucket, JSON lines: `track` is an event of its own name; `page` and `screen` are
 * events of these names. `identify` and `group` change a profile, that of a group being `$group:` and its id; `alias` is left out.
 * https://segment.com/docs/connections/storage/catalog/aws-s3/ and https://segment.com/docs/connections/spec/
 */
const segment: Vendor = {
  time: 'iso',
  parts(row, time) {
    const type = row.value('type')
    if (type === 'alias') {
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
  isProfile: (row) => row.value('type') === 'identify' || row.value('type') === 'group',
  profile(row) {
    if (!this.isProfile(row)) return undefined
    const context = row.textOf('context')
    const inContext = context?.startsWith('{') ? new Row(context).textOf('traits') : undefined
    const traits = row.textOf('traits') ?? (row.value('type') === 'identify' ? inContext : undefined)
    if (row.value('type') === 'identify') return change(row.nameOf('userId') || row.nameOf('anonymousId'), traits)
    const group = row.nameOf('groupId') ?? ''
    return change(group === '' ? undefined : `$group:${group}`, traits)
  },
}

export const VENDORS = { mixpanel, amplitude, posthog, segment }
export type VendorName = keyof typeof VENDORS

function isEmpty(object: string): boolean {
  return /^\{\s*\}$/.test(object)
}

/** @throws RowFault where no user is named, or what is set is no object */
function change(name: unknown, set = '{}'): ProfileChange {
  if (typeof name !== 'string' || name === '') throw new RowFault('The row names no user.')
  if (!set.startsWith('{')) throw new RowFault("The user's properties are not an object.")
  return { distinct_id: name, set }
}

function required(row: JsonRow, name: string): string {
  const text = row.textOf(name)
  if (text === undefined) throw new RowFault(`The row has no ${name}.`)
  return text
}

function withRest(row: JsonRow, properties = '{}', name: string, used: readonly string[]): string {
  if (!properties.startsWith('{')) throw new RowFault("The event's properties are not an object.")
  return withMember(properties, name, row.without(used))
}

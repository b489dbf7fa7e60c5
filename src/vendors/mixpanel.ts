import { JsonRow, profileChange, RowFault, timestampText, type Vendor } from './row.js'

/**
 * Mixpanel. Events come from the raw export, as `{"event":…,"properties":{"time":…,"distinct_id":…,…}}`, so all that it
 * says is in the properties. People come from the profile query (`/engage`), as `{"$distinct_id":…,"$properties":{…}}`.
 * https://developer.mixpanel.com/reference/raw-event-export and https://developer.mixpanel.com/reference/engage-query
 */
export const mixpanel: Vendor = {
  time: 's',
  parts(row, time) {
    const properties = row.textOf('properties')
    if (!properties?.startsWith('{')) throw new RowFault('The row has no properties, as an event of Mixpanel has.')
    const inner = new JsonRow(properties)
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
    return this.isProfile(row) ? profileChange(row.nameOf('$distinct_id'), row.textOf('$properties')) : undefined
  },
}

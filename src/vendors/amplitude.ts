import { isEmpty, type JsonRow, profileChange, timestampText, type Vendor, withRest } from './row.js'

/**
 * Amplitude's Export API: an archive of gzipped files of JSON lines; times are UTC and name no zone. Each event carries
 * the user's properties at that time, which are set in the profile.
 * https://amplitude.com/docs/apis/analytics/export
 */
export const amplitude: Vendor = {
  time: 'iso',
  parts(row, time) {
    return {
      event: row.value('event_type'),
      distinct_id: userOf(row),
      timestamp: timestampText(row.requiredText('event_time'), time),
      properties: withRest(row, row.textOf('event_properties'), '$amplitude', ['event_type', 'event_properties']),
    }
  },
  isProfile: () => false,
  profile(row) {
    const set = row.textOf('user_properties')
    return set === undefined || isEmpty(set) ? undefined : profileChange(userOf(row), set)
  },
}

/** The user's id, else the device's, else the one that Amplitude assigned. */
function userOf(row: JsonRow): unknown {
  return row.nameOf('user_id') ?? row.nameOf('device_id') ?? row.nameOf('amplitude_id')
}

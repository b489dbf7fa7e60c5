import { profileChange, timestampText, unquoted, type Vendor, withRest } from './row.js'

/**
 * PostHog's batch export of the model `events`, as JSON lines or as CSV with the same columns. Properties are an object,
 * or a string that holds one. A row of the model `persons` has no event and is a profile.
 * https://posthog.com/docs/cdp/batch-exports
 */
export const posthog: Vendor = {
  time: 'iso',
  parts(row, time) {
    return {
      event: row.value('event'),
      distinct_id: row.nameOf('distinct_id'),
      timestamp: timestampText(row.requiredText('timestamp'), time),
      properties: withRest(row, unquoted(row.textOf('properties')), '$posthog', ['event', 'distinct_id', 'properties']),
    }
  },
  isProfile: (row) => row.has('distinct_id') && !row.has('event') && row.has('properties'),
  profile(row) {
    if (!this.isProfile(row)) return undefined
    return profileChange(row.nameOf('distinct_id'), unquoted(row.textOf('properties')))
  },
}

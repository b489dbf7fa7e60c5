import { JsonRow, NoEvent, profileChange, RowFault, timestampText, type Vendor, withRest } from './row.js'

/**
 * Segment's messages as it stores them in a bucket, as JSON lines. `track` is an event with a name of its own; `page` and
 * `screen` are events with these names. `identify` and `group` change a profile, a group's being `$group:` and its id.
 * `alias` is skipped.
 * https://segment.com/docs/connections/storage/catalog/aws-s3/ and https://segment.com/docs/connections/spec/
 */
export const segment: Vendor = {
  time: 'iso',
  parts(row, time) {
    const type = row.value('type')
    if (type === 'alias') throw new NoEvent('Messages of the type alias are not events.')
    if (type !== 'track' && type !== 'page' && type !== 'screen') {
      throw new RowFault('The row has no type that Segment gives to messages.')
    }
    const timestamp = row.textOf('timestamp') ?? row.textOf('receivedAt') ?? row.requiredText('timestamp')
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
    if (row.value('type') === 'identify') {
      const traits = row.textOf('traits') ?? traitsInContext(row)
      return profileChange(row.nameOf('userId') || row.nameOf('anonymousId'), traits)
    }
    const group = row.nameOf('groupId') ?? ''
    return profileChange(group === '' ? undefined : `$group:${group}`, row.textOf('traits'))
  },
}

function traitsInContext(row: JsonRow): string | undefined {
  const context = row.textOf('context')
  return context?.startsWith('{') ? new JsonRow(context).textOf('traits') : undefined
}

import { makeInsertId } from './message.js'
import { type JsonRow, NoEvent, RowFault } from './row.js'
import { readTimestamp, type Vendor } from './vendor.js'
import { makeWebEvent, PAGE_VIEW, readField, readUtm, UTM_FIELDS, withoutPlaced } from './web.js'

/**
 * Plausible. Its export is an archive of daily totals, which cannot be turned into events. Self-hosted installations
 * have the events in the table `events_v2` of their ClickHouse, whose rows can be imported in any format.
 * https://plausible.io/docs/export-stats
 */
export const plausible: Vendor = {
  optionalFields: { session_id: 'session_id' },
  messages: (row, options) => {
    const [visitor, event] = [readField(row, 'user_id'), readField(row, 'name')]
    if (visitor === undefined || event === undefined || !row.has('timestamp')) throw new RowFault(TOTALS)
    if (event === 'engagement') throw new NoEvent('The row only says how long a page was viewed.')
    const read = (name: string) => readField(row, name)
    const time = readTimestamp(row.readText('timestamp'), { ...options }, 'none')
    const [host, path, referrer] = [read('hostname'), read('pathname') ?? '/', toAddress(read('referrer'))]
    const url = host === undefined || host === NO_HOST ? path : `https://${host}${path}`
    const utm = readUtm(row) ?? {}
    // Plausible also reads the source from parameters such as `ref`, but does not store these.
    const source = utm.source ?? (referrer === undefined ? read('referrer_source') : undefined)
    const session = read('session_id')
    const properties = readOwn(row)
    return [
      makeWebEvent({
        event: event === 'pageview' ? PAGE_VIEW : event,
        distinctId: visitor,
        time,
        // Plausible's times are whole seconds, and the visitor may have sent the same event with other properties within a
        // second.
        insertId: makeInsertId('plausible', visitor, session ?? '', String(time), event, url, ...properties.flat()),
        sessionId: session,
        page: {
          url,
          referrer,
          utm: { ...utm, source },
        },
        properties,
        context: {
          browser: read('browser'),
          browserVersion: read('browser_version'),
          os: read('operating_system'),
          osVersion: read('operating_system_version'),
          device: read('screen_size'),
          country: read('country_code'),
          region: read('subdivision1_code'),
        },
        rest: ['$plausible', withoutPlaced(row, isList(row) ? [...PLACED, ...OWN] : PLACED)],
      }),
    ]
  },
}

const TOTALS =
  'Plausible exports daily totals, which cannot become events: they do not say who came when. Keep its numbers there, and start counting here. If you run Plausible yourself, export its events instead: clickhouse-client --database plausible_events_db --query "SELECT * FROM events_v2 WHERE site_id = 1 FORMAT JSONEachRow SETTINGS date_time_output_format = \'iso\'".'

const PLACED = [...['name', 'timestamp', 'user_id', 'session_id', 'hostname', 'pathname', 'referrer'], ...UTM_FIELDS]

/** The host that Plausible stores for an event of an app. */
const NO_HOST = '(none)'

/** The properties of a custom event, which are two lists. */
const OWN = ['meta.key', 'meta.value'] as const

/** Plausible stores referrers without their protocol. */
function toAddress(referrer: string | undefined): string | undefined {
  return referrer === undefined || /^[a-z][\w+.-]*:\/\//i.test(referrer) ? referrer : `https://${referrer}`
}

/** Whether the properties are lists. ClickHouse writes them into CSV in its own format, which is kept unchanged. */
function isList(row: JsonRow): boolean {
  return OWN.every((name) => Array.isArray(row.value(name)))
}

function readOwn(row: JsonRow): (readonly [name: string, text: string])[] {
  const [names = [], values = []] = OWN.map((name) => row.readElements(name) ?? [])
  return names.flatMap(({ value: name }, i) => {
    const text = values[i]?.text
    return typeof name === 'string' && text !== undefined ? [[name, text] as const] : []
  })
}

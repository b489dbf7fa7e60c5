import { makeInsertId } from './message.js'
import { FieldFault, type JsonRow, NoEvent, RowFault } from './row.js'
import { readTimestamp, type Vendor } from './vendor.js'
import { makeWebEvent, PAGE_VIEW, readField, readUtm, UTM_FIELDS } from './web.js'

/**
 * Umami's table `website_event`, as its export or a database writes it as CSV, or its rows as JSON. In Umami a session is
 * a visitor's month, and a visit is what others call a session.
 * https://github.com/umami-software/umami/blob/master/prisma/schema.prisma
 */
export const umami: Vendor = {
  messages: (row, options) => {
    const read = (name: string) => readField(row, name)
    const visitor = read('session_id')
    if (visitor === undefined)
      throw new RowFault(
        'The row has no session_id, unlike rows of website_event. Reports of Umami are totals, which cannot become events.',
      )
    const time = readTimestamp(row.readText('created_at'), { ...options }, 'none')
    const [host, query] = [read('hostname'), read('url_query')]
    const page = {
      url: joinUrl(host, read('url_path'), query),
      title: read('page_title'),
      referrer: joinUrl(read('referrer_domain'), read('referrer_path'), read('referrer_query')),
      utm: readUtm(row),
    }
    const event = readEvent(row)
    return [
      makeWebEvent({
        event,
        distinctId: read('distinct_id') ?? visitor,
        time,
        insertId: findInsertId(row, [visitor, String(time), JSON.stringify(event), page.url ?? '']),
        sessionId: read('visit_id'),
        page,
        context: {
          browser: read('browser'),
          os: read('os'),
          device: read('device'),
          country: read('country'),
          region: read('region') ?? read('subdivision1'),
          city: read('city'),
          language: read('language'),
        },
        rest: ['$umami', row.without(PLACED)],
      }),
    ]
  },
}

/** Fields that are stored elsewhere, as they are or as parts of an address. */
const PLACED = [
  ...['event_id', 'session_id', 'visit_id', 'distinct_id', 'created_at', 'event_type', 'event_name'],
  ...['hostname', 'url_path', 'url_query', 'page_title', 'referrer_domain', 'referrer_path', 'referrer_query'],
  ...UTM_FIELDS,
]

/** Names of the types of events, as in Umami's `EVENT_TYPE`. Custom events have their own. */
const TYPES = new Map([
  ['1', PAGE_VIEW],
  ['3', 'link'],
  ['4', 'pixel'],
])

function readEvent(row: JsonRow): unknown {
  const type = row.readNonEmpty('event_type') ?? '1'
  const name = readField(row, 'event_name')
  if (type !== '1' && name !== undefined) return name
  if (type === '2') throw new FieldFault('The custom event has no event_name.', 'event', true)
  const event = TYPES.get(type)
  if (event === undefined) throw new NoEvent(`Rows of the event_type ${type.slice(0, 20)} are not events.`)
  return event
}

/** Umami's own id, or one that is made from what tells two events apart. */
function findInsertId(row: JsonRow, parts: string[]): string {
  const id = readField(row, 'event_id')
  return id === undefined ? makeInsertId('umami', ...parts) : makeInsertId('umami', id)
}

/** Makes an address from its parts; Umami does not keep the protocol. */
function joinUrl(host: string | undefined, path = '', query = ''): string | undefined {
  const parameters = query === '' ? '' : `?${query.replace(/^\?/, '')}`
  if (host !== undefined) return `https://${host}${path === '' || path.startsWith('/') ? '' : '/'}${path}${parameters}`
  return path === '' ? undefined : `${path}${parameters}`
}

import { makeAlias, makeInsertId } from './message.js'
import { FieldFault, type JsonRow, NoEvent, RowFault } from './row.js'
import { readTimestamp, type Vendor } from './vendor.js'
import { makeWebEvent, PAGE_VIEW, readField, readUtm, UTM_FIELDS, withoutPlaced } from './web.js'

/**
 * Umami's table `website_event`, as its export or a database writes it as CSV, or its rows as JSON. In Umami, a session
 * is a visitor within a month, and a visit is what others call a session. The export also has the tables `event_data`
 * and `session_data`, whose rows repeat the ids of events and sessions.
 * https://github.com/umami-software/umami/blob/master/prisma/schema.prisma
 */
export const umami: Vendor = {
  optionalFields: { session_id: 'visit_id' },
  messages: (row, options) => {
    const read = (name: string) => readField(row, name)
    if (row.has('data_key')) throw new NoEvent('The row is a property of an event or a session.')
    const visitor = read('session_id')
    if (visitor === undefined || !row.has('url_path')) {
      const missing = visitor === undefined ? 'session_id' : 'url_path'
      throw new RowFault(
        `The row has no ${missing}, unlike rows of website_event. Reports of Umami are totals, which cannot become events.`,
      )
    }
    const time = readTimestamp(row.readText('created_at'), { ...options }, 'none')
    const [host, query] = [read('hostname'), read('url_query')]
    const page = {
      url: joinUrl(host, read('url_path'), query),
      title: read('page_title'),
      referrer: readReferrer(row, host),
      utm: readUtm(row),
    }
    const event = readEvent(row)
    return [
      makeWebEvent({
        event,
        // Once Umami knows who the visitor is, it adds that to all rows of the session, whose ids must not change then.
        distinctId: visitor,
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
        rest: ['$umami', withoutPlaced(row, PLACED)],
      }),
      ...makeAlias(read('distinct_id'), visitor, 'inferred'),
    ]
  },
}

/** Fields that are stored elsewhere, unchanged or as parts of a URL, and the visitor's own address. */
const PLACED = [
  'ip',
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

/** Umami's own id, or one made from the fields that distinguish two events. */
function findInsertId(row: JsonRow, parts: string[]): string {
  const id = readField(row, 'event_id')
  return id === undefined ? makeInsertId('umami', ...parts) : makeInsertId('umami', id)
}

/** Builds a URL from its parts. Umami does not keep the protocol, and keeps the fragment with the path. */
function joinUrl(host: string | undefined, path = '', query = ''): string | undefined {
  if (host === undefined && path === '') return undefined
  const [, before = '', fragment = ''] = /^([^#]*)(.*)$/s.exec(path) ?? []
  const origin = host === undefined ? '' : `https://${host}`
  const slash = host === undefined || before === '' || before.startsWith('/') ? '' : '/'
  return `${origin}${slash}${before}${query === '' ? '' : `?${query.replace(/^\?/, '')}`}${fragment}`
}

/** Umami leaves out the domain of a referrer on the same site. */
function readReferrer(row: JsonRow, host: string | undefined): string | undefined {
  const [domain, path, query] = ['domain', 'path', 'query'].map((part) => readField(row, `referrer_${part}`))
  return joinUrl(domain ?? (path === undefined ? undefined : host), path, query)
}

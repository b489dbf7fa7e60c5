import { createHash } from 'node:crypto'
import { ANONYMOUS } from '../contract/user-names.js'
import { isNumber } from '../json/texts.js'
import { type Decoded, makeAlias, makeInsertId } from './message.js'
import { JsonRow, NoEvent, RowFault, unquotedNumber, withNumbers } from './row.js'
import { readTimestamp, type Vendor } from './vendor.js'
import { findUtm, makeWebEvent, PAGE_VIEW, readField, readUser, type WebContext, type WebPage } from './web.js'

/**
 * Google Analytics 4's export to BigQuery: the rows of `events_YYYYMMDD` as JSON lines, as `bq extract` writes them.
 * Times are microseconds, and BigQuery writes large numbers as strings.
 * https://support.google.com/analytics/answer/7029846
 */
export const ga4: Vendor = {
  optionalFields: { session_id: 'user_pseudo_id with ga_session_id', distinct_id: 'user_pseudo_id or user_id' },
  messages: (row, options) => {
    const stamp = row.readText('event_timestamp')
    if (stamp === undefined) throw new RowFault(NOT_A_ROW)
    const time = readTimestamp(stamp, { ...options, time: options?.time ?? 'us' }, 'none')
    const [user, device] = [readUser(row, 'user_id'), readField(row, 'user_pseudo_id')]
    const distinctId = user ?? device ?? ANONYMOUS
    const name = row.value('event_name')
    if (typeof name === 'string' && MARKERS.has(name)) {
      throw new NoEvent(`Google sends ${name} with each visit, in addition to what the visitor does.`)
    }
    const parameters = readParameters(row)
    const session = readText(parameters, 'ga_session_id')
    // The session id alone is the second in which the session began, so several sessions can share it.
    const sessionId = session === undefined || device === undefined ? undefined : `${device}.${session}`
    const placed = sessionId === undefined ? PAGE_PARAMETERS : [...PAGE_PARAMETERS, 'ga_session_id']
    const event = makeWebEvent({
      event: name === 'page_view' ? PAGE_VIEW : name,
      ...{ distinctId, time },
      insertId: findInsertId(row, parameters),
      sessionId,
      page: readPage(row, parameters),
      properties: [
        ...[...parameters].filter(([key]) => !placed.includes(key)),
        ...['items', 'ecommerce'].flatMap((key) => {
          const text = row.readText(key)
          return text === undefined || text === '[]' || text === '{}'
            ? []
            : [[key, withNumbers(text, NUMERIC)] as const]
        }),
      ],
      context: readContext(row),
      rest: ['$ga4', row.without(PLACED)],
    })
    const messages: Decoded[] = [event]
    return [...messages, ...makeAlias(user, device, 'inferred')]
  },
}

const NOT_A_ROW =
  'The row has no event_timestamp, unlike rows of events_YYYYMMDD in BigQuery. Reports of Google Analytics are totals, which cannot become events: link the property to BigQuery, and export its tables as JSON.'

/**
 * Events with which Google measures visits. Every visit has them, so if they were stored, no visit would consist of a
 * single page view. https://support.google.com/analytics/answer/9234069
 */
const MARKERS: ReadonlySet<string> = new Set(['session_start', 'first_visit', 'user_engagement'])

const PLACED = ['event_name', 'event_timestamp', 'event_params', 'items', 'ecommerce', 'user_id', 'user_pseudo_id']
const PAGE_PARAMETERS = ['page_location', 'page_title', 'page_referrer']
/** Numbers of items and purchases. BigQuery writes whole numbers as strings, and in the results of a query all. */
const NUMERIC =
  /^(?:(?:price|item_revenue|item_refund|purchase_revenue|(?:refund|shipping|tax)_value)(?:_in_usd)?|quantity|total_item_quantity|unique_items)$/

/**
 * Reads the parameters of an event, as JSON texts by their keys. Google sets one of several typed values. The results
 * of a query have all numbers as strings.
 */
function readParameters(row: JsonRow): Map<string, string> {
  const parameters = new Map<string, string>()
  for (const element of row.readElements('event_params') ?? []) {
    const parameter = new JsonRow(element)
    const key = parameter.value('key')
    const value = parameter.readNestedRow('value')
    if (typeof key !== 'string' || !value) continue
    const number = NUMBERS.map((type) => value.readText(type)).find((text) => text !== undefined)
    const text = value.readText('string_value') ?? (number && unquotedNumber(number))
    if (text !== undefined) parameters.set(key, text)
  }
  return parameters
}

const NUMBERS = ['int_value', 'double_value', 'float_value'] as const

function readText(parameters: ReadonlyMap<string, string>, key: string): string | undefined {
  const text = parameters.get(key)
  const value: unknown = text === undefined || isNumber(text) ? text : JSON.parse(text)
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** Names of the fields of a campaign in the row and in its parameters, by their names in a URL. */
const UTM = { source: 'source', medium: 'medium', campaign: 'campaign_name', term: 'term', content: 'content' }
/** Values that Google writes for visits without a campaign. */
const NO_CAMPAIGN = /^\(.*\)$|^organic$|^referral$/

function readPage(row: JsonRow, parameters: ReadonlyMap<string, string>): WebPage {
  const [url, title, referrer] = ['page_location', 'page_title', 'page_referrer'].map((key) =>
    readText(parameters, key),
  )
  const collected = row.readNestedRow('collected_traffic_source')
  const medium = readField(collected, 'manual_medium')
  const utm = { ...findUtm(url) }
  if (medium !== undefined && !NO_CAMPAIGN.test(medium)) {
    for (const [name, field] of Object.entries(UTM)) {
      const value = readField(collected, `manual_${field}`)
      if (value !== undefined && !NO_CAMPAIGN.test(value)) utm[name as keyof typeof UTM] ??= value
    }
  }
  return { url, title, referrer, utm }
}

/**
 * Makes an id from everything that distinguishes two events of a user, because Google assigns none, and events that
 * were sent together have the same time.
 */
function findInsertId(row: JsonRow, parameters: ReadonlyMap<string, string>): string {
  const fields = IDENTITY.map((name) => String(row.readName(name) ?? ''))
  const values = [...parameters].sort(([a], [b]) => (a < b ? -1 : 1))
  const digest = createHash('sha256').update(JSON.stringify([fields, values, row.readText('items') ?? '']))
  return makeInsertId('ga4', digest.digest('hex'))
}

const IDENTITY = [
  ...['stream_id', 'user_pseudo_id', 'user_id', 'event_name', 'event_timestamp', 'event_bundle_sequence_id'],
  ...['batch_page_id', 'batch_ordering_id', 'batch_event_index'],
]

function readContext(row: JsonRow): WebContext {
  const [device, geo] = [row.readNestedRow('device'), row.readNestedRow('geo')]
  const web = device?.readNestedRow('web_info')
  return {
    browser: readField(web, 'browser') ?? readField(device, 'browser'),
    browserVersion: readField(web, 'browser_version') ?? readField(device, 'browser_version'),
    os: readField(device, 'operating_system'),
    osVersion: /[\d.]+/.exec(readField(device, 'operating_system_version') ?? '')?.[0],
    device: readField(device, 'category'),
    country: findCountry(readField(geo, 'country')),
    region: readField(geo, 'region'),
    city: readField(geo, 'city'),
    language: readField(device, 'language'),
  }
}

let countries: Map<string, string> | undefined

/** Finds the ISO 3166-1 code of a country that Google names in English. */
function findCountry(name: string | undefined): string | undefined {
  countries ??= nameCountries()
  return name === undefined ? undefined : countries.get(toKey(name))
}

/** Names that differ from the names in ICU. Rows keep the name that was current when Google wrote them. */
const OTHER_NAMES: Record<string, string> = {
  'Cabo Verde': 'CV',
  'Cape Verde': 'CV',
  'Czech Republic': 'CZ',
  'Falkland Islands (Islas Malvinas)': 'FK',
  Macau: 'MO',
  'Macedonia (FYROM)': 'MK',
  Swaziland: 'SZ',
  'The Bahamas': 'BS',
  'The Gambia': 'GM',
  Turkey: 'TR',
}
const LETTERS = Array.from({ length: 26 }, (_, i) => String.fromCharCode(65 + i))

function nameCountries(): Map<string, string> {
  const styles = ['long', 'short'] as const
  const [long, short] = styles.map((style) => new Intl.DisplayNames('en', { type: 'region', style, fallback: 'none' }))
  // Former codes such as UK and FX have the names of those that replaced them.
  const codes = LETTERS.flatMap((first) => LETTERS.map((second) => first + second)).filter(
    (code) => new Intl.Locale('und', { region: code }).region === code,
  )
  const pairs = codes.flatMap((code) =>
    [short?.of(code), long?.of(code)].flatMap((name) => (name === undefined ? [] : [[toKey(name), code] as const])),
  )
  return new Map([...Object.entries(OTHER_NAMES).map(([name, code]) => [toKey(name), code] as const), ...pairs])
}

/** Compares names without accents, apostrophes and the like. */
function toKey(name: string): string {
  return name
    .normalize('NFD')
    .replaceAll('&', 'and')
    .replace(/[^A-Za-z]/g, '')
    .toLowerCase()
}

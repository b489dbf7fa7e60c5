import { memberTexts } from '../json/texts.js'
import type { JsonValue } from '../json/value.js'
import { type Decoded, makeAlias, makeInsertId } from './message.js'
import { JsonRow, NoEvent, objectText, RowFault, unquotedNumber, withNumbers } from './row.js'
import { type Origin, readTimestamp, type Vendor } from './vendor.js'
import { makeWebEvent, PAGE_VIEW, readField, readUser, type WebContext, type WebPage } from './web.js'

/**
 * Matomo's visits, as the method `Live.getLastVisitsDetails` of its Reporting API returns them with `format=json`. Each
 * action of a visit is an event. Addresses of visitors are left out.
 * https://developer.matomo.org/api-reference/reporting-api#Live
 */
export const matomo: Vendor = {
  emptyFault:
    'Matomo answers with [] if there were no visits, so the request has failed, often because PHP had too little memory or time. Send it again.',
  messages: (row, options) => {
    const actions = row.readElements('actionDetails')
    if (!actions) throw new RowFault(describeOther(row))
    if (actions.length === 0) throw new NoEvent('The visit has no actions.')
    refuseTruncated(row)
    const visitor = readField(row, 'visitorId')
    const user = readUser(row, 'userId')
    const distinctId = user ?? visitor
    if (distinctId === undefined)
      throw new RowFault('The visit has neither a visitorId nor a userId, which Matomo only shows with a token_auth.')
    const idVisit = readField(row, 'idVisit')
    if (idVisit === undefined) throw new RowFault('The visit has no idVisit.')
    const context = readContext(row)
    const messages: Decoded[] = []
    let source: Pick<WebPage, 'referrer' | 'utm'> = readSource(row)
    for (const { action, time } of readActions(row, actions, { ...options })) {
      const { event, named, page, places = {} } = readAction(action)
      const isView = event === PAGE_VIEW
      const id = ['pageId', 'goalId', 'orderId', 'url'].map((name) => readField(action, name))
      const which = [readField(action, 'type') ?? '', id.find((part) => part !== undefined) ?? '', String(time)]
      messages.push(
        makeWebEvent({
          ...{ event, distinctId, time, properties: pickTexts(action, places), context },
          insertId: makeInsertId('matomo', visitor ?? '', idVisit, ...which),
          sessionId: idVisit,
          page: isView ? { ...page, ...source } : page,
          rest: ['$matomo', collectRest(action, page, [...Object.values(places), named])],
        }),
      )
      // All pages after the first were reached from the site itself.
      if (isView) source = { utm: {} }
    }
    return [...messages, ...makeAlias(user, visitor, 'inferred')]
  },
}

/** @throws RowFault if Matomo has left out actions */
function refuseTruncated(row: JsonRow): void {
  const left = readField(row, 'truncatedActionsCount')
  if (left === undefined || left === '0') return
  throw new RowFault(
    `Matomo has left out ${left.slice(0, 20)} actions of the visit: set visitor_log_maximum_actions_per_visit in its config.ini.php to more, and export it again.`,
  )
}

const HOUR_MS = 3_600_000
/** Offsets of time zones, in hours, that are not whole hours. */
const ODD_HOURS = [-9.5, -4.5, -3.5, -2.5, 3.5, 4.5, 5.5, 5.75, 6.5, 8.5, 8.75, 9.5, 10.5, 12.75, 13.75]
const OFFSETS = [...Array.from({ length: 27 }, (_, i) => i - 12), ...ODD_HOURS].map((hours) => hours * HOUR_MS)
/** How far times of actions may be from the visit's own, because Matomo takes the two separately. */
const TOLERANCE_MS = 60_000

/** The time of a visit, epoch ms. */
interface Span {
  first: number
  last: number
}

/**
 * Reads the actions of a visit with their times. Matomo writes these in the site's time zone as if they were UTC, but
 * writes the start and the end of the visit in real UTC, so the difference is the offset of the zone.
 * https://github.com/matomo-org/matomo/issues/22720
 */
function readActions(row: JsonRow, values: readonly JsonValue[], origin: Origin): { action: JsonRow; time: number }[] {
  const read = (text: string | undefined) => readTimestamp(text, origin, 's or ms')
  const actions = values.map((value) => new JsonRow(value))
  const local = actions.map((action) => read(action.readText('timestamp')))
  const [began, ended] = [row.readText('firstActionTimestamp'), row.readText('lastActionTimestamp')]
  if (began === undefined) {
    throw new RowFault('The visit has no firstActionTimestamp, without which the time zone of its actions is unknown.')
  }
  const span = { first: read(began), last: ended === undefined ? Number.POSITIVE_INFINITY : read(ended) }
  const times = toUtcTimes(local, span)
  return actions.map((action, i) => ({ action, time: times[i] ?? span.first }))
}

/**
 * Converts local times of a visit. If no single offset puts them into the visit, clocks have changed during it, and the
 * times that would be outside of it have an hour more or less. Within a visit of more than an hour, either may fit; then
 * the offset from before the change is used.
 */
function toUtcTimes(local: readonly number[], span: Span): number[] {
  const plain = move(local, nearestOffset(least(local) - span.first), 0, span)
  if (misfit(plain, span) <= TOLERANCE_MS) return plain
  // After clocks went back, the earliest local time need not be the first.
  const offsets = new Set(local.map((time) => nearestOffset(time - span.first)))
  for (const offset of offsets) {
    for (const change of [-HOUR_MS, HOUR_MS]) {
      const times = move(local, offset, change, span)
      if (misfit(times, span) <= TOLERANCE_MS) return times
    }
  }
  return plain
}

/** @param change of the offset, for times that would be outside of the visit */
function move(local: readonly number[], offset: number, change: number, { first, last }: Span): number[] {
  return local.map((time) => {
    const utc = time - offset
    const other = utc - change
    return (utc < first || utc > last) && other >= first && other <= last ? other : utc
  })
}

/** How far times are outside of the visit in all, and the first one from its start, ms. */
function misfit(times: readonly number[], { first, last }: Span): number {
  return times.reduce((sum, time) => sum + Math.max(first - time, time - last, 0), Math.abs(least(times) - first))
}

function nearestOffset(ms: number): number {
  return OFFSETS.reduce((best, offset) => (Math.abs(ms - offset) < Math.abs(ms - best) ? offset : best))
}

function least(times: readonly number[]): number {
  return times.reduce((least, time) => Math.min(least, time), Number.POSITIVE_INFINITY)
}

/** Describes a row that is not a visit, such as a saved error response. */
function describeOther(row: JsonRow): string {
  const message = row.value('result') === 'error' ? row.value('message') : undefined
  if (typeof message === 'string')
    return `Matomo answered with an error instead of visits: ${JSON.stringify(message.slice(0, 200))}.`
  return 'The row has no actionDetails, unlike visits of Live.getLastVisitsDetails with format=json. Other reports of Matomo are totals, which cannot become events.'
}

interface Action {
  event: string
  /** the field that names the event */
  named?: string
  page: WebPage
  /** the fields that become properties, by the names of these */
  places?: Record<string, string>
}

/** The type of an action about a part of a page such as a banner, for which Matomo has no name. */
const CONTENT = '13'

/** Reads an action by its `type`. An unknown type keeps its name. */
function readAction(action: JsonRow): Action {
  const type = readField(action, 'type') ?? 'action'
  const url = readField(action, 'url')
  const page = { url, utm: {} }
  switch (type) {
    case 'action':
      return { event: PAGE_VIEW, page: { url, title: readField(action, 'pageTitle') } }
    case 'event': {
      const places = { category: 'eventCategory', name: 'eventName', value: 'eventValue' }
      return { event: readField(action, 'eventAction') ?? type, named: 'eventAction', page, places }
    }
    case CONTENT: {
      const event = readField(action, 'contentInteraction') === undefined ? 'contentImpression' : 'contentInteraction'
      const names = { name: 'contentName', piece: 'contentPiece', target: 'contentTarget' }
      const places = { ...names, interaction: 'contentInteraction' }
      return { event, page, places }
    }
    case 'outlink':
      return { event: '$outbound_link', page }
    case 'download':
      return { event: '$download', page }
    case 'search': {
      const places = { query: 'siteSearchKeyword', category: 'siteSearchCategory', results: 'siteSearchCount' }
      return { event: type, page: { utm: {} }, places }
    }
    case 'ecommerceOrder':
    case 'ecommerceAbandonedCart': {
      const places = { order_id: 'orderId', revenue: 'revenue', items: 'itemDetails' }
      return { event: type, page: { utm: {} }, places }
    }
    case 'goal': {
      const places = { goal_id: 'goalId', revenue: 'revenue' }
      return { event: readField(action, 'goalName') ?? type, named: 'goalName', page, places }
    }
    default:
      return { event: type, page }
  }
}

/** Fields that are numbers, which many versions of PHP read from a database as strings. */
const NUMERIC = /^(?:eventValue|siteSearchCount|revenue|goalId|price|quantity)$/

/** Copies fields under other names. */
function pickTexts(row: JsonRow, places: Record<string, string>): (readonly [name: string, text: string])[] {
  return Object.entries(places).flatMap(([name, place]) => {
    const text = row.readText(place)
    if (text === undefined || text === '""' || text === 'false') return []
    return [[name, NUMERIC.test(place) ? unquotedNumber(text) : withNumbers(text, NUMERIC)] as const]
  })
}

/** Fields of any action that are stored elsewhere. */
const PLACED = ['type', 'timestamp', 'pageId']
/** Fields that only describe how Matomo shows an action. */
const SHOWN = /^(?:title|subtitle|icon.*|.*[Pp]retty|.*Icon|.*IconSVG)$/

/** @param used the fields that are stored elsewhere, as the name or a property of the event */
function collectRest(action: JsonRow, { url, title }: WebPage, used: readonly (string | undefined)[]): string {
  const placed = new Set([
    ...PLACED,
    ...used,
    ...(url === undefined ? [] : ['url']),
    ...(title === undefined ? [] : ['pageTitle']),
  ])
  const isEmpty = (text: string) => text === 'null' || text === '""'
  return objectText(
    [...memberTexts(action.text)].filter(([name, text]) => !placed.has(name) && !SHOWN.test(name) && !isEmpty(text)),
  )
}

/** Reads where a visit came from. Fields of a campaign other than its name need Matomo's marketing plugin. */
function readSource(row: JsonRow): Pick<WebPage, 'referrer' | 'utm'> {
  const referrer = readField(row, 'referrerUrl')
  if (row.value('referrerType') !== 'campaign') return { referrer }
  const read = (name: string) => readField(row, name)
  return {
    referrer,
    utm: {
      source: read('campaignSource'),
      medium: read('campaignMedium'),
      campaign: read('campaignName') ?? read('referrerName'),
      term: read('campaignKeyword') ?? read('referrerKeyword'),
      content: read('campaignContent'),
    },
  }
}

function readContext(row: JsonRow): WebContext {
  const read = (name: string) => readField(row, name)
  return {
    browser: read('browserName'),
    browserVersion: read('browserVersion'),
    os: read('operatingSystemName'),
    osVersion: read('operatingSystemVersion'),
    device: read('deviceType'),
    country: read('countryCode'),
    region: read('region'),
    city: read('city'),
    language: read('languageCode'),
  }
}

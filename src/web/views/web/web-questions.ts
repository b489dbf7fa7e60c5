import { labelBreakdown, labelFilter } from '../../../contract/labels.js'
import type { FieldName, Filter, Scalar, SessionsDefinition } from '../../../contract/questions.js'
import type { EventName } from '../../../contract/responses.js'
import { isSameJson } from '../../../contract/same-json.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { joinFilters } from '../../lib/filters.js'
import { capitalize } from '../../lib/format.js'
import { labelCountry } from '../../lib/intl.js'
import { findPageViews, HAS_PAGE, NO_BOTS } from '../../lib/page-views.js'

/** Rows of a panel. */
export const ROWS = 10
/** Maximum number of rows in its dialog and its CSV file, which is also the limit of a question. */
export const MAX_ROWS = 1000
/** Goals that are suggested. */
const USUAL_GOALS = 5
/** A question has ten series, one of them for all visits. */
export const MAX_GOALS = 9

/** Shared by all questions of the view. */
export interface WebSource {
  /** names of the page views of the project */
  pageViews: string[]
  /** the definition of a visit */
  sessions: SessionsDefinition
}

/** The most frequent events that are not page views. @param events the most frequent first */
export function suggestGoals(events: readonly EventName[]): string[] {
  const pageViews = findPageViews(events)
  return events
    .map(({ event }) => event)
    .filter((event) => event !== '' && !pageViews.includes(event))
    .slice(0, USUAL_GOALS)
}

/** @param where an additional filter of visits */
function buildVisits(where?: Filter): { event: string; where: Filter } {
  return { event: '$session', where: where ? ['and', [HAS_PAGE, where]] : HAS_PAGE }
}

function buildSeries(series: object[], { sessions }: WebSource, rest: object = {}): object {
  return { kind: 'series', series, sessions, ...rest }
}

/** The names of page views as a question takes them. */
function namePageViews({ pageViews }: WebSource): string | string[] {
  const [only = '', ...more] = pageViews
  return more.length > 0 ? pageViews : only
}

/** The question with the six numbers, whose series are in the order of `SERIES`. */
export function askNumbers(source: WebSource): object {
  const event = namePageViews(source)
  const average = (property: string) => ({ ...buildVisits(), metric: 'avg', property })
  const series: Record<keyof typeof SERIES, object> = {
    visitors: { event, metric: 'users' },
    visits: buildVisits(),
    views: { event },
    pages: average('session.pages'),
    bounces: buildVisits(['is', 'session.bounced', [true]]),
    seconds: average('session.seconds'),
  }
  return buildSeries(Object.values(series), source)
}

/** The places of the series in `askNumbers`. */
export const SERIES = { visitors: 0, visits: 1, views: 2, pages: 3, bounces: 4, seconds: 5 } as const

/** Counts the users who have sent anything in the last minutes. */
export function askOnline(where: Filter | null, source: WebSource, range: { from: number; to: number }): object {
  return buildSeries([{ event: '*', metric: 'users' }], source, { interval: 'none', ...range, where })
}

/** A list of values with the number of visitors of each. */
export interface Tab {
  id: string
  title: string
  /** the title of one value */
  one: string
  field: FieldName
  /** whether page views are counted instead of visits */
  ofPages?: true
  /** whether only visits with a value are listed */
  isSet?: true
  /** label for visits without a value */
  unset?: string
  label?: (value: Scalar) => string
}

/** The label of visits without a known source, as in other analytics products. */
const DIRECT = 'Direct / None'
const UNKNOWN = 'Unknown'

/** Panels of tabs, by the name of their parameter in the URL. */
export const PANELS: readonly { id: string; title: string; tabs: readonly Tab[] }[] = [
  {
    id: 'sources',
    title: 'Where visitors come from',
    tabs: [
      { id: 'channels', title: 'Channels', one: 'Channel', field: 'session.entry.page.channel' },
      { id: 'sources', title: 'Sources', one: 'Source', field: 'session.entry.page.source', unset: DIRECT },
      { id: 'campaigns', title: 'Campaigns', one: 'Campaign', field: 'session.entry.page.campaign', isSet: true },
    ],
  },
  {
    id: 'pages',
    title: 'Pages',
    tabs: [
      { id: 'pages', title: 'Pages', one: 'Page', field: 'page.path', ofPages: true },
      { id: 'entry', title: 'Entry pages', one: 'Entry page', field: 'session.entry.page.path' },
      { id: 'exit', title: 'Exit pages', one: 'Exit page', field: 'session.exit.page.path' },
    ],
  },
  {
    id: 'places',
    title: 'Places',
    tabs: [
      {
        id: 'countries',
        title: 'Countries',
        one: 'Country',
        field: 'context.country',
        unset: UNKNOWN,
        label: labelPlace,
      },
      { id: 'regions', title: 'Regions', one: 'Region', field: 'context.region', isSet: true },
      { id: 'cities', title: 'Cities', one: 'City', field: 'context.city', isSet: true },
    ],
  },
  {
    id: 'devices',
    title: 'Devices',
    tabs: [
      { id: 'browsers', title: 'Browsers', one: 'Browser', field: 'context.browser', unset: UNKNOWN },
      { id: 'systems', title: 'Systems', one: 'System', field: 'context.os', unset: UNKNOWN },
      { id: 'devices', title: 'Devices', one: 'Device', field: 'context.device', unset: UNKNOWN, label: labelDevice },
    ],
  },
]

/** The question of a tab. @param limit of its rows */
export function askTab({ field, ofPages, isSet }: Tab, source: WebSource, limit: number): object {
  const where: Filter | undefined = isSet ? ['set', field] : undefined
  const counted = ofPages ? { event: namePageViews(source), ...(where && { where }) } : buildVisits(where)
  return buildSeries([{ ...counted, metric: 'users' }], source, { interval: 'none', breakdown: [field], limit })
}

/** The filter that a click on a row adds. */
export function filterByValue({ field, ofPages }: Tab, value: Scalar, source: WebSource): Filter {
  const where: Filter = ['is', field, [value]]
  // A visit has many pages, but its own page fields describe the first one.
  return ofPages ? ['session_has', { event: namePageViews(source), where }] : where
}

/** Counts all visits and, for each goal, the visits that have the event. */
export function askGoals(goals: readonly string[], source: WebSource): object {
  const visits = goals.map((event) => buildVisits(filterByGoal(event)))
  return buildSeries([buildVisits(), ...visits], source, { interval: 'none' })
}

/** The visits that have an event. */
export function filterByGoal(event: string): Filter {
  return ['session_has', { event }]
}

/** Labels a value of a tab. */
export function labelValue({ label, unset }: Tab, value: Scalar): string {
  if (value === null && unset !== undefined) return unset
  return value === null || value === '' || !label ? labelBreakdown([value]) : label(value)
}

function labelPlace(value: Scalar): string {
  return labelCountry(String(value))
}

function labelDevice(value: Scalar): string {
  const text = String(value)
  return text === 'tv' ? 'TV' : capitalize(text)
}

/** The filters that all have to match. */
export function listFilters(where: Filter | null): Filter[] {
  if (where === null) return []
  return where[0] === 'and' ? where[1] : [where]
}

/** Adds a filter, unless it is there. */
export function addFilter(where: Filter | null, filter: Filter): Filter | null {
  const filters = listFilters(where)
  return filters.some((one) => isSameJson(one, filter)) ? where : joinFilters([...filters, filter])
}

/** Whether a filter excludes bots. */
export function leavesOutBots(where: Filter | null): boolean {
  return listFilters(where).some((one) => isSameJson(one, NO_BOTS))
}

/** Describes a filter in the words of the panels. */
export function describeFilter(filter: Filter): string {
  if (isSameJson(filter, NO_BOTS)) return 'Without bots'
  if (filter[0] === 'session_has') {
    const { event, where } = filter[1]
    if (where) return describeValue(where, (tab) => tab.ofPages === true) ?? escapeInvisible(labelFilter(filter))
    return typeof event === 'string' ? `Goal is ${event}` : escapeInvisible(labelFilter(filter))
  }
  return describeValue(filter, (tab) => tab.ofPages !== true) ?? escapeInvisible(labelFilter(filter))
}

function describeValue(filter: Filter, fits: (tab: Tab) => boolean): string | undefined {
  if (filter[0] !== 'is') return undefined
  const [, field, values] = filter
  const tab = PANELS.flatMap(({ tabs }) => tabs).find((one) => fits(one) && isSameJson(one.field, field))
  return tab && `${tab.one} is ${values.map((value) => labelValue(tab, value)).join(' or ')}`
}

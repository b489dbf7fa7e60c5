import { type Context, shortenVersion, spellLanguage } from '../contract/context.js'
import { isName } from '../contract/limits.js'
import { isPlaceholder } from '../contract/user-names.js'
import { memberTexts } from '../json/texts.js'
import type { SdkEvent } from './message.js'
import { isEmpty, type JsonRow, objectText } from './row.js'

/** An event in the export of a web analytics product, with values as the product spells them. */
export interface WebEvent {
  event: unknown
  distinctId: string
  /** epoch ms */
  time: number
  insertId: string
  sessionId: string | undefined
  page: WebPage
  /** JSON texts of further properties, by name; a property with the name of a page field goes into the rest */
  properties?: readonly (readonly [name: string, text: string])[] | undefined
  context: WebContext
  /** the fields of the row that are stored nowhere else: the property's name, and the text of an object */
  rest: readonly [name: string, text: string]
}

export interface WebPage {
  url?: string | undefined
  title?: string | undefined
  referrer?: string | undefined
  /** `source`, `medium`, `campaign`, `term` and `content`; default: the parameters of the url */
  utm?: Utm | undefined
}

type Utm = Partial<Record<(typeof UTM)[number], string | undefined>>

/** Fields of a context as the product spells them. */
export interface WebContext {
  browser?: string | undefined
  browserVersion?: string | undefined
  os?: string | undefined
  osVersion?: string | undefined
  device?: string | undefined
  /** ISO 3166-1, in any case; anything else counts as missing */
  country?: string | undefined
  region?: string | undefined
  city?: string | undefined
  language?: string | undefined
}

/** The name of page views that our own script sends. */
export const PAGE_VIEW = '$pageview'

const UTM = ['source', 'medium', 'campaign', 'term', 'content'] as const

/** Makes the event that our own script would have sent. */
export function makeWebEvent(web: WebEvent): SdkEvent {
  const { event, distinctId, time, insertId, sessionId, page, properties = [], rest } = web
  const { url, title, referrer } = page
  const utm = page.utm ?? findUtm(url)
  const texts = [
    ...Object.entries({ url, title, referrer }),
    ...UTM.map((name) => [`utm_${name}`, utm[name]] as const),
  ].flatMap(([name, value]) => (value ? [[name, JSON.stringify(value)] as const] : []))
  const own = new Map(texts)
  const taken = properties.filter(([name, text]) => own.has(name) && own.get(name) !== text)
  const restText = addMembers(rest[1], taken)
  const all = [
    ...texts,
    ...properties.filter(([name]) => !own.has(name)),
    ...(isEmpty(restText) ? [] : [[rest[0], restText] as const]),
  ]
  const parts = {
    ...{ event, distinct_id: distinctId, timestamp: String(time), properties: objectText(all) },
    session_id: isName(sessionId) ? sessionId : undefined,
    context: toContext(web.context),
  }
  return { type: 'event', parts, insertId }
}

/** @param object the text of an object */
function addMembers(object: string, members: (readonly [name: string, text: string])[]): string {
  if (members.length === 0) return object
  const added = objectText(members)
  return isEmpty(object) ? added : `${object.slice(0, object.lastIndexOf('}'))},${added.slice(1)}`
}

/** Reads the parameters that say which campaign led to a page. */
export function findUtm(url = ''): Utm {
  const query = /\?([^#]*)/.exec(url)?.[1] ?? ''
  if (!query.includes('utm_')) return {}
  const parameters = new URLSearchParams(query)
  return Object.fromEntries(UTM.map((name) => [name, parameters.get(`utm_${name}`) ?? undefined]))
}

/** Reads the columns that have the parameters of a campaign, such as `utm_source`; undefined if they are all empty. */
export function readUtm(row: JsonRow): Utm | undefined {
  const utm: Utm = Object.fromEntries(UTM.map((name) => [name, readField(row, `utm_${name}`)]))
  return Object.values(utm).every((value) => value === undefined) ? undefined : utm
}

/** Names of the columns and properties that have the parameters of a campaign. */
export const UTM_FIELDS: readonly string[] = UTM.map((name) => `utm_${name}`)

/** Returns the content of a field; undefined if it is missing or empty, or a database's spelling of that. */
export function readField(row: JsonRow | undefined, name: string): string | undefined {
  const text = row?.readNonEmpty(name)?.trim()
  return text === '' || text === '\\N' || text === 'NULL' ? undefined : text
}

/** Returns the text of an object with the fields that are not `placed`, and, of a table, that are not missing. */
export function withoutPlaced(row: JsonRow, placed: readonly string[]): string {
  const names = row.isTable ? [...memberTexts(row.text).keys()] : []
  return row.without([...placed, ...names.filter((name) => readField(row, name) === undefined)])
}

/** Like `readField`, for the name of a user; undefined for what sites send for visitors who are not signed in. */
export function readUser(row: JsonRow, name: string): string | undefined {
  const user = readField(row, name)
  return user === undefined || isPlaceholder(user) ? undefined : user
}

/** Values that products write for unknown fields of the context. */
const UNKNOWN = /^(?:\((?:not set|data deleted)\)|<other>|unknown|undefined|-)$/i

/** Our own spelling of names, by other products' spelling in lower case. */
const BROWSERS: Record<string, string> = {
  'android browser': 'Android Browser',
  'chrome mobile': 'Chrome',
  'chrome mobile ios': 'Chrome',
  'chrome webview': 'Chrome',
  'android webview': 'Chrome',
  'chromium-webview': 'Chrome',
  'edge-chromium': 'Microsoft Edge',
  'edge-ios': 'Microsoft Edge',
  'firefox mobile': 'Firefox',
  'firefox mobile ios': 'Firefox',
  'ios-webview': 'Safari',
  'mobile app': '',
  'mobile safari': 'Safari',
  'opera mobile': 'Opera',
  'opera-mini': 'Opera',
  'safari (in-app)': 'Safari',
  'samsung browser': 'Samsung Internet',
  'samsung internet': 'Samsung Internet',
  android: 'Android Browser',
  chrome: 'Chrome',
  crios: 'Chrome',
  edge: 'Microsoft Edge',
  'microsoft edge': 'Microsoft Edge',
  firefox: 'Firefox',
  fxios: 'Firefox',
  ie: 'Internet Explorer',
  ios: 'Safari',
  opera: 'Opera',
  safari: 'Safari',
  samsung: 'Samsung Internet',
  yandexbrowser: 'Yandex Browser',
}
const SYSTEMS: Record<string, string> = {
  'android os': 'Android',
  'chrome os': 'Chrome OS',
  'gnu/linux': 'Linux',
  'mac os': 'macOS',
  'mac os x': 'macOS',
  ipados: 'iOS',
  mac: 'macOS',
  macintosh: 'macOS',
  web: '',
}
const DEVICES: Record<string, NonNullable<Context['device']>> = {
  'feature phone': 'mobile',
  'smart tv': 'tv',
  console: 'console',
  desktop: 'desktop',
  laptop: 'desktop',
  mobile: 'mobile',
  phablet: 'mobile',
  smartphone: 'mobile',
  tablet: 'tablet',
  tv: 'tv',
}
/** Umami includes the version of Windows in the name. */
const WINDOWS = /^windows (\S+)$/i
/** Matomo writes `xx` for an unknown country, others `zz`. */
const COUNTRY = /^(?!xx|zz)[a-z]{2}$/i
const LANGUAGE = /^[a-z]{2,3}(?:[-_][a-z\d]{2,8}){0,3}$/i

/** Writes a context as our own intake would have; undefined if nothing is known. */
function toContext(context: WebContext): string | undefined {
  const { os, osVersion, ...given } = dropUnknown(context)
  const [, windows] = WINDOWS.exec(os ?? '') ?? []
  const system = windows === undefined ? os : 'Windows'
  const fields: { [Field in keyof Context]: Context[Field] | undefined } = {
    browser: rename(BROWSERS, given.browser),
    browser_version: given.browser === undefined ? undefined : shortenVersion(given.browserVersion),
    os: rename(SYSTEMS, system),
    os_version: os === undefined ? undefined : shortenVersion(osVersion ?? windows),
    device: given.device === undefined ? undefined : (findIn(DEVICES, given.device) ?? 'other'),
    country: COUNTRY.test(given.country ?? '') ? given.country?.toUpperCase() : undefined,
    region: given.region,
    city: given.city,
    language: LANGUAGE.test(given.language ?? '') ? spellLanguage(given.language ?? '') : undefined,
  }
  const known = Object.entries(fields).filter(([, value]) => isName(value))
  return known.length === 0 ? undefined : JSON.stringify(Object.fromEntries(known))
}

function dropUnknown(context: WebContext): WebContext {
  return Object.fromEntries(
    Object.entries<string | undefined>({ ...context }).filter(
      ([, value]) => value !== undefined && !UNKNOWN.test(value),
    ),
  )
}

function rename(names: Record<string, string>, name: string | undefined): string | undefined {
  return name === undefined ? undefined : (findIn(names, name) ?? name)
}

/** Looks a name up, ignoring case. A name may be one that every object has, such as `constructor`. */
function findIn<T>(table: Record<string, T>, name: string): T | undefined {
  const key = name.toLowerCase()
  return Object.hasOwn(table, key) ? table[key] : undefined
}

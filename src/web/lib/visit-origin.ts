import { type FieldName, splitField } from '../../contract/filters.js'
import { AD_CLICKS, type PagePlace } from '../../contract/page-fields.js'
import { isObject } from '../../contract/read-fields.js'
import { findSiteName } from '../../contract/sites.js'
import { getProjectSettings } from './project-settings.js'

interface Viewed {
  event: string
  timestamp: number
  properties: Record<string, unknown>
}

/**
 * How a visit began: `page.path` and `page.source` of its first page view, by the rules of questions.
 * @param events of the visit, the latest first
 * @returns null without a page view
 */
export function findVisitOrigin(events: readonly Viewed[]): { path: string; source: string | null } | null {
  const { page_views, page_fields } = getProjectSettings()
  const first = events.findLast(({ event }) => page_views.includes(event))
  if (!first) return null
  const read = (name: PagePlace) => findText(first.properties, page_fields[name])
  const url = read('url') ?? ''
  const [own, other] = [url, read('referrer') ?? ''].map(readHost)
  const from = other && other !== own ? (findSiteName(other) ?? other) : null
  const source = read('source') ?? findParameter(url, 'utm_source') ?? from ?? findAdSite(url)
  return { path: readPath(url || (read('path') ?? '')), source }
}

/** The first of the properties with a text value. */
function findText(properties: Record<string, unknown>, fields: readonly FieldName[]): string | null {
  for (const field of fields) {
    const [, ...path] = splitField(field)
    const value = path.reduce<unknown>((inner, name) => (isObject(inner) ? inner[name] : undefined), properties)
    if (typeof value === 'string' && value !== '') return value
  }
  return null
}

/** The first value of a parameter in the query of a URL. It stays encoded if the result would not be UTF-8. */
function findParameter(url: string, name: string): string | null {
  const [, value] = listParameters(url).find(([found]) => found === name) ?? []
  if (value === undefined) return null
  const decoded = new URLSearchParams(`value=${value}`).get('value') ?? ''
  return decoded.includes('\ufffd') ? value : decoded
}

/** The site whose ad led to a URL. */
function findAdSite(url: string): string | null {
  const [name = ''] = listParameters(url).find(([name]) => Object.hasOwn(AD_CLICKS, name)) ?? []
  return AD_CLICKS[name] ?? null
}

/**
 * The parameters with a value in the query of a URL, which may be relative. Names stay encoded, because questions only
 * match names that are not encoded.
 */
function listParameters(url: string): [name: string, value: string][] {
  const [, query = ''] = /^[^?#]*\?([^#]*)/.exec(url) ?? []
  return query.split('&').flatMap((parameter) => {
    const [, name = '', value = ''] = /^([^=]*)=(.+)$/s.exec(parameter) ?? []
    return value === '' ? [] : [[name, value]]
  })
}

/** The host of a URL in lower case, without user, port and `www.`; empty if there is none. */
function readHost(url: string): string {
  const [, authority = ''] = /^(?:[a-z][a-z0-9+.-]*:)?\/\/([^/?#\t]*)/i.exec(url) ?? []
  const host = authority.replace(/^.*@/s, '').replace(/:[0-9]*$/, '')
  return host.toLowerCase().replace(/^www\./, '')
}

/** The path of a URL, `/` if the URL has none; empty without a URL. */
function readPath(url: string): string {
  if (url === '') return ''
  return url.replace(/^(?:[a-z][a-z0-9+.-]*:)?\/\/[^/?#]*/i, '').replace(/[?#].*$/s, '') || '/'
}

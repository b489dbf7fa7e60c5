import type { FieldName } from '../../contract/filters.js'
import { AD_CLICKS, type PagePlace } from '../../contract/page-fields.js'
import { isObject } from '../../contract/read-fields.js'
import { getProjectSettings } from './project-settings.js'

interface Viewed {
  event: string
  timestamp: number
  properties: Record<string, unknown>
}

/**
 * How a visit began: the path of its first page view, and the source that led there. Uses the same properties as the
 * page fields of questions, but does not know the names of sites.
 * @param events of the visit, the latest first
 * @returns null without a page view
 */
export function findVisitOrigin(events: readonly Viewed[]): { path: string; source: string | null } | null {
  const { page_views, page_fields } = getProjectSettings()
  const first = events.findLast(({ event }) => page_views.includes(event))
  if (!first) return null
  const read = (name: PagePlace) => findText(first.properties, page_fields[name])
  const address = read('url')
  const url = parseUrl(address)
  const referrer = parseUrl(read('referrer'))
  const [own, other] = [url, referrer].map((one) => one?.hostname.replace(/^www\./, ''))
  const from = other && other !== own ? other : null
  const source = read('source') ?? findParameter(address ?? '', 'utm_source') ?? from ?? findAdSite(address ?? '')
  return { path: url?.pathname ?? address?.replace(/[?#].*$/s, '') ?? read('path') ?? '', source }
}

/** The first of the properties with a text value. */
function findText(properties: Record<string, unknown>, fields: readonly FieldName[]): string | null {
  for (const field of fields) {
    const [, ...path] = typeof field === 'string' ? field.split('.') : field
    const value = path.reduce<unknown>((inner, name) => (isObject(inner) ? inner[name] : undefined), properties)
    if (typeof value === 'string' && value !== '') return value
  }
  return null
}

/** The first value of a parameter in the query of a URL. */
function findParameter(url: string, name: string): string | null {
  const [, value] = listParameters(url).find(([found]) => found === name) ?? []
  return value === undefined ? null : new URLSearchParams(`value=${value}`).get('value')
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

function parseUrl(text: string | null): URL | null {
  return text !== null && URL.canParse(text) ? new URL(text) : null
}

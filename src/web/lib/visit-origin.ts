import { PAGE_FIELDS, PAGE_VIEWS } from '../../contract/page-fields.js'
import { isObject } from '../../contract/read-fields.js'

interface Viewed {
  event: string
  timestamp: number
  properties: Record<string, unknown>
}

/**
 * How a visit began: the path of its first page view and the source that led there, from the same properties as the
 * fields of pages in questions, as far as they are known without the names of sites.
 * @param events of the visit, the latest first
 * @returns null without a page view
 */
export function findVisitOrigin(events: readonly Viewed[]): { path: string; source: string | null } | null {
  const first = events.findLast(({ event }) => PAGE_VIEWS.includes(event))
  if (!first) return null
  const read = (names: readonly string[]) => findText(first.properties, names)
  const url = parseUrl(read(PAGE_FIELDS.url))
  const referrer = parseUrl(read(PAGE_FIELDS.referrer))
  const from = referrer && referrer.host !== url?.host ? referrer.hostname.replace(/^www\./, '') : null
  return { path: url?.pathname ?? read(PAGE_FIELDS.path) ?? '', source: read(PAGE_FIELDS.source) ?? from }
}

/** The first of the properties that has a text; a name with a dot may be that of a property within an object. */
function findText(properties: Record<string, unknown>, names: readonly string[]): string | null {
  for (const name of names) {
    const within = name
      .split('.')
      .reduce<unknown>((value, part) => (isObject(value) ? value[part] : undefined), properties)
    const text = [properties[name], within].find((value) => typeof value === 'string' && value !== '')
    if (typeof text === 'string') return text
  }
  return null
}

function parseUrl(text: string | null): URL | null {
  return text !== null && URL.canParse(text) ? new URL(text) : null
}

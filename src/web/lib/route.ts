/**
 * The state of the page. It is kept in the fragment of the URL, so that links contain the whole state and no server
 * sees it.
 */
export interface Route {
  /** the first part of the path, such as `users` */
  view: string
  /** the decoded parts after it */
  rest: string[]
  query: URLSearchParams
}

/** @param hash such as `#/users/ada?tab=events` */
export function parseRoute(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s, 2)
  const [view = '', ...rest] = path.split('/').map(decodePart)
  return { view, rest, query: new URLSearchParams(query) }
}

/** @param parts of the path; @param query empty values are omitted */
export function linkTo(parts: string[], query: Record<string, string> = {}): string {
  const entries = Object.entries(query).filter(([, value]) => value !== '')
  const search = entries.length > 0 ? `?${new URLSearchParams(entries)}` : ''
  return `#/${parts.map(encodeURIComponent).join('/')}${search}`
}

/** The page number in the query; 1 if there is none. */
export function parsePage(query: URLSearchParams): number {
  return Math.max(1, Math.floor(Number(query.get('page'))) || 1)
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

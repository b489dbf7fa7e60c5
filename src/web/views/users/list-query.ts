import { formatExactJson } from '../../../contract/exact-json.js'
import type { Filter } from '../../../contract/filters.js'
import { isFilter } from '../../lib/filters.js'
import { parseJson } from '../../lib/json-text.js'
import { linkTo, parsePage } from '../../lib/route.js'

/** The state of the list of users, which is kept in the URL. */
export interface ListQuery {
  search: string
  filter: Filter | null
  /** names of properties */
  columns: string[]
  /** from 1 */
  page: number
}

/** @param query of the route; invalid parts are ignored */
export function parseListQuery(query: URLSearchParams): ListQuery {
  const filter = parseJson(query.get('where') ?? '')
  const columns = parseJson(query.get('columns') ?? '')
  return {
    search: query.get('search') ?? '',
    filter: isFilter(filter) ? filter : null,
    columns: Array.isArray(columns) ? columns.filter((name) => typeof name === 'string') : [],
    page: parsePage(query),
  }
}

export function linkToList({ search, filter, columns, page }: ListQuery): string {
  return linkTo(['users'], {
    search,
    where: filter ? formatExactJson(filter) : '',
    columns: columns.length > 0 ? JSON.stringify(columns) : '',
    page: page > 1 ? String(page) : '',
  })
}

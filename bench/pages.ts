import type { ClickHouse } from '../src/clickhouse/client.js'
import type { Parameters } from '../src/clickhouse/parameters.js'
import { Shards } from '../src/clickhouse/shards.js'
import type { RowFormat } from '../src/contract/formats.js'
import { lastIdAt } from '../src/model/event-id.js'
import { readEventRun } from '../src/store/event-export.js'
import { type EventPage, readEventPage } from '../src/store/event-pages.js'
import type { HttpRequest } from './requests.js'
import { PROJECT, type Store } from './store.js'

export const PAGE = 10_000
/** Greater than any id. */
const UP_TO = lastIdAt(2n ** 64n - 1n)

interface Query {
  query: string
  parameters: Parameters
  settings: Record<string, string | number>
}

/** The service's page, by its number. */
export function servicePage(page: number): HttpRequest {
  return { method: 'GET', path: `/public/events?limit=${PAGE}&page=${page}` }
}

/** The service's page, by the `next` of the previous one. */
export function servicePageAt(cursor: string): HttpRequest {
  return { method: 'GET', path: `/public/events?limit=${PAGE}&cursor=${cursor}` }
}

/** The query with which the service reads a page, as a request to ClickHouse. */
export async function directPage(
  store: Store,
  page: Pick<EventPage, 'offset'> & Partial<EventPage>,
  changed: Query['settings'] = {},
): Promise<HttpRequest> {
  const asked = { projectId: PROJECT, upTo: UP_TO, limit: PAGE, ...page }
  return directRequest(store, await recorded((shards) => readEventPage(shards, asked)), changed)
}

/** The query with which the service exports the whole project, as a request to ClickHouse. */
export async function directExport(store: Store, format: RowFormat): Promise<HttpRequest> {
  const all = { projectId: PROJECT, upTo: UP_TO, before: null }
  return directRequest(store, await recorded((shards) => readEventRun(shards, format, all, {})))
}

function directRequest(
  store: Store,
  { query, parameters, settings }: Query,
  changed: Query['settings'] = {},
): HttpRequest {
  const named = Object.entries(parameters).map(([name, value]) => [`param_${name}`, String(value)])
  return {
    method: 'POST',
    path: store.path({ ...settings, ...Object.fromEntries(named), ...changed }),
    body: query,
    headers: { authorization: store.authorization },
  }
}

/** Records the query that the service's own code would send. */
async function recorded(read: (shards: Shards) => Promise<unknown>): Promise<Query> {
  let sent: Query | undefined
  const recorder = {
    bytes: async (query: string, parameters: Parameters, settings: Query['settings']) => {
      sent = { query, parameters, settings }
    },
  }
  await read(Shards.of(recorder as unknown as ClickHouse))
  if (!sent) throw new Error('the service no longer reads events through ClickHouse.bytes')
  return sent
}

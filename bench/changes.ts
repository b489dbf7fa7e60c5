import type { LoadResult } from './load.js'
import type { HttpRequest, RequestList } from './requests.js'
import { type Filled, PROJECT, type Store } from './store.js'

/** A prime, so that its multiples reach every event before one is repeated. */
const STRIDE = 7_368_787

/** Ids of `count` different events, scattered over the project. */
export function scattered(filled: Filled, count: number): string[] {
  return Array.from({ length: count }, (_, i) => filled.id((i * STRIDE) % filled.count))
}

export function update(id: string, i: number): HttpRequest {
  return { method: 'PUT', path: `/public/events/${id}`, body: `{"properties":{"edited":${i}}}` }
}

export function remove(id: string): HttpRequest {
  return { method: 'DELETE', path: `/public/events/${id}` }
}

/** The statements that the fastest possible service would use: one for `size` events. */
export function statements(store: Store, ids: string[], size: number): HttpRequest[] {
  return Array.from({ length: Math.floor(ids.length / size) }, (_, i) => {
    const some = ids.slice(i * size, (i + 1) * size).map((id) => `'${id}'`)
    return {
      method: 'POST',
      path: store.path({}),
      headers: { authorization: store.authorization },
      body: `UPDATE events SET properties = '{"edited":${i}}' WHERE project_id = '${PROJECT}' AND event_id IN (${some})`,
    }
  })
}

/** Requests that successive measurements use up: all are sent before one is repeated. */
export class Supply {
  readonly #requests: RequestList
  #from = 0

  constructor(requests: RequestList) {
    this.#requests = requests
  }

  /** number sent so far */
  get used(): number {
    return this.#from
  }

  async use(
    connections: number,
    send: (some: { requests: RequestList; from: number; connections: number }) => Promise<LoadResult>,
  ): Promise<LoadResult> {
    const result = await send({ requests: this.#requests, from: this.#from, connections })
    // At the end each connection has one request in flight, which is not counted, and wrk skips one at its start.
    this.#from += result.requests + connections + 1
    return result
  }
}

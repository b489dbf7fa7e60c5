import type { Readable } from 'node:stream'
import type { Shards } from '../clickhouse/shards.js'
import { invalidField } from '../contract/errors.js'
import type { RowFormat } from '../contract/formats.js'
import { formatCursor, type Order, parseCursor } from '../model/cursor.js'
import { lastIdAt } from '../model/event-id.js'
import type { EventFilter } from '../store/event-pages.js'
import type { SearchLimits } from '../store/event-search.js'
import { EventWalks, type PageRequest } from '../store/event-walks.js'
import { wrapRows } from '../store/page.js'
import type { Barrier } from './read-barrier.js'

/** A client's request for a page of a project's events. */
export interface EventPageRequest {
  projectId: string
  filter: EventFilter
  limit: number
  /** the `next` of an earlier page */
  cursor?: string | undefined
  page?: number | undefined
  /** default: the order of the cursor, or else `asc` */
  order?: Order | undefined
}

/** A page in a format that has no envelope. */
export interface RowsPage {
  rows: Readable
  /** the cursor of the next page, null after the last one */
  next: string | null
  pending: number
}

/** Reads pages of events. Every read waits at the read barrier, so it sees everything accepted before it. */
export class EventReads {
  readonly #barrier: Pick<Barrier, 'waitForProject'>
  readonly #walks: EventWalks

  constructor(shards: Shards, barrier: Pick<Barrier, 'waitForProject'>, limits: SearchLimits | undefined) {
    this.#barrier = barrier
    this.#walks = new EventWalks(shards, limits)
  }

  /**
   * A page with its envelope, as JSON.
   * @throws ApiError `invalid_request` for a wrong cursor, `unavailable`
   */
  async json(asked: EventPageRequest, signal: AbortSignal): Promise<Readable> {
    const { wanted, pending } = await this.#wanted(asked)
    const { rows, next, isShort, hasNext } = await this.#walks.read('json', wanted, signal)
    const { page, limit, order } = wanted
    return wrapRows(rows, '{"status":1,"error":null,"events":[', (nextId) => {
      const first = next === undefined ? nextId : next
      if (first === null && hasNext) throw new Error('events of a page were deleted while it was read')
      this.#walks.remember(wanted, isShort ? null : first)
      const cursor = first && formatCursor(first, order)
      const rest = { page: page ?? 1, limit, hasMore: first !== null, next: cursor, pending }
      return `],${JSON.stringify(rest).slice(1)}`
    })
  }

  /** A page without an envelope. @throws like `json` */
  async rows(format: RowFormat, asked: EventPageRequest, signal: AbortSignal): Promise<RowsPage> {
    const { wanted, pending } = await this.#wanted(asked)
    const { rows, next, isShort } = await this.#walks.read(format, wanted, signal)
    this.#walks.remember(wanted, isShort ? null : (next ?? null))
    return { rows, next: next ? formatCursor(next, wanted.order) : null, pending }
  }

  async #wanted({ cursor: text, ...asked }: EventPageRequest): Promise<{ wanted: PageRequest; pending: number }> {
    const { projectId, filter, limit, page } = asked
    const cursor = text === undefined ? null : readCursor(text, asked.order)
    const order = cursor?.order ?? asked.order ?? 'asc'
    const { stored, pending, deletions } = await this.#barrier.waitForProject(projectId)
    // Without this bound, a page could contain half of a block, and the next page would skip the other half.
    const upTo = lastIdAt(stored)
    return { wanted: { projectId, filter, order, limit, startAt: cursor?.id ?? null, page, upTo, deletions }, pending }
  }
}

/**
 * Parses a cursor that a client sent back.
 * @param order the order that it must have; absent: any
 * @throws ApiError `invalid_request`
 */
export function readCursor(text: string, order?: Order): { id: string; order: Order } {
  const cursor = parseCursor(text)
  if (cursor && cursor.order === (order ?? cursor.order)) return cursor
  const message = cursor
    ? `comes from a list in ${cursor.order} order, not in ${order}`
    : 'must be the `next` of an earlier response, or its `x-next-cursor`'
  throw invalidField('/cursor', message)
}

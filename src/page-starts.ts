import { offsetOf } from './store/page.js'

/** Walks that are remembered; the one used longest ago is forgotten first. */
const MAX_WALKS = 1000
/** Pages that are remembered of a walk. */
const MAX_PAGES = 2000

/** Where a page begins: `offset` rows after an event, or after the first one where no event is given. */
export interface PageStart {
  startAt?: string
  offset: number
}

/**
 * Remembers where pages began, so that a walk by page numbers costs the same on every page. A walk is named by all that
 * decides which events are on its pages, the number of the project's deletions included: after one, pages begin elsewhere.
 * Only ever a shortcut, kept by each process for itself.
 */
export class PageStarts {
  readonly #walks = new Map<string, Map<number, string>>()

  /** The nearest place from which the page can be reached. */
  find(walk: string, page: number, limit: number): PageStart {
    const starts = this.#walks.get(walk)
    let nearest = 1
    for (const known of starts?.keys() ?? []) if (known <= page && known > nearest) nearest = known
    const startAt = starts?.get(nearest)
    return { ...(startAt !== undefined && { startAt }), offset: offsetOf(page - nearest + 1, limit) }
  }

  /** For a walk from the newest to the oldest, whose later pages depend on what its first page began with. */
  restart(walk: string): void {
    this.#walks.delete(walk)
  }

  remember(walk: string, page: number, startAt: string): void {
    const starts = this.#walks.get(walk) ?? new Map<number, string>()
    this.#walks.delete(walk)
    this.#walks.set(walk, starts)
    starts.delete(page)
    starts.set(page, startAt)
    forgetOldest(starts, MAX_PAGES)
    forgetOldest(this.#walks, MAX_WALKS)
  }
}

function forgetOldest(map: Map<unknown, unknown>, limit: number): void {
  if (map.size <= limit) return
  for (const oldest of map.keys()) {
    map.delete(oldest)
    return
  }
}

import { toOffset } from './page.js'

/** Maximum size of all walks, bytes. The least recently used walk is evicted first. */
const MAX_BYTES = 16 * 1024 * 1024
/** Pages that are remembered per walk. */
const MAX_PAGES = 2000
/** An id in a Map: 36 characters, their header, and the Map's entry in a half-full table. */
const PAGE_BYTES = 160
/** A Map and its entry among the walks, without the walk's name. */
const WALK_BYTES = 500

/** Where a page begins: `offset` rows after an event; without `startAt`, after the first event. */
export interface PageStart {
  startAt?: string
  offset: number
}

/**
 * Remembers where pages began, so that a walk by page numbers costs the same on every page. The key of a walk contains
 * everything that determines the events on its pages, including the project's deletions so far, because they shift
 * pages. Each process has its own index, which only saves time.
 */
export class PageIndex {
  readonly #walks = new Map<string, Map<number, string>>()
  readonly #maxBytes: number
  #bytes = 0

  constructor(maxBytes = MAX_BYTES) {
    this.#maxBytes = maxBytes
  }

  /** Bytes in use, estimated on the high side. */
  get bytes(): number {
    return this.#bytes
  }

  /** The nearest remembered start from which the page can be reached. */
  find(walk: string, page: number, limit: number): PageStart {
    const starts = this.#walks.get(walk)
    let nearest = 1
    for (const known of starts?.keys() ?? []) if (known <= page && known > nearest) nearest = known
    const startAt = starts?.get(nearest)
    return { ...(startAt !== undefined && { startAt }), offset: toOffset(page - nearest + 1, limit) }
  }

  /**
   * Forgets a walk. Needed for walks that begin at the newest event: their pages depend on where the first page began.
   */
  restart(walk: string): void {
    this.#bytes -= estimateBytes(walk, this.#walks.get(walk))
    this.#walks.delete(walk)
  }

  remember(walk: string, page: number, startAt: string): void {
    const starts = this.#walks.get(walk) ?? new Map<number, string>()
    this.restart(walk)
    starts.delete(page)
    starts.set(page, startAt)
    if (starts.size > MAX_PAGES) starts.delete(findOldest(starts) ?? page)
    this.#walks.set(walk, starts)
    this.#bytes += estimateBytes(walk, starts)
    while (this.#bytes > this.#maxBytes) this.restart(findOldest(this.#walks) ?? walk)
  }
}

/** Estimated size of a walk; its name may take two bytes per character. */
function estimateBytes(walk: string, starts: Map<number, string> | undefined): number {
  return starts === undefined ? 0 : WALK_BYTES + 2 * walk.length + PAGE_BYTES * starts.size
}

function findOldest<Key>(map: Map<Key, unknown>): Key | undefined {
  return map.keys().next().value
}

/** Enough for a file that people read; `tallyhouse export` exports everything. */
const MAX_ROWS = 10_000

/**
 * Reads the rows of all pages, at most 10 000.
 * @param read reads a page, counted from 1
 * @returns the rows, and whether there are more
 */
export async function readAllPages<T>(
  read: (page: number) => Promise<{ rows: T[]; hasMore: boolean }>,
): Promise<{ rows: T[]; isCut: boolean }> {
  const all: T[] = []
  for (let page = 1; ; page++) {
    const { rows, hasMore } = await read(page)
    all.push(...rows)
    if (hasMore && all.length < MAX_ROWS) continue
    return { rows: all.slice(0, MAX_ROWS), isCut: hasMore || all.length > MAX_ROWS }
  }
}

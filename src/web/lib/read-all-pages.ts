/** Enough for a file that people read; `tallyhouse export` exports everything. */
const MAX_ROWS = 10_000

/**
 * Reads the rows of all pages, at most 10 000.
 * @param read reads a page, counted from 1
 * @param getRows the rows of a page
 * @returns the rows, and whether there are more
 */
export async function readAllPages<P extends { hasMore: boolean }, T>(
  read: (page: number) => Promise<P>,
  getRows: (page: P) => T[],
): Promise<{ rows: T[]; isCut: boolean }> {
  const all: T[] = []
  for (let page = 1; ; page++) {
    const found = await read(page)
    const { hasMore } = found
    all.push(...getRows(found))
    if (hasMore && all.length < MAX_ROWS) continue
    return { rows: all.slice(0, MAX_ROWS), isCut: hasMore || all.length > MAX_ROWS }
  }
}

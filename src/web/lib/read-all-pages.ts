import { MAX_PAGE } from '../../contract/limits.js'

/**
 * Reads the rows of all pages, at most 10 000, and each row once, because a new one moves others to the next page. Not
 * promised: if a row is removed meanwhile, another one can be missing.
 * @param read reads a page, counted from 1
 * @param getRows the rows of a page
 * @param getId what tells a row from the others
 * @returns the rows, and whether there are more
 */
export async function readAllPages<P extends { hasMore: boolean }, T>(
  read: (page: number) => Promise<P>,
  getRows: (page: P) => T[],
  getId: (row: T) => string,
): Promise<{ rows: T[]; isCut: boolean }> {
  const all = new Map<string, T>()
  for (let page = 1; ; page++) {
    const found = await read(page)
    for (const row of getRows(found)) all.set(getId(row), row)
    const { hasMore } = found
    if (hasMore && all.size < MAX_PAGE) continue
    return { rows: [...all.values()].slice(0, MAX_PAGE), isCut: hasMore || all.size > MAX_PAGE }
  }
}

/** A file for people; all that a project has is exported by the command. */
const MAX_ROWS = 10_000

/**
 * The rows of all pages, at most 10 000.
 * @param read reads one, counted from 1
 */
export async function readAllPages<T>(read: (page: number) => Promise<{ rows: T[]; hasMore: boolean }>): Promise<T[]> {
  const all: T[] = []
  for (let page = 1; ; page++) {
    const { rows, hasMore } = await read(page)
    all.push(...rows)
    if (!hasMore || all.length >= MAX_ROWS) return all.slice(0, MAX_ROWS)
  }
}

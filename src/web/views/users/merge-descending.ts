/** One of several descending lists that are read page by page. */
export interface PartialList<T> {
  /** items read but not merged yet */
  items: T[]
  /** whether everything has been read */
  isComplete: boolean
}

/**
 * Merges lists that are sorted by descending `eventId`, up to the point to which all of them have been read.
 * @returns the merged items, and the lists without them
 */
export function mergeDescending<T extends { eventId: string }, L extends PartialList<T>>(
  lists: (L & PartialList<T>)[],
): { merged: T[]; rest: L[] } {
  const open = lists.filter(({ isComplete }) => !isComplete)
  if (open.some(({ items }) => items.length === 0)) return { merged: [], rest: lists }
  const frontier =
    open
      .flatMap(({ items }) => items.at(-1)?.eventId ?? [])
      .sort()
      .at(-1) ?? ''
  const merged = lists.flatMap(({ items }) => items.filter(({ eventId }) => eventId >= frontier))
  const rest = lists.map((list) => ({ ...list, items: list.items.filter(({ eventId }) => eventId < frontier) }))
  return { merged: merged.sort((a, b) => (a.eventId < b.eventId ? 1 : -1)), rest }
}

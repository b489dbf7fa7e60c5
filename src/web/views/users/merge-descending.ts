/** One of several lists that are read bit by bit, newest first. */
export interface PartialList<T> {
  /** what was read of it and not merged yet */
  items: T[]
  /** whether there is nothing more to read */
  isComplete: boolean
}

/**
 * Takes from lists that each fall by `eventId` what no list can still have something before; the rest waits until more of
 * its neighbours was read.
 * @returns what was merged, falling, and the lists without it
 */
export function mergeDescending<T extends { eventId: string }>(
  lists: PartialList<T>[],
): { merged: T[]; rest: PartialList<T>[] } {
  const open = lists.filter(({ isComplete }) => !isComplete)
  if (open.some(({ items }) => items.length === 0)) return { merged: [], rest: lists }
  const frontier =
    open
      .flatMap(({ items }) => items.at(-1)?.eventId ?? [])
      .sort()
      .at(-1) ?? ''
  const merged = lists.flatMap(({ items }) => items.filter(({ eventId }) => eventId >= frontier))
  const rest = lists.map(({ items, isComplete }) => {
    return { items: items.filter(({ eventId }) => eventId < frontier), isComplete }
  })
  return { merged: merged.sort((a, b) => (a.eventId < b.eventId ? 1 : -1)), rest }
}

/** One of several lists that are read bit by bit, newest first. */
export interface Strand<T> {
  /** what was read of it and not taken yet */
  items: T[]
  /** whether there is nothing more to read */
  isOver: boolean
}

/**
 * Takes from lists that each fall by `eventId` what no list can still have something before; the rest waits until more of
 * its neighbours was read.
 * @returns what was taken, falling, and the lists without it
 */
export function takeFalling<T extends { eventId: string }>(strands: Strand<T>[]): { taken: T[]; rest: Strand<T>[] } {
  const open = strands.filter(({ isOver }) => !isOver)
  if (open.some(({ items }) => items.length === 0)) return { taken: [], rest: strands }
  const frontier =
    open
      .flatMap(({ items }) => items.at(-1)?.eventId ?? [])
      .sort()
      .at(-1) ?? ''
  const taken = strands.flatMap(({ items }) => items.filter(({ eventId }) => eventId >= frontier))
  const rest = strands.map(({ items, isOver }) => {
    return { items: items.filter(({ eventId }) => eventId < frontier), isOver }
  })
  return { taken: taken.sort((a, b) => (a.eventId < b.eventId ? 1 : -1)), rest }
}

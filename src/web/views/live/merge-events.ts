/** Something with an id that sorts as it came. */
interface Identified {
  eventId: string
}

/** The newest events that are known: those that match what is wanted. */
export interface LatestEvents<E> {
  /** newest first */
  events: E[]
  /** what is wanted and is not among them is older than this id; null if they are all */
  since: string | null
}

/**
 * What is known once the newest were read again, newest first.
 * @param seen the id of the last event that came before; those behind it are known by `latest` only
 */
export function mergeLatest<E extends Identified>(
  known: E[],
  { events, since }: LatestEvents<E>,
  seen: string,
  limit: number,
): E[] {
  // Between what was known and what was read, there may be others.
  if (since === null || seen < since) return events.slice(0, limit)
  return [...events, ...known.filter(({ eventId }) => eventId < since)].slice(0, limit)
}

/** What is known once further events have come. @param come oldest first */
export function addNewEvents<E extends Identified>(known: E[], come: E[], limit: number): E[] {
  const newest = known[0]?.eventId ?? ''
  const added = come.filter(({ eventId }) => eventId > newest).reverse()
  return added.length > 0 ? [...added, ...known].slice(0, limit) : known
}

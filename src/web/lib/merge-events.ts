/** An event id; ids sort in the order of acceptance. */
interface Identified {
  eventId: string
}

/** The newest events that match the filters. */
export interface LatestEvents<E> {
  /** newest first */
  events: E[]
  /** all matching events that are not listed are older than this id; null if all are listed */
  since: string | null
}

/**
 * Merges the newest events into the list.
 * @param seen id of the last event received before; later ones are only in `latest`
 */
export function mergeLatest<E extends Identified>(
  current: E[],
  { events, since }: LatestEvents<E>,
  seen: string,
  limit: number,
): E[] {
  // There may be a gap between the two lists.
  if (since === null || seen < since) return events.slice(0, limit)
  return [...events, ...current.filter(({ eventId }) => eventId < since)].slice(0, limit)
}

/** Adds new events to the list. @param incoming new events, oldest first */
export function addNewEvents<E extends Identified>(current: E[], incoming: E[], limit: number): E[] {
  const newest = current[0]?.eventId ?? ''
  const added = incoming.filter(({ eventId }) => eventId > newest).reverse()
  return added.length > 0 ? [...added, ...current].slice(0, limit) : current
}

/** Replaces an event of the list; null removes it. */
export function replaceEvent<E extends Identified>(current: E[], eventId: string, event: E | null): E[] {
  return current.flatMap((one) => (one.eventId !== eventId ? [one] : event ? [event] : []))
}

/**
 * The lane of an idempotency key, or of a profile or session: all its writes must go to one journal. Stored data
 * depends on this function, so it must never change.
 * @param digest SHA-256, hexadecimal (see `toStateKey` and IdempotencyKey)
 * @param lanes number of lanes in the layout
 * @returns from 0
 */
export function chooseLane(digest: string, lanes: number): number {
  return lanes === 1 ? 0 : Number.parseInt(digest.slice(0, 8), 16) % lanes
}

/**
 * The lane of a key: of an idempotency key, or of a profile or session, whose writes must meet in one journal. Part of the
 * layout of a store, so it never changes.
 * @param digest a SHA-256, hexadecimal, as `stateKeyOf` and IdempotencyKey have it
 * @param lanes how many the layout has
 * @returns from 0
 */
export function laneOf(digest: string, lanes: number): number {
  return lanes === 1 ? 0 : Number.parseInt(digest.slice(0, 8), 16) % lanes
}

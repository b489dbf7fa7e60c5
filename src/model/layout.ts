/** How many lanes and shards a store has. Both are counted from 0. */
export interface Layout {
  /** counts the changes, from 1; journals refuse processes that were started for another one */
  version: number
  lanes: number
  shards: number
}

const VERSIONS = 2 ** 24
const COUNTS = 2 ** 8

/**
 * A layout as one number, which its journals have, so that a process whose settings have other lanes or shards is refused
 * even while the store cannot say: the version in the low 24 bits, then the lanes beyond the first, then the shards beyond
 * the first, 8 bits each. One lane on one shard is its version.
 */
export function layoutNumber({ version, lanes, shards }: Layout): number {
  return version + VERSIONS * (lanes - 1 + COUNTS * (shards - 1))
}

/** The reverse of `layoutNumber`. */
export function parseLayoutNumber(number: number): Layout {
  const counts = Math.floor(number / VERSIONS)
  return { version: number % VERSIONS, lanes: 1 + (counts % COUNTS), shards: 1 + Math.floor(counts / COUNTS) }
}

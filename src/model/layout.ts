/** How many lanes and shards a store has. Both are counted from 0. */
export interface Layout {
  /** increases with each change, starting at 1; journals refuse processes that were started for another version */
  version: number
  lanes: number
  shards: number
}

const VERSIONS = 2 ** 24
const COUNTS = 2 ** 8

/**
 * A layout as one number. Journals store it, so that a process whose settings have other lanes or shards is refused
 * even while ClickHouse is down. The version is in the low 24 bits, followed by the number of lanes beyond the first
 * and of shards beyond the first, 8 bits each. For one lane on one shard, the number equals the version.
 */
export function layoutNumber({ version, lanes, shards }: Layout): number {
  return version + VERSIONS * (lanes - 1 + COUNTS * (shards - 1))
}

/** Parses the result of `layoutNumber`. */
export function parseLayoutNumber(number: number): Layout {
  const counts = Math.floor(number / VERSIONS)
  return { version: number % VERSIONS, lanes: 1 + (counts % COUNTS), shards: 1 + Math.floor(counts / COUNTS) }
}

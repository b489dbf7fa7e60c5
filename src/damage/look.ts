import type { ClickHouse } from '../clickhouse/client.js'
import { type KnownPart, type LostPart, noteLostParts, readKnownParts, readLostParts } from '../store/part-notes.js'
import { findLaggingTables, hasBlockRows, listDetachedParts, listParts, type PartList } from '../store/parts.js'
import { findLost } from './find-lost.js'

/** What there is on a shard, and what is lost. */
export interface LookResult {
  list: PartList
  known: KnownPart[]
  lagging: ReadonlySet<string>
  /** what is lost and not settled */
  lost: LostPart[]
}

/** Looks for lost parts, and notes those that are new. */
export async function lookForLost(clickhouse: ClickHouse): Promise<LookResult> {
  // The notes first: of what is noted meanwhile, the list has the parts.
  const { known, notedAt } = await readKnownParts(clickhouse)
  const noted = await readLostParts(clickhouse)
  const lagging = await findLaggingTables(clickhouse)
  const list = await listParts(clickhouse)
  const found = await findLost({
    active: list.active,
    outdated: list.outdated,
    known,
    detached: await listDetachedParts(clickhouse),
    noted,
    lagging,
    // The server tells its start to the second.
    isRestarted: notedAt < list.startedAt + 1000,
    hasBlockRows: (part, blocks) => hasBlockRows(clickhouse, part, blocks),
  })
  await noteLostParts(clickhouse, found, list.at)
  const all = new Map([...noted, ...found].map((lost) => [`${lost.table}/${lost.part}`, lost]))
  return { list, known, lagging, lost: [...all.values()].filter(({ isSettled }) => !isSettled) }
}

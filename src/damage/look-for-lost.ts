import type { ClickHouse } from '../clickhouse/client.js'
import { checkFactsAgain } from '../store/fact-check.js'
import { type KnownPart, type LostPart, noteLostParts, readKnownParts, readLostParts } from '../store/part-notes.js'
import {
  findLaggingTables,
  hasBlockRows,
  isPatch,
  listDetachedParts,
  listParts,
  type PartList,
} from '../store/parts.js'
import { findLost } from './find-lost.js'

/** The parts of a shard, and its losses. */
export interface LookResult {
  list: PartList
  known: KnownPart[]
  lagging: ReadonlySet<string>
  /** losses that are not settled */
  lost: LostPart[]
}

/** Looks for lost parts, and records new losses. */
export async function lookForLost(clickhouse: ClickHouse): Promise<LookResult> {
  // Read the records first: the list, which is read later, then includes every recorded part.
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
    // The server's start is only known to the second.
    isRestarted: notedAt < list.startedAt + 1000,
    hasBlockRows: (part, blocks) => hasBlockRows(clickhouse, part, blocks),
  })
  // Events or edits have vanished or are back. If this fails, the next look finds them again, as they are not recorded yet.
  const ofEvents = found.filter(({ table }) => table === 'events')
  if (ofEvents.length > 0) await checkFactsAgain(clickhouse, { areEdits: ofEvents.some(isPatch) })
  await noteLostParts(clickhouse, found, list.at)
  const all = new Map([...noted, ...found].map((lost) => [`${lost.table}/${lost.part}`, lost]))
  return { list, known, lagging, lost: [...all.values()].filter(({ isSettled }) => !isSettled) }
}

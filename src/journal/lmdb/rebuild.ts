import { existsSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { maxPosition, type Position, START } from '../../model/position.js'
import { FIRST_LAYOUT } from '../layout.js'
import { checkDatabase, DamagedJournalError } from './check.js'
import { FORMAT, type Meta, positionKey } from './encoding.js'
import { putMeta, readMeta } from './meta.js'
import { type FoundSegment, findSegments } from './segment-file.js'
import { APPLIED, openTables } from './tables.js'
import { transact } from './transact.js'

/** All records count. A write that was not acknowledged before the crash may be among them. */
const END = (1n << 64n) - 1n

/**
 * Rebuilds the database of an embedded journal from its log if it is damaged or missing: all entries of the log wait
 * for the store again, which recognises those that it has. Idempotency keys and `insert_id`s are forgotten. The damaged
 * file is kept.
 * @param known recorded by the store: the journal's id, the layout version, and the greatest position of any event or
 * row
 * @returns the name of the damaged file, null if there was none; undefined if nothing has to be done
 * @throws Error if the log is also damaged
 */
export async function rebuildLmdbJournal(
  folder: string,
  known: { id: number; layout: number; last: Position },
): Promise<string | null | undefined> {
  const path = join(folder, 'data.mdb')
  const isThere = existsSync(path)
  const canBeRead = isThere && (await isSound(folder))
  // A start that finds no database creates an empty one before it fails.
  if (canBeRead && (await hasMeta(folder))) return undefined
  const segments = await findSegments(folder, END, START)
  const damaged = segments.find(({ isDamaged }) => isDamaged)
  if (damaged) throw new Error(`${damaged.path} is damaged, too: restore the folder from a backup.`)
  const kept = isThere && !canBeRead ? join(folder, `data.mdb.damaged-${Date.now()}`) : null
  if (kept !== null) await rename(path, kept)
  const { stored, last } = findRange(segments)
  const { id, layout } = known
  const outranked = String(maxPosition(maxPosition(last, stored), known.last))
  const meta: Meta = { format: FORMAT, id, stored: String(stored), frozen: null, outranked }
  const tables = openTables(folder)
  try {
    await transact(tables.root, () => {
      putMeta(tables, layout === FIRST_LAYOUT ? meta : { ...meta, layout })
      tables.log.put(APPLIED, positionKey(last))
    })
  } finally {
    await tables.root.close()
  }
  return kept
}

async function hasMeta(folder: string): Promise<boolean> {
  const tables = openTables(folder)
  try {
    return readMeta(tables, folder) !== null
  } finally {
    await tables.root.close()
  }
}

async function isSound(folder: string): Promise<boolean> {
  try {
    await checkDatabase(folder, true)
    return true
  } catch (error) {
    if (error instanceof DamagedJournalError) return false
    throw error
  }
}

/**
 * The range of the last consecutive files. Earlier ones are no longer needed, because files between them were removed.
 */
function findRange(segments: readonly FoundSegment[]): { stored: Position; last: Position } {
  const used = segments.filter(({ last }) => last !== START)
  let stored = used.at(-1)?.after ?? START
  for (const { after, last } of used.toReversed().slice(1)) {
    if (last !== stored) break
    stored = after
  }
  return { stored, last: used.at(-1)?.last ?? START }
}

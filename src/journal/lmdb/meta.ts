import { randomInt } from 'node:crypto'
import { nextPosition, type Position, START } from '../../model/position.js'
import { FIRST_LAYOUT } from '../layout.js'
import { type Meta, positionKey } from './encoding.js'
import { segmentPaths } from './segment-file.js'
import { type LmdbTables, STORED } from './tables.js'

/** The Meta of a new journal. @throws Error if the folder has files of entries */
export async function newMeta(folder: string, now: number, layout = FIRST_LAYOUT): Promise<Meta> {
  const [entries] = await segmentPaths(folder)
  if (entries) {
    throw new Error(
      `${folder} has entries of a journal (${entries}), but no data.mdb, which has the rest of it. Restore data.mdb. If that is impossible, move the files of entries away: those of their events that are not stored yet are then lost.`,
    )
  }
  const meta: Meta = { id: randomInt(2 ** 32), stored: String(nextPosition(START, now)), frozen: null }
  return layout === FIRST_LAYOUT ? meta : { ...meta, layout }
}

/** Replaces the Meta. Call it within a transaction. */
export function putMeta({ meta, log }: Pick<LmdbTables, 'meta' | 'log'>, value: Meta): void {
  meta.put('meta', value)
  log.put(STORED, positionKey(BigInt(value.stored)))
}

/** The stored position that a version with a log last recorded; null if none ever did. */
export function storedOfLog({ log }: Pick<LmdbTables, 'log'>): Position | null {
  return log.get(STORED)?.readBigUInt64BE() ?? null
}

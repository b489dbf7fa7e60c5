import { OtherVersionError } from '../../contract/errors.js'
import { nextPosition, START } from '../../model/position.js'
import { newJournalId } from '../journal.js'
import { FIRST_LAYOUT } from '../layout.js'
import { WITHOUT_DATABASE } from './check.js'
import { FORMAT, type Meta } from './encoding.js'
import { segmentPaths } from './segment-file.js'
import type { LmdbTables } from './tables.js'

/** The Meta of a new journal. @throws Error if the folder has files of entries */
export async function createMeta(folder: string, now: number, layout = FIRST_LAYOUT): Promise<Meta> {
  const [entries] = await segmentPaths(folder)
  if (entries) {
    throw new Error(
      `${folder} has entries of a journal (${entries}), but no data.mdb, which has the rest of it. ${WITHOUT_DATABASE}`,
    )
  }
  const meta: Meta = { format: FORMAT, id: newJournalId(), stored: String(nextPosition(START, now)), frozen: null }
  return layout === FIRST_LAYOUT ? meta : { ...meta, layout }
}

/** The Meta of the journal in a folder; null if there is none. @throws OtherVersionError */
export function readMeta({ meta }: Pick<LmdbTables, 'meta'>, folder: string): Meta | null {
  const found = meta.get('meta')
  if (found && found.format !== FORMAT) throw new OtherVersionError(`The journal in ${folder}`, found.format > FORMAT)
  return found ?? null
}

/** Replaces the Meta. Call it within a transaction. */
export function putMeta({ meta }: Pick<LmdbTables, 'meta'>, value: Meta): void {
  meta.put('meta', value)
}

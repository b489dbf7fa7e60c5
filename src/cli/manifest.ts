import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { StateFile } from '../lib/checkpoint-file.js'
import type { Digest, JournalRow, Range } from '../store/dump.js'

/** What a folder holds that `export --all` has written. */
export interface Manifest {
  version: 1
  /** number of the last migration; the store that takes it in has to have the same */
  schema: number
  source: {
    /** of the database */
    id: string
    /** the last position that the journal had given out: when another has been, the store is no longer the same */
    appended: string
  }
  journals: JournalRow[]
  chunks: Chunk[]
  /** of each table, taken when all chunks were written */
  totals: Record<string, Digest>
  /** ISO 8601; null while something is missing */
  finishedAt: string | null
}

/** A run of rows of a table in a file of its own. */
export interface Chunk extends Range, Digest {
  table: string
  file: string
  bytes: number
  /** of the file, hexadecimal */
  sha256: string
}

export const MANIFEST = 'manifest.json'

export function manifestFile(folder: string): StateFile<Manifest> {
  return new StateFile(join(folder, MANIFEST))
}

/** @throws Error where a file is not what was written */
export async function checkFile(folder: string, { file, bytes, sha256 }: Chunk): Promise<void> {
  const path = join(folder, file)
  const { size } = await stat(path).catch(() => ({ size: -1 }))
  if (size === -1) throw new Error(`${path} is missing. Copy the whole folder again.`)
  const hash = createHash('sha256')
  for await (const piece of createReadStream(path)) hash.update(piece)
  if (size !== bytes || hash.digest('hex') !== sha256) {
    throw new Error(`${path} is damaged: it is not what was exported. Copy the folder again.`)
  }
}

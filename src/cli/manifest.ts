import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { StateFile } from '../lib/state-file.js'
import type { Digest, JournalRow, Range } from '../store/dump.js'

/** Describes a folder that `export --all` has written. */
export interface Manifest {
  version: typeof MANIFEST_VERSION
  /** columns of each table, in order; if missing, those of the importing store are assumed */
  columns?: Record<string, string[]>
  source: {
    /** the id of each shard's database */
    ids: string[]
    /** the last position that each lane's journal had assigned; if it has moved, the store has changed */
    appended: string[]
  }
  journals: JournalRow[]
  chunks: Chunk[]
  /** totals of each table, computed after all chunks were written */
  totals: Record<string, Digest>
  /** ISO 8601; null until the export is complete */
  finishedAt: string | null
}

/** Consecutive rows of a table, in one file. */
export interface Chunk extends Range, Digest {
  table: string
  file: string
  bytes: number
  /** of the file, in hexadecimal */
  sha256: string
}

export const MANIFEST = 'manifest.json'
export const MANIFEST_VERSION = 2

export function manifestFile(folder: string): StateFile<Manifest> {
  return new StateFile(join(folder, MANIFEST))
}

/** @throws Error if the file is not the one that was written */
export async function checkFile(folder: string, { file, bytes, sha256 }: Chunk): Promise<void> {
  const path = join(folder, file)
  const { size } = await stat(path).catch(() => ({ size: -1 }))
  if (size === -1) throw new Error(`${path} is missing. Copy the whole folder again.`)
  const hash = createHash('sha256')
  for await (const piece of createReadStream(path)) hash.update(piece)
  if (size !== bytes || hash.digest('hex') !== sha256) {
    throw new Error(`${path} is damaged: it differs from what was exported. Copy the folder again.`)
  }
}

import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** Names of files that may be imported. A file without an extension, as is common in buckets, may have any format. */
const READABLE = /(^|\/)[^./]+$|\.(ndjson|jsonl|json|csv|tsv|txt|log|zip)$/i
const COMPRESSED = /\.(gz|gzip|zst|zstd|br)$/i
/** Written by imports: their state, its lock, the ids of their batches and the rejects. */
const OWN = /\.(import\.json(\.new|\.lock|\.ids)?|rejects\.ndjson)$/
/** Written by exports next to their output: their state and its lock. Other exports may have such names, too. */
const OF_EXPORT = /\.export\.json(\.new|\.lock)?$/

/** The files that a command names, with directories replaced by their files. */
export interface InputFiles {
  paths: string[]
  /** files found in directories that cannot be imported, judging by their names */
  unsupported: string[]
}

/** Finds the files in directories and their subdirectories, in the order of their names, without hidden ones. */
export async function findInputs(named: readonly string[]): Promise<InputFiles> {
  const found: InputFiles = { paths: [], unsupported: [] }
  for (const path of named) {
    const info = path === '-' ? null : await stat(path).catch(() => null)
    // If the file cannot be read, its import says why.
    if (!info?.isDirectory()) {
      found.paths.push(path)
      continue
    }
    for (const file of await filesIn(path)) {
      const isReadable = READABLE.test(file.replace(COMPRESSED, ''))
      ;(isReadable ? found.paths : found.unsupported).push(file)
    }
  }
  return found
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true })
  // People compress what they have exported.
  const names = new Set(entries.flatMap(({ name }) => [name, name.replace(COMPRESSED, '')]))
  const isOwn = (name: string) => OWN.test(name) || (OF_EXPORT.test(name) && names.has(name.replace(OF_EXPORT, '')))
  const files = await Promise.all(
    entries
      .filter(({ name }) => !name.startsWith('.') && !isOwn(name))
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .map(async (entry) => {
        const path = join(folder, entry.name)
        // Links to directories are not followed, because they may form a cycle.
        if (entry.isDirectory()) return await filesIn(path)
        const info = await stat(path).catch(() => null)
        return !info || info.isFile() ? [path] : []
      }),
  )
  return files.flat()
}

import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** What a file of an import may be called; a name without an extension, as buckets have them, may hold anything. */
const READABLE = /(^|\/)[^./]+$|\.(ndjson|jsonl|json|csv|tsv|txt|log|zip)$/i
const COMPRESSED = /\.(gz|gzip|zst|zstd|br)$/i
/** Written by imports: what is done, and rows that are no events. */
const OWN = /\.(import\.json(\.new)?|rejects\.ndjson)$/

/** What a command names, folders replaced by the files in them. */
export interface InputFiles {
  paths: string[]
  /** files in the folders that no import reads, by their names */
  unsupported: string[]
}

/** The files in folders come in the order of their names, those in subfolders too; hidden ones are left out. */
export async function findInputs(named: readonly string[]): Promise<InputFiles> {
  const found: InputFiles = { paths: [], unsupported: [] }
  for (const path of named) {
    const info = path === '-' ? null : await stat(path).catch(() => null)
    // A file that cannot be read is an error of its import, which says why.
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
  const files = await Promise.all(
    entries
      .filter(({ name }) => !name.startsWith('.') && !OWN.test(name))
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .map(async (entry) => {
        const path = join(folder, entry.name)
        // Not what a link leads to: a folder that is linked into itself has no end.
        if (entry.isDirectory()) return await filesIn(path)
        return (await stat(path)).isFile() ? [path] : []
      }),
  )
  return files.flat()
}

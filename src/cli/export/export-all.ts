import { createHash } from 'node:crypto'
import { open, readdir, rename } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import type { Config } from '../../config.js'
import { isSameJson } from '../../contract/same-json.js'
import { withPath } from '../../lib/failure-text.js'
import { whileLocked } from '../../lib/file-lock.js'
import { makeFolder } from '../../lib/make-folder.js'
import type { StateFile } from '../../lib/state-file.js'
import { using } from '../../lib/using.js'
import {
  addDigests,
  computeDigest,
  DUMP_TABLES,
  type DumpTable,
  EVERYTHING,
  estimateRows,
  findNextKey,
  findUnknownTables,
  listProjects,
  type Range,
  readChunk,
  readColumns,
  readJournalRows,
  readStoreId,
} from '../../store/dump.js'
import type { CommandIo } from '../command.js'
import { drain } from '../drain.js'
import { type Chunk, MANIFEST, MANIFEST_VERSION, type Manifest, manifestFile } from '../manifest.js'
import { counted, ProgressLine } from '../progress.js'
import { lastPositions, openWholeStore, type WholeStore } from '../whole-store.js'

const FIRST_ROWS = 20_000
const MIN_ROWS = 100
const MAX_ROWS = 250_000

/**
 * Writes everything in a store to a folder, from which `importAll` restores it elsewhere. The service must be
 * stopped. The entries in its journal are stored first, and a change of the store since the export began is an error.
 * @returns false if it was interrupted
 * @throws Error with a sentence for the user; calling it again resumes
 */
export async function exportAll(folder: string, config: Config, io: CommandIo): Promise<boolean> {
  await makeFolder(resolve(folder), 0o700)
  const file = manifestFile(folder)
  const lock = `${file.path}.lock`
  const refusal = `Another process is exporting to ${folder}. Wait until it has finished.`
  return await whileLocked(lock, refusal, async () => {
    const earlier = await file.read()
    if (!earlier && (await readdir(folder)).some((name) => name !== basename(lock))) {
      throw new Error(`${folder} is not empty and holds no export to resume. Name another folder.`)
    }
    return await exportStore(config, file, earlier, folder, io)
  })
}

async function exportStore(
  config: Config,
  file: StateFile<Manifest>,
  earlier: Manifest | null,
  folder: string,
  io: CommandIo,
): Promise<boolean> {
  const report = (text: string) => void io.stderr.write(`${text}\n`)
  return await using(openWholeStore(config, { mustExist: true }), async (store) => {
    await drain(store, report, io.signal)
    if (io.signal.aborted) return false
    const manifest = await begin(store, earlier, folder)
    if (manifest.finishedAt) {
      // Events that arrived since would be missing after a move.
      await checkUnchanged(store, manifest, folder)
      report(`${folder} was exported at ${manifest.finishedAt}. To export again, name another folder.`)
      return true
    }
    await file.write(manifest)
    const walked = await writeTables(store, manifest, folder, file, io)
    if (!walked) return false
    manifest.totals = await checkUnchanged(store, manifest, folder)
    manifest.finishedAt = new Date().toISOString()
    await file.write(manifest)
    report(`Everything in ${store.place} is in ${folder}: ${describe(manifest)}.`)
    return true
  })
}

async function begin({ shards, lanes }: WholeStore, earlier: Manifest | null, folder: string): Promise<Manifest> {
  const unknown = new Set((await shards.each(({ clickhouse }) => findUnknownTables(clickhouse))).flat())
  if (unknown.size > 0)
    throw new Error(`The store has tables that this version cannot export: ${[...unknown].join(', ')}.`)
  const manifest: Manifest = {
    version: MANIFEST_VERSION,
    columns: await readColumns(shards.first),
    source: {
      ids: await shards.each(({ clickhouse }) => readStoreId(clickhouse)),
      appended: await lastPositions(lanes),
    },
    journals: await readJournalRows(shards.first),
    chunks: [],
    totals: {},
    finishedAt: null,
  }
  if (!earlier) return manifest
  for (const name of ['version', 'columns', 'source'] as const) {
    if (!isSameJson(earlier[name], manifest[name])) throw changed(folder)
  }
  return earlier
}

function changed(folder: string): Error {
  return new Error(
    `The store has changed since the export to ${folder} began. Stop the service, remove the folder (it holds ${MANIFEST}) and start over.`,
  )
}

async function writeTables(
  store: WholeStore,
  manifest: Manifest,
  folder: string,
  file: StateFile<Manifest>,
  io: CommandIo,
): Promise<boolean> {
  const all = await estimateRows(store.shards, 'events')
  const line = new ProgressLine(io.stderr, 'exported', () => {
    const events = rowsIn(manifest, 'events')
    return { events, part: Math.min(events / Math.max(all, 1), 1) }
  })
  try {
    for (const table of DUMP_TABLES) {
      for await (const range of walk(store, table, manifest)) {
        if (io.signal.aborted) return false
        manifest.chunks.push(await writeChunk(store, table, range, folder, manifest.chunks.length, io.signal))
        await file.write(manifest)
      }
    }
    return !io.signal.aborted
  } catch (error) {
    if (io.signal.aborted) return false
    throw error
  } finally {
    line.stop()
  }
}

/** Yields the ranges of a table that are not written yet, in order. */
async function* walk({ shards }: WholeStore, table: DumpTable, manifest: Manifest): AsyncGenerator<Range> {
  const written = (project: string | null) => {
    return manifest.chunks.findLast((chunk) => chunk.table === table.name && chunk.project === project)
  }
  for (const project of table.key ? await listProjects(shards, table) : [null]) {
    let limit = FIRST_ROWS
    if (!table.key && written(project)) continue
    for (;;) {
      const last = written(project)
      const after = last?.upTo ?? null
      if (last) limit = Math.min(MAX_ROWS, Math.max(MIN_ROWS, 2 * last.rows))
      const upTo = await findNextKey(shards, table, { project, after }, limit)
      if (upTo === undefined) break
      yield { project, after, upTo }
      if (upTo === null) break
    }
  }
}

/**
 * Writes a file and renames it to its final name once it is complete. A file that is not in the manifest is written
 * again.
 */
async function writeChunk(
  { shards }: WholeStore,
  table: DumpTable,
  range: Range,
  folder: string,
  index: number,
  signal: AbortSignal,
): Promise<Chunk> {
  const name = `${table.name}-${String(index + 1).padStart(6, '0')}.native`
  const path = join(folder, name)
  const digest = await computeDigest(shards, table, range)
  const handle = await open(`${path}.new`, 'w', 0o600)
  const hash = createHash('sha256')
  let bytes = 0
  try {
    for await (const piece of (await readChunk(shards, table, range, signal)) as AsyncIterable<Buffer>) {
      // Unlike `write`, it writes everything or throws, for example on a full disk.
      await handle.appendFile(piece).catch(withPath(path))
      hash.update(piece)
      bytes += piece.length
    }
    await handle.sync().catch(withPath(path))
  } finally {
    await handle.close()
  }
  await rename(`${path}.new`, path)
  return { table: table.name, ...range, ...digest, file: name, bytes, sha256: hash.digest('hex') }
}

/**
 * @returns the totals of each table
 * @throws Error if the chunks do not add up to the store's contents, because these have changed
 */
async function checkUnchanged(
  { shards, lanes }: WholeStore,
  { source, chunks }: Manifest,
  folder: string,
): Promise<Manifest['totals']> {
  if (JSON.stringify(await lastPositions(lanes)) !== JSON.stringify(source.appended)) throw changed(folder)
  const totals: Manifest['totals'] = {}
  for (const table of DUMP_TABLES) {
    const total = await computeDigest(shards, table, EVERYTHING)
    const written = chunks
      .filter((chunk) => chunk.table === table.name)
      .reduce<{ rows: number; hash: string }>(addDigests, { rows: 0, hash: '0' })
    if (total.rows !== written.rows || total.hash !== written.hash) throw changed(folder)
    totals[table.name] = total
  }
  return totals
}

function rowsIn({ chunks }: Manifest, table: string): number {
  return chunks.reduce((sum, chunk) => sum + (chunk.table === table ? chunk.rows : 0), 0)
}

/** Describes the contents of a folder for messages. */
export function describe(manifest: Manifest): string {
  const names = {
    events: 'event',
    profiles: 'profile',
    sessions: 'session',
    api_keys: 'key',
    dead_letters: 'dead letter',
  }
  return Object.entries(names)
    .map(([table, name]) => counted(rowsIn(manifest, table), name))
    .join(', ')
}

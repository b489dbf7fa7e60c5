import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { isStoreError, StoreUnreachableError } from '../../clickhouse/errors.js'
import type { Shards } from '../../clickhouse/shards.js'
import type { Config } from '../../config.js'
import { countAnew, readLedger } from '../../damage/ledger.js'
import { type Backoff, backoffMs } from '../../lib/backoff.js'
import { whileLocked } from '../../lib/file-lock.js'
import { StateFile } from '../../lib/state-file.js'
import { using } from '../../lib/using.js'
import {
  DUMP_TABLES,
  type DumpTable,
  EVERYTHING,
  insertChunk,
  mergeJournals,
  readColumns,
  readStoreId,
  sumDigests,
} from '../../store/dump.js'
import { readLeftOut, requestFacts } from '../../store/event-changes.js'
import { findLastPosition, takeOver } from '../../store/journals.js'
import { readLayouts } from '../../store/layouts.js'
import type { CommandIo } from '../command.js'
import { describe } from '../export/export-all.js'
import { type Chunk, checkFile, MANIFEST_VERSION, type Manifest, manifestFile } from '../manifest.js'
import { number, ProgressLine } from '../progress.js'
import { openWholeStore, type WholeStore, waitingIn } from '../whole-store.js'
import { rememberInsertIds } from './remember-ids.js'

/** The progress of importing a folder into one store; kept in the folder. */
interface ImportAllState {
  version: typeof MANIFEST_VERSION
  /** the id of each shard's database */
  targets: string[]
  /** number of lanes, which decides the shard of a profile or session */
  lanes: number
  /** number of chunks stored, in order */
  done: number
  finishedAt: string | null
}

/** Tables that must be empty, and what they have. Keys may exist, because a service creates a pair at its first start. */
const EMPTY_TABLES: Record<string, string> = {
  events: 'events',
  profiles: 'profiles',
  sessions: 'sessions',
  aliases: 'aliases',
  dead_letters: 'dead letters',
  saved: 'saved questions and boards',
  projects: 'projects with settings',
}
const ATTEMPTS = 6
const BACKOFF: Backoff = { firstMs: 1_000, maxMs: 16_000 }

/**
 * Restores what `exportAll` wrote to a folder into an empty store: the same events with the same ids, profiles,
 * sessions, keys and dead letters. The service must be stopped. The store keeps its own layout, even if the other
 * store had a different one.
 * @returns false if it was interrupted
 * @throws Error with a sentence for the user; calling it again resumes
 */
export async function importAll(folder: string, config: Config, io: CommandIo): Promise<boolean> {
  const manifest = await manifestFile(folder).read()
  if (!manifest) throw new Error(`${folder} has no manifest.json, so it was not written by export --all.`)
  if (manifest.version !== MANIFEST_VERSION)
    throw new Error(`${folder} was written by another version of tallyhouse. Use that one.`)
  if (!manifest.finishedAt) throw new Error(`The export to ${folder} is not complete. Rerun it to resume.`)
  return await using(openWholeStore(config, { mustExist: false }), async (store) => {
    const targets = await store.shards.each(({ clickhouse }) => readStoreId(clickhouse))
    const file = new StateFile<ImportAllState>(join(folder, `imported-${targets[0]?.slice(0, 8)}.json`))
    const refusal = `Another process is importing ${folder} into ${store.place}. Wait until it has finished.`
    return await whileLocked(`${file.path}.lock`, refusal, async () => {
      const state = await begin(store, manifest, folder, { targets, file })
      return await restore(store, manifest, folder, { state, file }, io)
    })
  })
}

/** @returns false if it was interrupted */
async function restore(
  store: WholeStore,
  manifest: Manifest,
  folder: string,
  { state, file }: { state: ImportAllState; file: StateFile<ImportAllState> },
  io: CommandIo,
): Promise<boolean> {
  const report = (text: string) => void io.stderr.write(`${text}\n`)
  if (state.finishedAt) {
    report(`${folder} was imported into ${store.place} at ${state.finishedAt}.`)
    return true
  }
  if (state.done > 0) report(`Resuming after ${number(state.done)} of ${number(manifest.chunks.length)} files.`)
  if (!(await insertChunks(store, manifest, folder, state, file, io))) return false
  await finish(store, manifest)
  await rememberInsertIds(store)
  state.finishedAt = new Date().toISOString()
  await file.write(state)
  report(`Everything in ${folder} is in ${store.place}: ${describe(manifest)}. The service can be started.`)
  return true
}

async function begin(
  { shards, lanes, place }: WholeStore,
  manifest: Manifest,
  folder: string,
  { targets, file }: { targets: string[]; file: StateFile<ImportAllState> },
): Promise<ImportAllState> {
  const here = await readColumns(shards.first)
  for (const [table, columns] of Object.entries(manifest.columns ?? {})) {
    const unknown = columns.filter((column) => !here[table]?.includes(column))
    if (unknown.length === 0) continue
    throw new Error(
      `${folder} has columns of ${table} that this version does not know: ${unknown.join(', ')}. Import it with the version that exported it.`,
    )
  }
  const earlier = await file.read()
  if (earlier && String(earlier.targets) === String(targets) && earlier.lanes === lanes.length) return earlier
  const entries = await waitingIn(lanes)
  if (entries > 0) {
    throw new Error(`${number(entries)} requests are in the journal, but an import needs an empty store and journal.`)
  }
  for (const table of DUMP_TABLES) {
    const what = EMPTY_TABLES[table.name]
    if (what === undefined) continue
    const { rows } = await sumDigests(shards, table, EVERYTHING)
    if (rows === 0) continue
    throw new Error(
      `The store at ${place} already contains ${number(rows)} ${what}. import --all needs an empty store: name another database or DATA_DIR.`,
    )
  }
  const state: ImportAllState = {
    version: MANIFEST_VERSION,
    targets,
    lanes: lanes.length,
    done: 0,
    finishedAt: null,
  }
  // Written before anything is stored, because this file allows a store with data to be resumed.
  await file.write(state)
  return state
}

async function insertChunks(
  { shards, lanes }: WholeStore,
  manifest: Manifest,
  folder: string,
  state: ImportAllState,
  file: StateFile<ImportAllState>,
  io: CommandIo,
): Promise<boolean> {
  const all = manifest.chunks.length
  const places = assignShards(manifest, shards.all.length)
  const line = new ProgressLine(io.stderr, 'imported', () => ({
    events: manifest.chunks
      .slice(0, state.done)
      .reduce((sum, { table, rows }) => sum + (table === 'events' ? rows : 0), 0),
    part: state.done / Math.max(all, 1),
  }))
  try {
    while (state.done < all) {
      if (io.signal.aborted) return false
      const chunk = manifest.chunks[state.done] as Chunk
      await checkFile(folder, chunk)
      const target = {
        ...chooseTarget(shards, findTable(manifest, chunk), places[state.done] ?? 0),
        lanes: lanes.length,
      }
      await storeChunk(target, chunk, folder, `${manifest.source.ids[0]}:${chunk.file}`, io.signal)
      state.done++
      await file.write(state)
    }
    return true
  } catch (error) {
    if (io.signal.aborted) return false
    throw error
  } finally {
    line.stop()
  }
}

/** Where a chunk is stored. */
interface Target {
  table: DumpTable
  /** if there are several, each stores the rows of its lanes */
  shards: Shards
  lanes: number
}

/** @param place number of the shard, for a table that may be on any */
function chooseTarget(shards: Shards, table: DumpTable, place: number): Omit<Target, 'lanes'> {
  if (table.place === 'lane') return { table, shards }
  return { table, shards: shards.only(table.place === 'any' ? place : 0) }
}

/** Assigns each chunk to the shard with the fewest bytes so far. The result is the same in each run. */
function assignShards(manifest: Manifest, shards: number): number[] {
  const filled = Array.from({ length: shards }, () => 0)
  return manifest.chunks.map((chunk) => {
    const place = filled.indexOf(Math.min(...filled))
    if (findTable(manifest, chunk).place === 'any') filled[place] = (filled[place] ?? 0) + chunk.bytes
    return place
  })
}

/** Stores a chunk exactly once, even if an earlier attempt stored parts of it. */
async function storeChunk(
  { table, shards, lanes }: Target,
  chunk: Chunk,
  folder: string,
  token: string,
  signal: AbortSignal,
): Promise<void> {
  const insert = async (token: string) => {
    await shards.each(async ({ number, clickhouse }) => {
      const part = shards.areSeveral ? { lanes, shards: shards.all.length, number } : null
      await insertChunk(clickhouse, table, part, createReadStream(join(folder, chunk.file)), token, signal)
    })
  }
  const isThere = async () => isSame(table, chunk, await sumDigests(shards, table, chunk))
  for (let attempt = 1; ; attempt++) {
    try {
      // Versioned rows can be stored twice without harm, and may be mixed with other rows, so only others are
      // checked.
      if (!table.isVersioned && (await isThere())) return
      await insert(token)
      if (await isThere()) return
      // ClickHouse dropped it as a duplicate of an earlier attempt that stored nothing.
      if ((await sumDigests(shards, table, chunk)).rows === 0) await insert(`${token}:again`)
      if (await isThere()) return
      throw new Error(
        `The store does not match ${chunk.file}. Was it in use in the meantime? Drop the database and start over.`,
      )
    } catch (error) {
      const isPassing =
        error instanceof StoreUnreachableError || isStoreError(error, 'MEMORY_LIMIT_EXCEEDED', 'TOO_MANY_PARTS')
      if (!isPassing || attempt === ATTEMPTS || signal.aborted) throw error
      await wait(backoffMs(BACKOFF, attempt), undefined, { signal })
    }
  }
}

/** @throws Error if the store does not match the one that was exported */
async function finish({ shards, lanes }: WholeStore, manifest: Manifest): Promise<void> {
  // A service that ran on the empty store may have recorded that its facts cover these ids.
  await shards.each(({ clickhouse }) => requestFacts(clickhouse, 'rebuild', ''))
  for (const table of tablesIn(manifest)) {
    const wanted = manifest.totals[table.name] ?? { rows: 0, hash: '0' }
    const found = await sumDigests(shards, table, EVERYTHING)
    if (!isSame(table, wanted, found)) {
      throw new Error(
        `${table.name} has ${number(found.rows)} rows, but ${number(wanted.rows)} were exported. Was the store in use in the meantime? Drop the database and start over.`,
      )
    }
  }
  const leftOut = await readLeftOut(shards.first)
  await shards.each(async ({ number, clickhouse }) => {
    if (number > 0) for (const project of leftOut) await requestFacts(clickhouse, 'leave_out', project)
  })
  await mergeJournals(shards.first, manifest.journals)
  // No journal has counted the imported rows.
  const tallies = await Promise.all(lanes.map(({ journal }) => journal.tally()))
  const { active } = await readLayouts(shards.first)
  const layout = active?.version ?? 1
  await countAnew(shards, layout, await readLedger(shards, tallies, layout), Date.now())
  // From now on every journal assigns positions after all imported ones.
  const last = await findLastPosition(shards)
  for (const lane of lanes) {
    await lane.journal.advancePast(last)
    await takeOver(shards, lane, Date.now())
  }
}

/** Tables in which the target may already have rows, for example of its own keys. */
const MIXED_TABLES = ['api_keys', 'facts_left_out', 'project_usage']

/** Compares the rows found with those wanted. */
function isSame({ name }: DumpTable, wanted: { rows: number; hash: string }, found: { rows: number; hash: string }) {
  // Entries older than a year may be gone on either side, and the target's own keys have entries, too.
  if (name === 'audit') return true
  return MIXED_TABLES.includes(name)
    ? found.rows >= wanted.rows
    : found.rows === wanted.rows && found.hash === wanted.hash
}

/** Returns the tables with the columns that they had in the exported store. */
function tablesIn({ columns }: Manifest): DumpTable[] {
  return DUMP_TABLES.map((table) => ({ ...table, columns: columns?.[table.name] }))
}

function findTable(manifest: Manifest, { table: name, file }: Chunk): DumpTable {
  const table = tablesIn(manifest).find((table) => table.name === name)
  if (!table) throw new Error(`${file} holds the table ${name}, which this version does not know.`)
  return table
}

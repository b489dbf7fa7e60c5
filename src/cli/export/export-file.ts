import { readdir, stat } from 'node:fs/promises'
import { Connection } from '../../client/connection.js'
import type { RowFormat } from '../../contract/formats.js'
import { isSameJson } from '../../contract/same-json.js'
import { whileLocked } from '../../lib/file-lock.js'
import { StateFile } from '../../lib/state-file.js'
import { checkService } from '../check-service.js'
import type { CommandIo } from '../command.js'
import { blockFetch } from '../http/block-fetch.js'
import { Blocks } from '../http/blocks.js'
import { counted, ProgressLine } from '../progress.js'
import type { Target } from '../target.js'
import { openParquetParts, parquetFile } from './parquet-parts.js'
import type { Parts } from './part.js'
import { openRowParts } from './row-parts.js'
import { RowReader } from './row-reader.js'
import { type Filter, Runs } from './runs.js'

export interface ExportOptions {
  target: Target
  format: RowFormat
  /** in each Parquet file */
  rowsPerFile: number
  filter: Filter
  /** the cursor to start at; null for the beginning */
  since: string | null
  /** path of a file, or of a folder for Parquet; null for standard output */
  output: string | null
  stateFile: string | undefined
}

/** The progress of an export, kept in a file next to its output, so that the export can be killed at any time and resume. */
interface ExportState {
  version: 1
  /** the service and the project that it reads from */
  url: string
  project: string
  format: RowFormat
  filter: Filter
  since: string | null
  /** the cursor of the next part */
  next: string | null
  rows: number
  /** parts that were written; for Parquet, files */
  pages: number
  /** size of the file, or of all files in the folder */
  bytes: number
  finishedAt: string | null
}

export interface Exported {
  rows: number
  /** cursor for `--since` of a later export; null if unknown */
  next: string | null
  /** accepted events that are missing because they are not in the store yet */
  pending: number
  isWhole: boolean
}

/**
 * Exports all events, or those that match a filter, in the order in which they were accepted. Resumes an interrupted
 * export to the same output.
 * @throws Error with a sentence for the user
 */
export async function exportEvents(options: ExportOptions, io: CommandIo): Promise<Exported> {
  const { output, stateFile } = options
  if (output === null) return await exportAlone(options, null, io)
  const file = new StateFile<ExportState>(stateFile ?? `${output}.export.json`)
  const refusal = `Another process is exporting to ${output}. Wait until it has finished.`
  return await whileLocked(`${file.path}.lock`, refusal, () => exportAlone(options, file, io))
}

/** The caller holds the lock of the output, because two concurrent exports would write over each other. */
async function exportAlone(
  options: ExportOptions,
  file: StateFile<ExportState> | null,
  io: CommandIo,
): Promise<Exported> {
  const { target, output: path } = options
  const blocks = new Blocks()
  const connection = new Connection({ url: target.url, secretKey: target.secretKey, fetch: blockFetch(blocks) })
  let state: ExportState | null = null
  try {
    const { project } = await checkService(connection, target.url, 'read', io)
    state = await beginOrResume(options, project, file)
    if (state.finishedAt !== null) {
      io.stderr.write(`${path} was exported at ${state.finishedAt}. To export it again, remove it and ${file?.path}.\n`)
      return { rows: state.rows, next: state.next, pending: 0, isWhole: true }
    }
    if (state.rows > 0) io.stderr.write(`${path}: resuming after ${counted(state.rows, 'event')}.\n`)
    await file?.write(state)
    return await writeParts(connection, blocks, options, state, file, io)
  } catch (error) {
    if (!io.signal.aborted) throw error
    return { rows: state?.rows ?? 0, next: state?.next ?? null, pending: 0, isWhole: false }
  }
}

/**
 * @throws Error if the earlier export to this output had another target or other options, or the output is something
 * else
 */
async function beginOrResume(
  { target, format, filter, since, output: path }: ExportOptions,
  project: string,
  file: StateFile<ExportState> | null,
): Promise<ExportState> {
  const begun: ExportState = {
    version: 1,
    url: target.url,
    project,
    format,
    // This is how it will be read back from the file.
    filter: JSON.parse(JSON.stringify(filter)),
    since,
    next: since,
    rows: 0,
    pages: 0,
    bytes: 0,
    finishedAt: null,
  }
  if (path === null || !file) return begun
  const earlier = await file.read()
  if (!earlier) {
    await refuseExisting(path)
    return begun
  }
  checkSame(earlier, begun, path, file.path)
  await checkBytes(path, earlier, file.path)
  return earlier
}

/** Writes the parts from `state.next` to the end, and updates the state after each. */
async function writeParts(
  connection: Connection,
  blocks: Blocks,
  options: ExportOptions,
  state: ExportState,
  file: StateFile<ExportState> | null,
  io: CommandIo,
): Promise<Exported> {
  const { format, filter, since, output: path } = options
  const runs = new Runs(connection, format, filter, io.signal)
  const parts = await openParts(runs, blocks, options, state, io)
  const line = new ProgressLine(io.stderr, 'exported', () => ({ events: state.rows, part: null }))
  try {
    for (;;) {
      const { rows, bytes, next, isLast, pending } = await parts.write(state)
      if (bytes > 0) state.pages++
      state.bytes += bytes
      state.rows += rows
      state.next = next
      if (isLast) {
        if (path !== null && file) await checkBytes(path, state, file.path)
        await checkCount(runs, state, since, next)
        if (pending === 0) state.finishedAt = new Date().toISOString()
      }
      await file?.write(state)
      if (isLast) return { rows: state.rows, next, pending, isWhole: pending === 0 }
    }
  } finally {
    line.stop()
    runs.close()
    await parts.close()
  }
}

async function openParts(
  runs: Runs,
  blocks: Blocks,
  { format, output: path, rowsPerFile }: ExportOptions,
  state: ExportState,
  io: CommandIo,
): Promise<Parts> {
  if (format === 'parquet' && path !== null) {
    return await openParquetParts(runs, blocks, path, state.next, rowsPerFile)
  }
  return await openRowParts(new RowReader(runs, blocks, format, state.next, state.bytes === 0), blocks, path, state, io)
}

/**
 * Checks that the output still contains everything that was written. It may be longer: an unrecorded part or later
 * exports may have been appended.
 * @throws Error if a part of what was written is missing
 */
async function checkBytes(path: string, { format, pages, bytes }: ExportState, file: string): Promise<void> {
  const found = await bytesOnDisk(path, format, pages)
  if (found >= bytes) return
  throw new Error(
    `${path} has ${found} bytes, but ${bytes} were written. To export it again, remove what is left of it and ${file}.`,
  )
}

/** Returns the size of an output: of its file, or of the files in its folder. A missing file counts as 0. */
async function bytesOnDisk(path: string, format: RowFormat, pages: number): Promise<number> {
  const files = format === 'parquet' ? Array.from({ length: pages }, (_, page) => parquetFile(path, page)) : [path]
  let bytes = 0
  for (const file of files) {
    bytes += await stat(file).then(
      ({ size }) => size,
      () => 0,
    )
  }
  return bytes
}

/** @throws Error if the output has fewer events than the service counts */
async function checkCount(runs: Runs, { rows }: ExportState, since: string | null, next: string): Promise<void> {
  if (await runs.areAll(rows, since, next)) return
  throw new Error(`The service has more events than the ${rows} exported. Export them again.`)
}

async function refuseExisting(path: string): Promise<void> {
  const isThere = await stat(path).then(
    (info) => !info.isDirectory() || isParquetIn(path),
    () => false,
  )
  if (isThere) throw new Error(`${path} exists already and is not overwritten. Remove it, or give another --output.`)
}

async function isParquetIn(folder: string): Promise<boolean> {
  return (await readdir(folder)).some((name) => name.endsWith('.parquet'))
}

/** @throws Error if resuming would not export the same events in the same format */
function checkSame(earlier: ExportState, now: ExportState, path: string, file: string): void {
  const restart = `To start over, remove ${path} and ${file}.`
  for (const name of ['version', 'url', 'project', 'format', 'filter', 'since'] as const) {
    if (!isSameJson(earlier[name], now[name])) {
      throw new Error(
        `The export to ${path} was started with another ${NAMES[name]}. Rerun it with the same one. ${restart}`,
      )
    }
  }
}

const NAMES = {
  version: 'version of tallyhouse',
  url: 'URL',
  project: 'project',
  format: '--format',
  filter: 'selection of events',
  since: '--since',
}

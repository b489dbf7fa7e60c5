import { readdir, stat } from 'node:fs/promises'
import { Connection } from '../../client/connection.js'
import type { RowFormat } from '../../contract/formats.js'
import { StateFile } from '../../lib/checkpoint-file.js'
import { cursorAfter } from '../../model/cursor.js'
import type { CommandIo } from '../command.js'
import { checkService } from '../first-call.js'
import { counted, ProgressLine } from '../progress.js'
import type { Target } from '../target.js'
import { bytesOnDisk, openOutput } from './output.js'
import { type Filter, Pages } from './pages.js'

export interface ExportOptions {
  target: Target
  format: RowFormat
  filter: Filter
  /** the cursor to start at; null for the beginning */
  since: string | null
  /** a file, for Parquet a folder; null for standard output */
  output: string | null
  stateFile: string | undefined
}

/** The progress of an export, kept in a file next to its output, so that the export can be killed at any time and resume. */
interface ExportState {
  version: 1
  url: string
  key: string
  format: RowFormat
  filter: Filter
  since: string | null
  /** the cursor of the next page */
  next: string | null
  rows: number
  pages: number
  /** of the file */
  bytes: number
  lastId: string | null
  finishedAt: string | null
}

export interface Exported {
  rows: number
  /** the `--since` of a later export; null if there is no event yet */
  next: string | null
  /** accepted events that are missing because they are not in the store yet */
  pending: number
  isWhole: boolean
}

/**
 * Exports all events, or those that match a filter, in the order in which they were accepted. Resumes an earlier export to
 * the same output that was interrupted.
 * @throws Error with a sentence for the user
 */
export async function exportEvents(options: ExportOptions, io: CommandIo): Promise<Exported> {
  const { target, output: path } = options
  const { state, file } = await beginOrResume(options)
  if (state.finishedAt !== null) {
    io.stderr.write(`${path} was exported at ${state.finishedAt}. To export it again, remove it and ${file?.path}.\n`)
    return { rows: state.rows, next: nextTime(state), pending: 0, isWhole: true }
  }
  if (state.rows > 0) io.stderr.write(`${path}: resuming after ${counted(state.rows, 'event')}.\n`)
  const connection = new Connection({ url: target.url, secretKey: target.secretKey })
  try {
    await checkService(connection, target.url, 'read', io.signal)
    await file?.write(state)
    return await writePages(connection, options, state, file, io)
  } catch (error) {
    if (!io.signal.aborted) throw error
    return { rows: state.rows, next: state.next, pending: 0, isWhole: false }
  }
}

/** @throws Error if the earlier export to this output had another target or other options, or the output is in use */
async function beginOrResume({ target, format, filter, since, output: path, stateFile }: ExportOptions) {
  const begun: ExportState = {
    version: 1,
    url: target.url,
    key: target.keyDigest,
    format,
    // As it will be read back from the file.
    filter: JSON.parse(JSON.stringify(filter)),
    since,
    next: since,
    rows: 0,
    pages: 0,
    bytes: 0,
    lastId: null,
    finishedAt: null,
  }
  if (path === null) return { state: begun, file: null }
  const file = new StateFile<ExportState>(stateFile ?? `${path}.export.json`)
  const state = (await file.read()) ?? begun
  if (state === begun) await refuseExisting(path)
  else checkSame(state, begun, path, file.path)
  await checkBytes(path, state, file.path)
  return { state, file }
}

/** Writes the pages from `state.next` to the end, and updates the state after each. */
async function writePages(
  connection: Connection,
  { format, filter, since, output: path }: ExportOptions,
  state: ExportState,
  file: StateFile<ExportState> | null,
  io: CommandIo,
): Promise<Exported> {
  const pages = new Pages(connection, format, filter)
  const output = await openOutput(path, format, state, io)
  const line = new ProgressLine(io.stderr, 'exported', () => ({ events: state.rows, part: null }))
  try {
    for (;;) {
      const page = await pages.read(state.next, io.signal)
      if (page.rows > 0 || state.pages === 0) {
        state.bytes += await output.write(page, state)
        state.pages++
      }
      state.rows += page.rows
      state.lastId = page.lastId ?? state.lastId
      state.next = page.next ?? nextTime(state)
      if (page.next === null) {
        if (path !== null && file) await checkBytes(path, state, file.path)
        if (since === null && !pages.hasShortPages) await checkCount(pages, state, line, io.signal)
        if (page.pending === 0) state.finishedAt = new Date().toISOString()
      }
      await file?.write(state)
      if (page.next === null) {
        return { rows: state.rows, next: state.next, pending: page.pending, isWhole: page.pending === 0 }
      }
    }
  } finally {
    line.stop()
    await output.close()
  }
}

/**
 * The output may be longer, by a page that was not recorded or by later exports appended to the file.
 * @throws Error if a part of what was written is missing
 */
async function checkBytes(path: string, { format, pages, bytes }: ExportState, file: string): Promise<void> {
  const found = await bytesOnDisk(path, format, pages)
  if (found >= bytes) return
  throw new Error(
    `${path} has ${found} bytes, but ${bytes} were written. To export it again, remove what is left of it and ${file}.`,
  )
}

/** The cursor for events that are accepted after those written. */
function nextTime({ lastId, next }: ExportState): string | null {
  return lastId === null ? next : cursorAfter(lastId)
}

/**
 * Asks the service for the event at the position of the last one in the output, by its own count.
 * @throws Error if events are missing in the output
 */
async function checkCount(pages: Pages, { rows, lastId }: ExportState, line: ProgressLine, signal: AbortSignal) {
  if (lastId === null) return
  const found = await pages.eventIdAt(rows, signal)
  if (found === lastId) return
  // Ids sort in the order of acceptance.
  if (found === null || found > lastId) {
    line.say('Some exported events were deleted while the export ran.')
    return
  }
  throw new Error(`The service has more events up to ${lastId} than the ${rows} exported. Export them again.`)
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
  for (const name of ['version', 'url', 'key', 'format', 'filter', 'since'] as const) {
    if (JSON.stringify(earlier[name]) !== JSON.stringify(now[name])) {
      throw new Error(
        `The export to ${path} was begun with another ${NAMES[name]}. Rerun it with the same one. ${restart}`,
      )
    }
  }
}

const NAMES = {
  version: 'version of tallyhouse',
  url: 'URL',
  key: 'secret key',
  format: '--format',
  filter: 'selection of events',
  since: '--since',
}

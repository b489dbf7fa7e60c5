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
  /** the cursor to begin at; null for the beginning */
  since: string | null
  /** a file, for Parquet a folder; null for standard output */
  output: string | null
  stateFile: string | undefined
}

/** What an export has written, kept in a file beside its output, so that it can be ended at any moment and go on. */
interface ExportState {
  version: 1
  url: string
  key: string
  format: RowFormat
  filter: Filter
  since: string | null
  /** the cursor that the next page begins at */
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
  /** what `--since` is to be given for the events that come later; null where there is no event yet */
  next: string | null
  /** accepted events that are missing, as the store did not have them in time */
  pending: number
  isWhole: boolean
}

/**
 * Writes all events, or those that a filter names, in the order of their acceptance; goes on where an earlier export to
 * the same output was ended.
 * @throws Error with a sentence for the user
 */
export async function exportEvents(options: ExportOptions, io: CommandIo): Promise<Exported> {
  const { target, format, filter, since, output: path } = options
  const say = (text: string) => void io.stderr.write(`${text}\n`)
  const file = path === null ? null : new StateFile<ExportState>(options.stateFile ?? `${path}.export.json`)
  const begun: ExportState = {
    version: 1,
    url: target.url,
    key: target.keyDigest,
    format,
    filter: JSON.parse(JSON.stringify(filter)),
    since,
    next: since,
    rows: 0,
    pages: 0,
    bytes: 0,
    lastId: null,
    finishedAt: null,
  }
  const state = (await file?.read()) ?? begun
  if (file && path !== null) {
    if (state === begun) await refuseExisting(path)
    else checkSame(state, begun, path, file.path)
    await checkBytes(path, state, file.path)
  }
  if (state.finishedAt !== null) {
    say(`${path} was exported at ${state.finishedAt}. To export it again, remove it and ${file?.path}.`)
    return { rows: state.rows, next: nextTime(state), pending: 0, isWhole: true }
  }
  if (state.rows > 0) say(`${path}: going on after ${counted(state.rows, 'event')}.`)
  const connection = new Connection({ url: target.url, secretKey: target.secretKey })
  try {
    await checkService(connection, target.url, 'read', io.signal)
  } catch (error) {
    if (!io.signal.aborted) throw error
    return { rows: state.rows, next: state.next, pending: 0, isWhole: false }
  }
  await file?.write(state)

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
  } catch (error) {
    if (!io.signal.aborted) throw error
    return { rows: state.rows, next: state.next, pending: 0, isWhole: false }
  } finally {
    line.stop()
    await output.close()
  }
}

/**
 * There may be more, of a page that was not noted, or of whoever adds later exports to the file.
 * @throws Error where something of what was written is gone
 */
async function checkBytes(path: string, { format, pages, bytes }: ExportState, file: string): Promise<void> {
  const found = await bytesOnDisk(path, format, pages)
  if (found >= bytes) return
  throw new Error(
    `${path} has ${found} bytes, where ${bytes} were written. To export it again, remove what is left of it and ${file}.`,
  )
}

/** The cursor for the events that come after all that was written. */
function nextTime({ lastId, next }: ExportState): string | null {
  return lastId === null ? next : cursorAfter(lastId)
}

/**
 * Asks the service which event comes at the place that the last one has in the output, by its own count.
 * @throws Error where the output lacks events
 */
async function checkCount(pages: Pages, { rows, lastId }: ExportState, line: ProgressLine, signal: AbortSignal) {
  if (lastId === null) return
  const found = await pages.eventIdAt(rows, signal)
  if (found === lastId) return
  // Ids sort as the events were accepted.
  if (found === null || found > lastId) {
    line.say('Events that the export has were deleted while it ran.')
    return
  }
  throw new Error(`The service has more events up to ${lastId} than the ${rows} that were exported. Export them again.`)
}

async function refuseExisting(path: string): Promise<void> {
  const isThere = await stat(path).then(
    (info) => !info.isDirectory() || isParquetIn(path),
    () => false,
  )
  if (isThere) throw new Error(`${path} is there already, and is not overwritten. Remove it, or give another --output.`)
}

async function isParquetIn(folder: string): Promise<boolean> {
  return (await readdir(folder)).some((name) => name.endsWith('.parquet'))
}

/** @throws Error where what was begun is not what would go on now */
function checkSame(earlier: ExportState, now: ExportState, path: string, file: string): void {
  const begin = `To begin anew, remove ${path} and ${file}.`
  for (const name of ['version', 'url', 'key', 'format', 'filter', 'since'] as const) {
    if (JSON.stringify(earlier[name]) !== JSON.stringify(now[name])) {
      throw new Error(`The export to ${path} was begun with another ${NAMES[name]}. Give the same again. ${begin}`)
    }
  }
}

const NAMES = {
  version: 'version of tallyhouse',
  url: 'URL',
  key: 'secret key',
  format: '--format',
  filter: 'choice of events',
  since: '--since',
}

import { Connection, type Fetch } from '../../client/connection.js'
import type { TallyhouseError } from '../../client/errors.js'
import { MAX_BATCH } from '../../contract/limits.js'
import { whileLocked } from '../../lib/file-lock.js'
import { type CheckedService, callFailure, checkService } from '../check-service.js'
import { replaceControls } from '../columns.js'
import type { CommandIo } from '../command.js'
import { HttpTransport } from '../http/keep-alive-fetch.js'
import { counted, ProgressLine } from '../progress.js'
import { readSettings } from '../target.js'
import type { Batches } from './batches.js'
import { Checkpoint, type Done, type ImportState, isUnchanged } from './checkpoint.js'
import { describeInput, describeMisfits } from './describe-input.js'
import type { InputFormat } from './formats.js'
import { CompressedDataError, type Input, openFile, openStream } from './input.js'
import { type Guesses, type Inspected, inspect, withGuesses } from './inspect.js'
import { isSentAsLines, LineBatches } from './lines/line-batches.js'
import { RowsError } from './lines.js'
import { FirstTime } from './native-rows.js'
import type { ImportOptions } from './options.js'
import { RejectsFile } from './rejects.js'
import { beginOrResume, chooseImportPaths, type ImportPaths, resumeHint } from './resume.js'
import { importInput } from './send-batches.js'
import { openStoredBatches, syncIdsFirst } from './stored-batches.js'

/** Smaller than the service allows, so that the bodies in flight fit into memory. */
const MAX_BODY_BYTES = 4 * 1024 * 1024
/** Minimum time between two identical retry messages. */
const REASON_MS = 30_000

export interface Imported extends Done {
  /** whether the import has reached the end of the input */
  isWhole: boolean
  /** a sentence that says how to resume it, if it has not */
  hint: string
  /** whether the file changed during the import */
  hasChanged: boolean
}

/**
 * Imports a file. Resumes an earlier import of the same file that was interrupted.
 * @param path `-` for standard input
 * @returns the totals, including those of earlier runs
 * @throws Error with a sentence for the user
 */
export async function importFile(path: string, options: ImportOptions, io: CommandIo): Promise<Imported> {
  const input = path === '-' ? openStream(io.stdin, io.signal) : await openFile(path)
  const source = { path, input, paths: await chooseImportPaths(path, options, io) }
  if (path === '-') return await importAlone(source, options, io)
  const refusal = `Another process is importing ${path}. Wait until it has finished.`
  return await whileLocked(`${source.paths.state}.lock`, refusal, () => importAlone(source, options, io))
}

interface Source {
  path: string
  input: Input
  paths: ImportPaths
}

/** An input whose beginning is right, and the service, which accepts the key. */
interface CheckedSource extends Source {
  inspected: Inspected
  service: CheckedService
  fetch: Fetch
}

/** Imports one input. The caller holds its lock, because two concurrent imports would store the events twice. */
async function importAlone(source: Source, options: ImportOptions, io: CommandIo): Promise<Imported> {
  const inspected = await inspect(source.input, options)
  const { url, secretKey } = options.target
  const transport = new HttpTransport()
  const { fetch } = transport
  try {
    const service = await checkService(new Connection({ url, secretKey, fetch }), url, 'send', io)
    return await importChecked({ ...source, inspected, service, fetch }, options, io)
  } finally {
    transport.close()
  }
}

async function importChecked(source: CheckedSource, options: ImportOptions, io: CommandIo): Promise<Imported> {
  const { path, input, paths, inspected, service, fetch } = source
  const isStream = path === '-'
  const report = (text: string) => void io.stderr.write(`${replaceControls(text)}\n`)
  const { format } = inspected
  const maxBytes = io.env.BATCH_BODY_LIMIT
    ? Math.min(MAX_BODY_BYTES, (await readSettings(io.env)).BATCH_BODY_LIMIT)
    : MAX_BODY_BYTES
  const lines = format === 'ndjson' && isSentAsLines(inspected.beginning, withGuesses(options, inspected.guesses))
  const { guesses: found } = inspected
  const begun = await beginOrResume(path, paths, { ...options, format, maxBytes, lines, guesses: found, service }, io)
  const { state, file, rejectsPath } = begun
  if (begun.isFinished) return { ...state.done, isWhole: true, hint: '', hasChanged: false }
  const { guesses } = state
  const resolved = withGuesses({ ...options, format, maxBytes, guesses }, guesses)
  if (state.done.batches === 0) for (const text of describeInput(inspected, options)) report(text)

  if (isStream) state.done.storedBytes = null
  const stored = openStoredBatches(paths.state, state)
  const checkpoint = new Checkpoint(state, syncIdsFirst(stored, file), Date.now)
  const rejects = new RejectsFile(rejectsPath, state.done.rejectsBytes)
  const { url, secretKey } = options.target
  const line = new ProgressLine(io.stderr, 'imported', () => readProgress(checkpoint, input))
  const connection = new Connection({ url, secretKey, fetch, onRetry: reasons(line, url) })
  try {
    const { signal } = io
    const batches = await openBatches(input, state, resolved)
    const isWhole = await importInput({
      ...{ input, batches, options: resolved, checkpoint, rejects, stored, connection, signal },
      maxBytes,
      resumedAt: service.now,
      parallel: options.parallel,
      unacknowledged: options.unacknowledged,
    })
    const hasChanged = isWhole && !isStream && !(await isUnchanged(path, state.input, signal))
    return { ...checkpoint.state.done, isWhole, hint: resumeHint(checkpoint, isStream ? format : null), hasChanged }
  } catch (error) {
    const fault = error instanceof RowsError ? error.in(input.name) : error
    if (fault instanceof CompressedDataError || fault instanceof RowsError)
      throw await toInputError(fault, checkpoint, isStream, format)
    throw error
  } finally {
    line.stop()
    await rejects.close()
    await stored.close()
    const { rejected, misfits } = checkpoint.state.done
    for (const text of describeMisfits(misfits, guesses.types)) report(text)
    if (rejected > 0) report(`${counted(rejected, 'row')} of ${input.name} rejected: see ${rejectsPath}.`)
  }
}

/**
 * Reports why calls are retried. Batches in flight usually fail for the same reason, which is only repeated once in a
 * while.
 */
function reasons(line: ProgressLine, url: string): (error: TallyhouseError) => void {
  let [said, saidAt] = ['', Number.NEGATIVE_INFINITY]
  return (error) => {
    const reason = replaceControls(callFailure(url, error))
    if (reason === said && performance.now() - saidAt < REASON_MS) return
    line.report(`Trying again: ${reason}`)
    said = reason
    saidAt = performance.now()
  }
}

/**
 * Opens the batches of an input. The readers of rows are loaded on demand, because loading them takes longer than a
 * small import.
 */
async function openBatches(
  input: Input,
  { lines, done }: ImportState,
  options: ImportOptions & { format: InputFormat; maxBytes: number; guesses: Guesses },
): Promise<Batches | LineBatches> {
  const limits = { events: MAX_BATCH, bytes: options.maxBytes }
  const firstTime = new FirstTime(options, done.offset === 0)
  if (lines) return new LineBatches(firstTime, limits, done, done.batches)
  const { openReader } = await import('./readers.js')
  const { EventSource } = await import('./event-source.js')
  const { Batches } = await import('./batches.js')
  const { delimiter, format, guesses } = options
  const csv = { delimiter, hasStrays: guesses.hasStrays, types: new Map(guesses.types) }
  const reader = await openReader(input, done, format, csv)
  return new Batches({ reader, source: new EventSource(options, firstTime) }, limits, done, done.batches)
}

function readProgress({ state }: Checkpoint, { size, bytesRead }: Input) {
  return { events: state.done.accepted, part: size === null ? null : Math.min(bytesRead / Math.max(size, 1), 1) }
}

/**
 * Turns an input that cannot be read further into an error for the user. If the input is truncated, the state records it, so
 * that the whole file can resume the import.
 */
async function toInputError(
  error: CompressedDataError | RowsError,
  checkpoint: Checkpoint,
  isStream: boolean,
  format: InputFormat,
): Promise<Error> {
  const { isTruncated, message } = error
  checkpoint.state.isCut = isTruncated
  if (checkpoint.isBegun) await checkpoint.save()
  const stored = `Already stored: ${counted(checkpoint.state.done.accepted, 'event')}.`
  const copy = isStream ? '' : isTruncated ? 'Get the whole file. ' : 'Get a good copy. '
  const hint = resumeHint(checkpoint, isStream || !isTruncated ? format : null)
  return new Error(`${message} ${stored} ${copy}${hint}`, { cause: error })
}

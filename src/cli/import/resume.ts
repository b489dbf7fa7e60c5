import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { access, rm } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { MAX_BATCH } from '../../contract/limits.js'
import { isSameJson } from '../../contract/same-json.js'
import type { StateFile } from '../../lib/state-file.js'
import type { CheckedService } from '../check-service.js'
import { replaceControls } from '../columns.js'
import type { CommandIo } from '../command.js'
import { counted, number } from '../progress.js'
import {
  type Checkpoint,
  digestWhole,
  expiredBatches,
  type Fingerprint,
  fingerprint,
  type ImportState,
  isUnchanged,
  newImport,
  readImport,
} from './checkpoint.js'
import type { Unacknowledged } from './find-stored.js'
import type { InputFormat } from './formats.js'
import type { Guesses } from './inspect.js'
import type { ImportOptions } from './options.js'

const STREAM_NAME = 'standard-input'

/** The checksum of a larger file takes several seconds. */
const LARGE_BYTES = 4 * 1024 ** 3

/** The options of an import, with everything that decides what its batches contain. */
export interface ResolvedOptions extends ImportOptions {
  format: InputFormat
  /** of a request's body */
  maxBytes: number
  /** whether batches are unchanged lines; a resumed import keeps this */
  lines: boolean
  /** guesses about the input; a resumed import keeps these, too */
  guesses: Guesses
  service: CheckedService
}

/** The files of an import. */
export interface ImportPaths {
  state: string
  rejects: string
}

/** An import that is new, resumed, or already finished. */
export interface BegunImport {
  state: ImportState
  /** null for standard input, which cannot be resumed */
  file: StateFile<ImportState> | null
  rejectsPath: string
  /** nothing is left to do */
  isFinished: boolean
}

/**
 * Resumes an earlier import of the same input or begins a new one, and tells the user which.
 * @param paths paths of the import's own files
 * @throws Error with a sentence for the user if the earlier import had another target, input or options
 */
export async function beginOrResume(
  path: string,
  paths: ImportPaths,
  options: ResolvedOptions,
  io: CommandIo,
): Promise<BegunImport> {
  const isStream = path === '-'
  const report = (text: string) => void io.stderr.write(`${replaceControls(text)}\n`)
  const fresh = await freshState(path, options)
  const begun = { file: null, rejectsPath: paths.rejects, isFinished: false }
  if (isStream) {
    report('Standard input cannot be read again: if this import is interrupted, it cannot be resumed.')
    return { ...begun, state: fresh }
  }
  const { state: found, file } = await readImport(paths.state)
  if (found?.undoneSince !== undefined) {
    throw new Error(
      `The undo of the import of ${path} is not complete. Finish it first: ${formatUndo(path, paths.state)}`,
    )
  }
  const earlier = await usable(found, paths.rejects)
  if (!earlier) {
    if (fresh.input.bytes > LARGE_BYTES) report(`${path}: computing a checksum of the file before the import begins.`)
    fresh.input.whole = await digestWhole(path, io.signal)
    return { ...begun, file, state: fresh }
  }
  if (earlier.finishedAt !== null) {
    await checkSame(earlier, fresh, path, paths.state, io.signal)
    report(`${path} was imported at ${earlier.finishedAt}. To import it again, remove ${paths.state}.`)
    return { ...begun, file, state: earlier, isFinished: true }
  }
  await adoptWholeFile(earlier, fresh, path, { statePath: paths.state, file, signal: io.signal })
  const expired = expiredBatches(earlier, Date.now())
  if (expired > 0) report(`${path}: ${expiredText(earlier, expired, options.unacknowledged)}`)
  report(`${path}: resuming after ${counted(earlier.done.accepted, 'event')}.`)
  return { ...begun, file, state: earlier }
}

/**
 * @param format of the remaining input, if only that must be imported, as for a stream; null if the same file can be
 * imported again
 */
export function resumeHint({ state: { done }, unacknowledged }: Checkpoint, format: InputFormat | null): string {
  if (format === null) return 'Rerun the command to resume.'
  const events = number(MAX_BATCH * unacknowledged)
  const unknown = (which: string) => `Up to ${events} ${which} were sent but not acknowledged; they may be stored.`
  if (done.batches === 0) return unacknowledged === 0 ? 'Nothing was stored.' : unknown('of the first events')
  const rest = {
    ndjson: `the lines after the first ${number(done.line)}`,
    csv: `the header and the lines after the first ${number(done.line)}`,
    json: `an array of the elements after the first ${number(done.accepted + done.known + done.rejected + done.skipped)}`,
  }[format]
  return `To resume, import ${rest}.${unacknowledged === 0 ? '' : ` ${unknown('of these events')}`}`
}

async function freshState(path: string, options: ResolvedOptions): Promise<ImportState> {
  const { names, time, from, zone, event, types, format, delimiter, maxBytes, lines, guesses, target, service } =
    options
  return newImport({
    url: target.url,
    project: service.project,
    begunAt: service.now,
    input: path === '-' ? { bytes: 0, modifiedAt: '', digest: '' } : await fingerprint(path),
    lines,
    guesses,
    // This is how they will be read back from the file.
    options: JSON.parse(JSON.stringify({ names, time, from, format, delimiter, bytes: maxBytes, zone, event, types })),
  })
}

/**
 * Drops the state of an import that stored nothing, such as one with a wrong delimiter, so that other options can be
 * used.
 */
async function usable(state: ImportState | null, rejectsPath: string): Promise<ImportState | null> {
  if (!state) return null
  const { finishedAt, done, sent } = state
  const { accepted, profiles, known } = done
  const mayHaveStored = accepted + profiles + known > 0 || (finishedAt === null && sent.length > 0)
  if (mayHaveStored) return state
  if (done.rejected > 0) await rm(rejectsPath, { force: true })
  return null
}

/** If the input was truncated when the import began and is complete now, the import resumes with the complete file. */
async function adoptWholeFile(
  earlier: ImportState,
  fresh: ImportState,
  path: string,
  { statePath, file, signal }: { statePath: string; file: StateFile<ImportState>; signal: AbortSignal },
): Promise<void> {
  const isLonger = earlier.isCut === true && fresh.input.bytes > earlier.input.bytes
  const isWhole = isLonger && (await beginsWith(path, earlier.input))
  if (isWhole)
    Object.assign(earlier, { input: { ...fresh.input, whole: await digestWhole(path, signal) }, isCut: false })
  await checkSame(earlier, fresh, path, statePath, signal)
  // This must be on disk before anything is sent that the shorter file did not have.
  if (isWhole) await file.write(earlier)
}

async function beginsWith(path: string, truncated: Fingerprint): Promise<boolean> {
  const { bytes, digest } = await fingerprint(path, truncated.bytes)
  return bytes === truncated.bytes && digest === truncated.digest
}

/** @throws Error if resuming would not send the same batches to the same project */
async function checkSame(
  earlier: ImportState,
  now: ImportState,
  path: string,
  file: string,
  signal: AbortSignal,
): Promise<void> {
  const another = 'To import the file there as well, keep that progress in another file, with --state.'
  if (!(await isUnchanged(path, earlier.input, signal))) {
    throw new Error(changedText(earlier, path, file))
  }
  // Another address may be that of the same service, so this is an error even if that import is finished.
  if (earlier.url !== now.url) {
    throw new Error(
      `The import of ${path} was started at ${earlier.url}, not at ${now.url}. If both are the same service, use the first address. ${another}`,
    )
  }
  if (earlier.project !== now.project) {
    throw new Error(
      `The import of ${path} was started with a key of project ${earlier.project}, and this key belongs to ${now.project}. Use a secret key of ${earlier.project}. ${another}`,
    )
  }
  if (!isSameJson(earlier.options, now.options)) {
    throw new Error(
      `The import of ${path} was started with other options. Rerun it with the same ones. To start over, which stores the same events a second time, remove ${file}.`,
    )
  }
}

function changedText({ finishedAt, done }: ImportState, path: string, file: string): string {
  const since =
    finishedAt === null ? 'its import began, so the import cannot be resumed' : `it was imported at ${finishedAt}`
  // The end of a row that was still being written is missing.
  const rejected = done.rejected > 0 ? ` ${counted(done.rejected, 'row')} of it had been rejected.` : ''
  return `${path} has changed since ${since}.${rejected} To import it as it is now, undo that import first: ${formatUndo(path, file)}`
}

/**
 * Formats the command that undoes an import.
 * @param statePath of its state; default: next to the input
 */
export function formatUndo(path: string, statePath = nameState(path)): string {
  const state = statePath === nameState(path) ? '' : ` --state ${statePath}`
  return `tallyhouse import --undo ${path}${state}`
}

function nameState(path: string): string {
  return `${path}.import.json`
}

/**
 * Chooses the paths of an import's own files: next to the input if that directory is writable, otherwise in the
 * current directory, with a hash of the input's directory in the name.
 */
export async function chooseImportPaths(
  input: string,
  options: Partial<Pick<ImportOptions, 'stateFile' | 'rejectsFile'>>,
  { stderr }: CommandIo,
): Promise<ImportPaths> {
  const path = input === '-' ? STREAM_NAME : input
  const isWritable = await access(dirname(resolve(path)), constants.W_OK).then(
    () => true,
    () => false,
  )
  const place = createHash('sha256')
    .update(dirname(resolve(path)))
    .digest('hex')
    .slice(0, 8)
  const base = isWritable ? path : join('.', `${basename(path)}.${place}`)
  if (!isWritable && options.stateFile === undefined) {
    stderr.write(
      `${dirname(path)} is not writable, so progress is kept in ${nameState(base)}; resume from this directory.\n`,
    )
  }
  return {
    state: options.stateFile ?? nameState(base),
    rejects: options.rejectsFile ?? `${base}.rejects.ndjson`,
  }
}

const ACTIONS: Record<Unacknowledged, string> = {
  check: "Each is looked up among the service's events, and sent if it is not there.",
  send: 'They are sent again (--unanswered send).',
  skip: 'They are not sent again (--unanswered skip).',
}

function expiredText({ done, sent }: ImportState, batches: number, unacknowledged: Unacknowledged): string {
  const what = `up to ${batches} batches from line ${done.line + 1} on may have been sent at ${sent[0]?.at} without an acknowledgement`
  return `${what}, and the service remembers idempotency keys for only 24 h. ${ACTIONS[unacknowledged]}`
}

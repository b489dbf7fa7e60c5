import { constants } from 'node:fs'
import { access, rm } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { Connection } from '../../client/connection.js'
import { MAX_BATCH } from '../../contract/limits.js'
import { StateFile } from '../../lib/checkpoint-file.js'
import type { CommandIo } from '../command.js'
import { checkService } from '../first-call.js'
import { HttpTransport } from '../keep-alive-fetch.js'
import { counted, number, ProgressLine } from '../progress.js'
import type { Target } from '../target.js'
import { Batches } from './batches.js'
import {
  Checkpoint,
  type Done,
  type Fingerprint,
  fingerprint,
  forgottenBatches,
  type ImportState,
  newImport,
} from './checkpoint.js'
import { EventSource, type SourceOptions } from './event-source.js'
import type { Unacknowledged } from './find-stored.js'
import { type Format, findFormat, openReader } from './formats.js'
import { CompressedDataError, openFile, openStream } from './input.js'
import { RejectsFile } from './rejects.js'
import { importInput } from './send-batches.js'

export interface ImportOptions extends SourceOptions {
  target: Target
  /** undefined where the input tells by its first character */
  format: Format | undefined
  delimiter: string
  parallel: number
  unanswered: Unacknowledged
  /** paths; undefined for the usual ones */
  stateFile: string | undefined
  rejectsFile: string | undefined
}

/** Bodies are kept smaller than the service allows, so that those under way fit into memory. */
const MAX_BODY_BYTES = 4 * 1024 * 1024
const STREAM_NAME = 'standard-input'

export interface Imported extends Done {
  /** whether it came to its end */
  isWhole: boolean
  /** how to go on where it did not, in a sentence */
  goOn: string
}

/**
 * Imports a file, going on where an earlier import of it was ended.
 * @param path `-` for standard input
 * @returns what was done in all
 * @throws Error with a sentence for the user
 */
export async function importFile(path: string, options: ImportOptions, io: CommandIo): Promise<Imported> {
  const isStream = path === '-'
  const say = (text: string) => void io.stderr.write(`${text}\n`)
  const input = isStream ? openStream(io.stdin, io.signal) : await openFile(path)
  const files = await filesOf(isStream ? STREAM_NAME : path, options, say)
  const file = isStream ? null : new StateFile<ImportState>(files.state)
  const bytes = Math.min(MAX_BODY_BYTES, options.target.config.BATCH_BODY_LIMIT)
  const { names, time, from, delimiter } = options
  const format = options.format ?? (await findFormat(input))
  const begun = newImport({
    url: options.target.url,
    key: options.target.keyDigest,
    input: isStream ? { bytes: 0, modifiedAt: '', digest: '' } : await fingerprint(path),
    options: JSON.parse(JSON.stringify({ names, time, from, format, delimiter, bytes })),
  })
  const noted = (await file?.read()) ?? null
  // One that came to its end and stored nothing, as with a wrong delimiter, is no reason not to try otherwise.
  const earlier = noted && isInVain(noted) ? null : noted
  if (noted && !earlier && noted.done.rejected > 0) await rm(files.rejects, { force: true })
  if (isStream) {
    say('Standard input cannot be read again: if this import is interrupted, it cannot go on where it was.')
  } else if (earlier) {
    if (earlier.finishedAt !== null && isSameTarget(earlier, begun)) {
      checkSame(earlier, begun, path, files.state)
      say(`${path} was imported at ${earlier.finishedAt}. To import it a second time, remove ${files.state}.`)
      return { ...earlier.done, isWhole: true, goOn: '' }
    }
    if (earlier.finishedAt === null) {
      const { isCut, input: known } = earlier
      const isMore = isCut && begun.input.bytes > known.bytes && (await isBeginningOf(known, path))
      if (isMore) Object.assign(earlier, { input: begun.input, isCut: false })
      checkSame(earlier, begun, path, files.state)
      // Before anything is sent that was not in the shorter file.
      if (isMore) await file?.write(earlier)
    }
  }
  const state = earlier && earlier.finishedAt === null ? earlier : begun
  const forgotten = forgottenBatches(state, Date.now())
  if (forgotten > 0) say(`${path}: ${forgottenText(state, forgotten, options.unanswered)}`)
  if (state === earlier) say(`${path}: going on after ${counted(state.done.accepted, 'event')}.`)

  const journal = new Checkpoint(state, file, Date.now)
  const rejects = new RejectsFile(files.rejects, state.done.rejectsBytes)
  const source = new EventSource(options, state.done.offset === 0)
  const batches = new Batches(source, { events: MAX_BATCH, bytes }, state.done, state.done.batches)
  const { url, secretKey } = options.target
  const transport = new HttpTransport()
  const connection = new Connection({ url, secretKey, fetch: transport.fetch })
  const line = new ProgressLine(io.stderr, 'imported', () => ({
    events: journal.state.done.accepted,
    part: input.size === null ? null : Math.min(input.bytesRead / Math.max(input.size, 1), 1),
  }))
  try {
    const { signal } = io
    await checkService(connection, url, 'send', signal)
    const reader = await openReader(input, state.done, format, delimiter)
    const { parallel, unanswered } = options
    const isWhole = await importInput({
      input,
      reader,
      batches,
      journal,
      rejects,
      connection,
      parallel,
      forgottenUpTo: forgotten === 0 ? 0 : state.done.batches + forgotten,
      unanswered,
      signal,
    })
    return { ...journal.state.done, isWhole, goOn: goOnText(journal, isStream ? format : null) }
  } catch (error) {
    if (!(error instanceof CompressedDataError)) throw error
    state.isCut = error.isCut
    if (journal.isBegun) await journal.save()
    const stored = `Stored before it: ${counted(state.done.accepted, 'event')}.`
    const copy = isStream ? '' : error.isCut ? 'Get the whole file. ' : 'Get a good copy. '
    const goOn = goOnText(journal, isStream || !error.isCut ? format : null)
    throw new Error(`${error.message} ${stored} ${copy}${goOn}`, { cause: error })
  } finally {
    line.stop()
    transport.close()
    await rejects.close()
    const { rejected } = journal.state.done
    if (rejected > 0) say(`${counted(rejected, 'row')} of ${input.name} rejected as no event: see ${files.rejects}.`)
  }
}

/** @param format where only what follows can be given, as of a stream; null where the file can be given again */
function goOnText({ state: { done }, unanswered }: Checkpoint, format: Format | null): string {
  if (format === null) return 'Give the same command again to go on.'
  const events = number(MAX_BATCH * unanswered)
  const unknown = (which: string) => `Up to ${events} ${which} were sent and not answered, so they may be stored.`
  if (done.batches === 0) return unanswered === 0 ? 'Nothing of it was stored.' : unknown('of its first events')
  const rest = {
    ndjson: `the lines after its first ${number(done.line)}`,
    csv: `its header and the lines after its first ${number(done.line)}`,
    json: `an array of its elements after the first ${number(done.accepted + done.rejected + done.passedOver)}`,
  }[format]
  return `To go on, import ${rest}.${unanswered === 0 ? '' : ` ${unknown('events that follow')}`}`
}

/** Whether a file begins with all that there was of it when it was cut off. */
async function isBeginningOf(cut: Fingerprint, path: string): Promise<boolean> {
  const { bytes, digest } = await fingerprint(path, cut.bytes)
  return bytes === cut.bytes && digest === cut.digest
}

/** Whether it came to its end and stored nothing. */
function isInVain({ finishedAt, done }: ImportState): boolean {
  return finishedAt !== null && done.accepted === 0 && (done.profiles ?? 0) === 0
}

function isSameTarget(one: ImportState, other: ImportState): boolean {
  return one.url === other.url && one.key === other.key
}

/** @throws Error where what was begun is not what would go on now */
function checkSame(earlier: ImportState, now: ImportState, path: string, file: string): void {
  const begin = `To begin anew, which stores again what was stored, remove ${file}.`
  if (earlier.version !== now.version) throw new Error(`${file} was written by another version of tallyhouse. ${begin}`)
  if (JSON.stringify(earlier.input) !== JSON.stringify(now.input)) {
    throw new Error(`${path} has changed since its import began, so it cannot go on where it was. ${begin}`)
  }
  if (earlier.url !== now.url) {
    throw new Error(`The import of ${path} was begun at ${earlier.url}, not at ${now.url}. Go on there. ${begin}`)
  }
  if (earlier.key !== now.key) {
    throw new Error(`The import of ${path} was begun with another secret key. Go on with that key. ${begin}`)
  }
  if (JSON.stringify(earlier.options) !== JSON.stringify(now.options)) {
    throw new Error(`The import of ${path} was begun with other options. Give the same options again. ${begin}`)
  }
}

/** Beside the input, where that can be written to, else in the current folder. */
async function filesOf(path: string, options: ImportOptions, say: (text: string) => void) {
  const isWritable = await access(dirname(resolve(path)), constants.W_OK).then(
    () => true,
    () => false,
  )
  const base = isWritable ? path : join('.', basename(path))
  if (!isWritable && options.stateFile === undefined) {
    say(
      `${dirname(path)} cannot be written to, so what is done is noted in ${base}.import.json; go on from this folder.`,
    )
  }
  return {
    state: options.stateFile ?? `${base}.import.json`,
    rejects: options.rejectsFile ?? `${base}.rejects.ndjson`,
  }
}

const DONE_WITH: Record<Unacknowledged, string> = {
  check: 'Each is looked for in what the service exports, and sent where it is not there.',
  send: 'They are sent again, as --unanswered says.',
  skip: 'They are not sent again, as --unanswered says.',
}

function forgottenText({ done, sent }: ImportState, batches: number, unanswered: Unacknowledged): string {
  const what = `up to ${batches} batches from line ${done.line + 1} on may have been sent at ${sent[0]?.at} without an answer`
  return `${what}, and the service knows for 24 h only whether it has them. ${DONE_WITH[unanswered]}`
}

import { access } from 'node:fs/promises'
import { createInterface } from 'node:readline/promises'
import { Connection } from '../../client/connection.js'
import { MAX_BATCH } from '../../contract/limits.js'
import { type FileLock, lockFile } from '../../lib/file-lock.js'
import type { StateFile } from '../../lib/state-file.js'
import { checkService, TRANSFER_RETRY } from '../check-service.js'
import type { CommandIo } from '../command.js'
import { counted, number, ProgressLine } from '../progress.js'
import { type ImportState, isUnchanged, readImport } from './checkpoint.js'
import type { ImportOptions } from './options.js'
import { chooseImportPaths } from './resume.js'
import { openStoredBatches, type StoredBatches } from './stored-batches.js'

export interface UndoOptions extends Pick<ImportOptions, 'target' | 'stateFile'> {
  /** whether to skip the confirmation */
  isSure: boolean
  /** whether to only report how many events would be deleted */
  isDryRun: boolean
}

/** Batches per call: up to 200 000 events. */
const BATCHES = 200
/** The service responds only after the deletion. */
const TIMEOUT_MS = 120_000

/** An import to undo. */
interface Recorded {
  path: string
  state: ImportState
  file: StateFile<ImportState>
  stored: StoredBatches
  /** events of it that the service has stored */
  events: number
}

/**
 * Deletes what imports of these files have stored, after showing how much it is and asking for confirmation. Other
 * events stay, including those that the service already had by their `insert_id`. It can be interrupted and rerun.
 * @returns the exit code
 * @throws Error with a sentence for the user; nothing is deleted if the import of any file cannot be undone
 */
export async function undoImports(paths: readonly string[], options: UndoOptions, io: CommandIo): Promise<number> {
  const { url, secretKey } = options.target
  const connection = new Connection({ url, secretKey, timeoutMs: TIMEOUT_MS })
  const locks: FileLock[] = []
  const imports: Recorded[] = []
  try {
    const { project } = await checkService(connection, url, 'read', io)
    for (const path of paths) {
      const { state: statePath } = await chooseImportPaths(path, options, io)
      const lock = await lockFile(`${statePath}.lock`)
      if (!lock) throw new Error(`Another process is importing ${path}. Interrupt it, or wait until it has finished.`)
      locks.push(lock)
      const { state, file } = await readRecord(path, statePath, { url, project }, io.signal)
      const stored = openStoredBatches(statePath, state)
      const events = await count(connection, stored, io.signal)
      imports.push({ path, state, file, stored, events })
      io.stderr.write(`${path}: ${describe(state, events)}\n`)
    }
    if (options.isDryRun) return 0
    if (!(await mayDelete(imports, options, io))) return 1
    let isWhole = true
    for (const each of imports) {
      if (!(await remove(connection, each, io))) return 1
      isWhole &&= !each.state.done.uncertain && countUnclear(each.state) === 0
    }
    return isWhole ? 0 : 1
  } finally {
    for (const lock of locks) lock.release()
  }
}

/** @throws Error with a sentence for the user if the import cannot be undone */
async function readRecord(
  path: string,
  statePath: string,
  { url, project }: Pick<ImportState, 'url' | 'project'>,
  signal: AbortSignal,
) {
  const { state, file } = await readImport(statePath)
  if (!state) {
    throw new Error(
      `There is no record of an import of ${path}: ${statePath} does not exist. An import from standard input has none.`,
    )
  }
  if (state.url !== url) throw new Error(`${path} was imported at ${state.url}, not at ${url}. Undo it there.`)
  if (state.project !== project) {
    throw new Error(
      `${path} was imported into project ${state.project}, but the key belongs to ${project}. Use a secret key of ${state.project}.`,
    )
  }
  if (countUnclear(state) > 0 && !state.undoneSince && (await canResume(path, state, signal))) {
    throw new Error(
      `The import of ${path} was interrupted while batches were being sent, and it is unknown which of them are stored. Rerun it without --undo to resume it, then undo it.`,
    )
  }
  return { state, file }
}

/** An import of a file that has changed or is gone cannot be resumed. */
async function canResume(path: string, { input }: ImportState, signal: AbortSignal): Promise<boolean> {
  const exists = await access(path).then(
    () => true,
    () => false,
  )
  return exists && (await isUnchanged(path, input, signal))
}

/** The events of batches that may have been sent when the import was interrupted, at most. */
function countUnclear({ finishedAt, sent, done }: ImportState): number {
  return finishedAt === null ? MAX_BATCH * Math.max((sent.at(-1)?.upTo ?? 0) - done.batches, 0) : 0
}

async function count(connection: Connection, stored: StoredBatches, signal: AbortSignal): Promise<number> {
  let events = 0
  for await (const batches of stored.read(BATCHES)) {
    events += await deleteBatches(connection, { batches, dry_run: true }, signal)
  }
  return events
}

/** @returns how many events were deleted, or would be */
async function deleteBatches(
  connection: Connection,
  body: { batches: string[]; dry_run?: true },
  signal: AbortSignal,
): Promise<number> {
  const call = { method: 'POST', path: '/public/events/delete', body: JSON.stringify(body) } as const
  return Number((await connection.call(call, { signal }, TRANSFER_RETRY)).value.events)
}

function describe({ finishedAt, undoneSince, done }: ImportState, events: number): string {
  const when = finishedAt === null ? 'imported in part' : `imported at ${finishedAt}`
  const which = events === done.accepted ? '' : ` of the ${number(done.accepted)} that were accepted`
  const why =
    which === ''
      ? ''
      : undoneSince
        ? ', because its undo was interrupted'
        : ', because others were already stored or deleted'
  return `${when}; ${counted(events, 'event')}${which} ${events === 1 ? 'is' : 'are'} stored${why}.`
}

/** @throws Error if there is no terminal to ask on */
async function mayDelete(imports: readonly Recorded[], { isSure }: UndoOptions, io: CommandIo): Promise<boolean> {
  if (isSure) return true
  if (!io.stdin.isTTY)
    throw new Error('Nothing was deleted, because there is no terminal to confirm it on. Add --yes to delete.')
  const events = imports.reduce((sum, { events }) => sum + events, 0)
  const terminal = createInterface({ input: io.stdin, output: io.stderr })
  try {
    const reply = await terminal.question(`Delete ${counted(events, 'event')}? [y/N] `, { signal: io.signal })
    if (/^\s*y(es)?\s*$/i.test(reply)) return true
  } catch (error) {
    if (!io.signal.aborted) throw error
  } finally {
    terminal.close()
  }
  io.stderr.write('Nothing was deleted.\n')
  return false
}

/** @returns false if it was interrupted */
async function remove(
  connection: Connection,
  { path, state, file, stored, events }: Recorded,
  io: CommandIo,
): Promise<boolean> {
  // From here on, the file cannot be imported until everything is deleted.
  state.undoneSince ??= new Date().toISOString()
  await file.write(state)
  let deleted = 0
  const line = new ProgressLine(io.stderr, 'deleted', () => ({
    events: deleted,
    part: Math.min(deleted / Math.max(events, 1), 1),
  }))
  try {
    for await (const batches of stored.read(BATCHES)) {
      if (io.signal.aborted) break
      deleted += await deleteBatches(connection, { batches }, io.signal)
    }
  } catch (error) {
    if (!io.signal.aborted) throw error
  } finally {
    line.stop()
  }
  if (io.signal.aborted) {
    io.stderr.write(
      `Interrupted after ${counted(deleted, 'event')} of ${path}. Rerun the command to delete the others.\n`,
    )
    return false
  }
  // Removed first, because an import of the file looks for it.
  await file.remove()
  await stored.remove()
  io.stderr.write(`${path}: ${counted(deleted, 'event')} deleted.\n`)
  for (const sentence of describeRemaining(path, state)) io.stderr.write(`${sentence}\n`)
  return true
}

function describeRemaining(path: string, state: ImportState): string[] {
  const { done } = state
  const sentences: string[] = []
  if (done.profiles) {
    sentences.push(`${counted(done.profiles, 'change')} of profiles and aliases from the import of ${path} remain.`)
  }
  if (done.uncertain) {
    sentences.push(
      `Up to ${number(done.uncertain)} more events of ${path} may be stored. The ids of their batches are unknown: a proxy removed them, or they were sent more than 23 hours before the import was resumed.`,
    )
  }
  const unclear = countUnclear(state)
  if (unclear > 0) {
    sentences.push(
      `Up to ${number(unclear)} more events of ${path} may be stored: the import was interrupted while it was sending them.`,
    )
  }
  return sentences
}

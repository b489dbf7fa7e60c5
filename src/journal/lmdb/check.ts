import { fork } from 'node:child_process'
import { once } from 'node:events'
import { open, stat } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Position, toMilliseconds } from '../../model/position.js'
import { readEntryLog } from './entry-log.js'

/** LMDB's magic number, and the version of its files, in the first two pages. */
const MAGIC = 0xbeefc0de
const VERSION = 2
/** Their offset in a page of lmdb's LMDB: after the page's number, transaction, flags and bounds. */
const MAGIC_AT = 24
const FLAGS_AT = 18
const IS_META = 8
/** The page size is in the record of the free pages, after the magic number, an address and the size of the map. */
const PAGE_SIZE_AT = MAGIC_AT + 24
const MIN_PAGE = 256
const MAX_PAGE = 65_536
/** A check takes a quarter of a second, and a few seconds for a large database. */
const LIMIT_MS = 120_000
/** Greater than every position, so that all records of the log count. */
const END = (1n << 64n) - 1n
const STDERR_KEPT = 1000

// The same extension as this file: tests run the .ts, users the .js.
const CHILD = fileURLToPath(new URL(`./check-child${extname(import.meta.url)}`, import.meta.url))

/** What to do if a folder has entries, but no database that can be read. */
export const WITHOUT_DATABASE =
  'Restore the folder from a backup of the same moment. If there is none, and the store is still there, run ' +
  '`tallyhouse verify --rebuild-journal`: it recreates data.mdb and stores what is in the log but not in the store ' +
  'yet. Copy the folder first.'

/** The embedded journal's database cannot be read. The message says what is still intact and what to do. */
export class DamagedJournalError extends Error {
  override readonly name = 'DamagedJournalError'
}

/** Folder → size and modification time of a database that passed the check. */
const sound = new Map<string, string>()

/**
 * Makes sure that LMDB can open the database of a folder, if there is one: a damaged page makes LMDB kill the process.
 * So its first pages are read here, and all others by a child process.
 * @param isOwn whether no other process has it open, so that the check may begin a transaction
 * @throws DamagedJournalError
 */
export async function checkDatabase(folder: string, isOwn: boolean): Promise<void> {
  const path = join(folder, 'data.mdb')
  const state = await readFileState(path)
  if (state === null || sound.get(folder) === state) return
  const fault = (await checkMetaPages(path)) ?? (await checkByReading(folder, isOwn))
  if (fault !== null) throw new DamagedJournalError(await describe(folder, fault))
  if (isOwn) sound.set(folder, (await readFileState(path)) ?? '')
}

/**
 * Records that this process has just closed a database that it could read, so the database needs no check until it
 * changes.
 */
export async function noteSound(folder: string): Promise<void> {
  const state = await readFileState(join(folder, 'data.mdb'))
  if (state !== null) sound.set(folder, state)
}

/** @returns null if there is no file or an empty one, which LMDB leaves if it is killed while creating it */
async function readFileState(path: string): Promise<string | null> {
  const found = await stat(path).catch(() => null)
  return found && found.size > 0 ? `${found.size} ${found.mtimeMs}` : null
}

async function checkMetaPages(path: string): Promise<string | null> {
  const file = await open(path, 'r')
  try {
    const { size } = await file.stat()
    const first = await readAt(file, 0)
    const pageSize = first.length > PAGE_SIZE_AT + 4 ? first.readUInt32LE(PAGE_SIZE_AT) : 0
    const isSize = pageSize >= MIN_PAGE && pageSize <= MAX_PAGE && (pageSize & (pageSize - 1)) === 0
    if (isDamagedMetaPage(first) || !isSize) return 'its first page is not an LMDB page'
    if (size < 2 * pageSize) return 'it ends within its first two pages'
    const second = await readAt(file, pageSize)
    if (isDamagedMetaPage(second) || second.readUInt32LE(PAGE_SIZE_AT) !== pageSize)
      return 'its second page is not an LMDB page'
    return null
  } finally {
    await file.close()
  }
}

async function readAt(file: Awaited<ReturnType<typeof open>>, at: number): Promise<Buffer> {
  const bytes = Buffer.alloc(128)
  const { bytesRead } = await file.read(bytes, 0, bytes.length, at)
  return bytes.subarray(0, bytesRead)
}

function isDamagedMetaPage(page: Buffer): boolean {
  if (page.length < 128) return true
  return (
    page.readUInt32LE(MAGIC_AT) !== MAGIC ||
    page.readUInt32LE(MAGIC_AT + 4) !== VERSION ||
    (page.readUInt16LE(FLAGS_AT) & IS_META) === 0
  )
}

/** Reads the database in a child process. @returns how that failed; null if it did not */
async function checkByReading(folder: string, isOwn: boolean): Promise<string | null> {
  const child = fork(CHILD, [folder, isOwn ? 'write' : 'read'], { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  let stderr = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-STDERR_KEPT)
  })
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    child.kill('SIGKILL')
  }, LIMIT_MS)
  try {
    const [code, signal] = await once(child, 'close')
    if (isLate) return 'reading it never finishes'
    if (code === 0) return null
    return signal ? `a process that reads it dies with ${signal}` : `LMDB cannot read it (${stderr.trim() || code})`
  } finally {
    clearTimeout(timer)
  }
}

async function describe(folder: string, fault: string): Promise<string> {
  return `${join(folder, 'data.mdb')} is damaged: ${fault}. ${await describeLog(folder)} ${WITHOUT_DATABASE}`
}

/** Describes the entries in the log, which can be read without LMDB. */
async function describeLog(folder: string): Promise<string> {
  let [entries, events] = [0, 0]
  const at: { first: Position | null; last: Position | null } = { first: null, last: null }
  const projects = new Set<string>()
  try {
    for await (const some of readEntryLog(folder, END)) {
      for (const { position, kind, count, projectId } of some) {
        entries++
        if (kind === 'events') {
          events += count
          projects.add(projectId)
        }
        at.first = at.first === null || position < at.first ? position : at.first
        at.last = at.last === null || position > at.last ? position : at.last
      }
    }
  } catch (error) {
    return `The log of entries next to it cannot be read either (${(error as Error).message}).`
  }
  if (at.first === null || at.last === null) return 'The log next to it has no entries, so nothing waits to be stored.'
  const time = (position: Position) => new Date(toMilliseconds(position)).toISOString()
  return (
    `The log of entries next to it can be read: ${entries} entries with ${events} events of ` +
    `${projects.size === 1 ? `the project ${[...projects].join()}` : `${projects.size} projects`}, accepted from ` +
    `${time(at.first)} to ${time(at.last)}, some of which are stored already.`
  )
}

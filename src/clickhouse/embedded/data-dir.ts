import { closeSync } from 'node:fs'
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join, resolve } from 'node:path'
import { failureText, withPath } from '../../lib/failure-text.js'
import { NoLocksError, openLocked } from '../../lib/file-lock.js'
import { makeFolder } from '../../lib/make-folder.js'

/** Locked by the kernel for as long as the folder has an owner; empty, and never removed. */
const LOCK = 'folder.lock'
/** JSON of an `Owner`, renamed here when complete. It says who the owner is, not whether there is one. */
const OWNER = 'owner.lock'
/** Temporary file that is renamed to OWNER. It is written only under the lock, so a stale one is simply overwritten. */
const DRAFT = 'owner.lock.new'

interface Owner {
  pid: number
  /** name of the container or machine that `pid` belongs to */
  host: string
  /** URL of the owner's embedded engine, including the password, once it responds */
  clickhouse?: string
}

/** A live process owns the folder; the message names the folder and the process, and says what to do. */
export class FolderInUseError extends Error {
  override readonly name = 'FolderInUseError'
  /** URL of the owner's embedded ClickHouse, including the password; undefined until it has one */
  readonly clickhouse: string | undefined

  constructor(folder: string, owner: Owner | undefined) {
    super(
      `The data folder ${folder} is in use by ${describeOwner(owner)}. Stop that process, or set another DATA_DIR for this one.`,
    )
    this.clickhouse = owner?.clickhouse
  }
}

export interface FolderLock {
  /** Lets other processes of this user reach this one's embedded ClickHouse, as long as the folder is owned. */
  announce(clickhouse: string): Promise<void>
  /** Releases the folder; idempotent. The kernel does it for a process that dies, however it dies. */
  release(): Promise<void>
}

/**
 * Makes this process the only owner of `dir`, which is created (mode 0700) if missing: the embedded engines allow one
 * process each, and LMDB's own lock does not keep out a process in another pid namespace, such as a container. The
 * kernel holds the lock (fcntl's open file description locks; flock on macOS), so every container of this machine sees
 * it, and it is released the moment its owner dies. Not promised: on a file system that does not share locks between
 * machines, owners on other machines go unnoticed.
 *
 * @throws FolderInUseError when a live process owns the folder (also this one); an error that names the folder if it
 *   cannot be written
 */
export async function lockDataFolder(dir: string): Promise<FolderLock> {
  const folder = resolve(dir)
  await makeFolder(folder, 0o700).catch((error) => {
    throw new Error(describeFolderFailure(folder, error), { cause: error })
  })
  const lock = await lockFolder(folder)
  const path = join(folder, OWNER)
  const owner: Owner = { pid: process.pid, host: hostname() }
  const write = async (text: string) => {
    const draft = join(folder, DRAFT)
    try {
      await writeFile(draft, text, { mode: 0o600 }).catch(withPath(folder))
      await rename(draft, path)
    } catch (error) {
      // Otherwise, each start on a full disk would leave a file.
      await rm(draft, { force: true }).catch(() => undefined)
      throw error
    }
  }
  try {
    await write(JSON.stringify(owner))
  } catch (error) {
    closeSync(lock)
    throw error
  }

  let released: Promise<void> | undefined
  const release = async () => {
    try {
      await rm(path, { force: true })
    } finally {
      closeSync(lock)
    }
  }
  return {
    announce: (clickhouse) => write(JSON.stringify({ ...owner, clickhouse } satisfies Owner)),
    release: () => {
      released ??= release()
      return released
    },
  }
}

/**
 * @returns the descriptor that holds the lock
 * @throws FolderInUseError, or an Error that says why nothing can be locked there
 */
async function lockFolder(folder: string): Promise<number> {
  const lock = await openLocked(join(folder, LOCK)).catch((error) => {
    throw error instanceof NoLocksError ? new Error(describeLockFailure(folder, error), { cause: error.cause }) : error
  })
  if (lock !== null) return lock
  throw new FolderInUseError(folder, parseOwner((await readIfThere(join(folder, OWNER))) ?? ''))
}

function describeFolderFailure(folder: string, error: NodeJS.ErrnoException): string {
  if (error.code === 'EEXIST') return `DATA_DIR must be a folder, but ${error.path} is not one.`
  if (error.code === 'ENOENT') return `The folder ${folder} cannot be created there. Set another DATA_DIR.`
  return `DATA_DIR cannot be created. ${failureText(error)}`
}

function describeLockFailure(folder: string, { lacking, cause }: NoLocksError): string {
  return lacking === 'package'
    ? `The data folder cannot be locked on ${process.platform}-${process.arch} (${cause.message.split('\n')[0]}). Install the optional packages, or set CLICKHOUSE_URL and REDIS_URL.`
    : `The data folder ${folder} cannot be locked (${getErrorCode(cause)}): set DATA_DIR to a folder on a file system that has locks.`
}

/** Names the host of a process in another container, because its pid means nothing here. */
function describeOwner(owner: Owner | undefined): string {
  if (!owner) return 'another process'
  const { pid, host } = owner
  return host === hostname() ? `process ${pid}` : `process ${pid} on ${host}`
}

/** Undefined if the text is incomplete, for example because a power cut left an empty file. */
function parseOwner(text: string): Owner | undefined {
  try {
    const { pid, host, clickhouse }: Partial<Owner> = JSON.parse(text)
    if (pid === undefined || host === undefined) return undefined
    return { pid, host, ...(clickhouse !== undefined && { clickhouse }) }
  } catch {
    return undefined
  }
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (getErrorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

function getErrorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined
}

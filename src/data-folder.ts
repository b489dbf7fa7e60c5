import { randomUUID } from 'node:crypto'
import { link, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'

/** The lock file: JSON of an `Owner`, complete from the moment it has this name. */
const LOCK = 'owner.lock'

/**
 * `started` is in clock ticks since boot (Linux; null elsewhere), so that a reused pid is not taken for the owner.
 * `clickhouse` is the URL of the owner's embedded engine, password included, once it answers.
 */
interface Owner {
  pid: number
  started: string | null
  clickhouse?: string
}

/** A live process owns the folder; the message names the folder and the process, and says what to do. */
export class FolderInUseError extends Error {
  override readonly name = 'FolderInUseError'
  /** where the owner's embedded ClickHouse is reached, password included; undefined as long as it has none */
  readonly clickhouse: string | undefined

  constructor(folder: string, { pid, clickhouse }: Owner) {
    super(
      `The data folder ${folder} is in use by process ${pid}. Stop that process, or set another DATA_DIR for this one.`,
    )
    this.clickhouse = clickhouse
  }
}

export interface FolderLock {
  /** Lets other processes of this user reach this one's embedded ClickHouse, as long as the folder is owned. */
  announce(clickhouse: string): Promise<void>
  /** Gives the folder up; idempotent. A process that dies without it leaves a stale lock, which the next owner replaces. */
  release(): Promise<void>
}

/**
 * Makes this process the only owner of `dir`, which is created (mode 0700) if missing: the embedded engines allow one process each.
 *
 * Not promised: an owner in another container or on another machine is not seen as alive, since only pids of this system can be
 * judged. And if three processes start within the same instant on a stale lock, two may get it (see `setAside`).
 *
 * @throws FolderInUseError when a live process owns the folder (also this one)
 */
export async function lockDataFolder(dir: string): Promise<FolderLock> {
  const folder = resolve(dir)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const lock = join(folder, LOCK)
  const owner: Owner = { pid: process.pid, started: await startOf(process.pid) }
  let mine = JSON.stringify(owner)
  const draft = `${lock}.${randomUUID()}`
  await writeFile(draft, mine, { mode: 0o600, flag: 'wx' })
  try {
    while (!(await linked(draft, lock))) {
      const found = await readIfThere(lock)
      if (found === undefined) continue // released just now
      const other = await liveOwner(found)
      if (other !== undefined) throw new FolderInUseError(folder, other)
      await setAside(lock, found)
    }
  } finally {
    await rm(draft, { force: true })
  }

  let released: Promise<void> | undefined
  const release = async () => {
    if ((await readIfThere(lock)) === mine) await rm(lock, { force: true })
  }
  return {
    announce: async (clickhouse) => {
      const text = JSON.stringify({ ...owner, clickhouse } satisfies Owner)
      await writeFile(draft, text, { mode: 0o600, flag: 'wx' })
      await rename(draft, lock)
      mine = text
    },
    release: () => {
      released ??= release()
      return released
    },
  }
}

/**
 * Removes a lock that was found stale. It is renamed first, and read again under a name nobody else knows: if another starter has
 * replaced it in between, its lock is put back. Only a third starter that takes the name in that instant would not notice.
 */
async function setAside(lock: string, stale: string): Promise<void> {
  const aside = `${lock}.${randomUUID()}`
  try {
    await rename(lock, aside)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return
    throw error
  }
  if ((await readFile(aside, 'utf8')) !== stale) await linked(aside, lock)
  await rm(aside, { force: true })
}

/** True if `name` was free and is now a second name of `file`: unlike a write, this is never seen half done. */
async function linked(file: string, name: string): Promise<boolean> {
  try {
    await link(file, name)
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  }
}

async function liveOwner(text: string): Promise<Owner | undefined> {
  const owner = parseOwner(text)
  if (owner === undefined || !isRunning(owner.pid)) return undefined
  const started = await startOf(owner.pid)
  // Where a start cannot be read (no /proc, or it is hidden), the pid alone has to do.
  return started === null || owner.started === null || started === owner.started ? owner : undefined
}

/** Undefined for what no owner has written, such as the empty file that a power cut can leave. */
function parseOwner(text: string): Owner | undefined {
  try {
    const { pid, started, clickhouse }: Partial<Owner> = JSON.parse(text)
    if (!Number.isInteger(pid) || pid === undefined || pid <= 0) return undefined
    return { pid, started: started ?? null, ...(clickhouse !== undefined && { clickhouse }) }
  } catch {
    return undefined
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return codeOf(error) === 'EPERM' // it runs, as another user
  }
}

/** Field 22 of /proc/PID/stat; null where there is no /proc. A zombie has ended, so it gets a start that no owner has. */
async function startOf(pid: number): Promise<string | null> {
  const stat = await readIfThere(`/proc/${pid}/stat`)
  if (stat === undefined) return null
  // The second field, the name, may hold spaces and parentheses; the third, the state, follows the last parenthesis.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields[0] === 'Z' ? 'ended' : (fields[19] ?? null)
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ESRCH') return undefined
    throw error
  }
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined
}

import { existsSync } from 'node:fs'
import { dirname } from 'node:path'

/** Sentences for errors of the file system, by the error's path. */
const IN_WORDS: Record<string, (path: string) => string> = {
  ENOENT: (path) => describeMissing(path),
  EACCES: describeDenied,
  EPERM: (path) => `The user of this process may not change ${path}.`,
  EISDIR: (path) => `${path} is a folder, but must be a file.`,
  ENOTDIR: (path) => `${path} cannot exist, because a parent of it is not a folder.`,
  EEXIST: (path) => `${path} already exists.`,
  ENOSPC: (path) => `The disk of ${path} is full.`,
  EDQUOT: (path) => `The disk quota for ${path} is used up.`,
  EROFS: (path) => `${path} is on a read-only file system.`,
  EMFILE: (path) => `Too many files are open for ${path}. Raise the limit: ulimit -n.`,
  ENAMETOOLONG: (path) => `The name ${path} is too long.`,
}

/** Also for what ClickHouse may not access: a command that root ran leaves files that the service's user may not read. */
export function describeDenied(path: string): string {
  return `The user of this process may not access ${path}. Run it as the owner of that file, or change its owner.`
}

/** If the file should have been created, its folder is missing. */
function describeMissing(path: string): string {
  const folder = dirname(path)
  return existsSync(folder) ? `${path} does not exist.` : `The folder ${folder} does not exist.`
}

/** An error as one line of text for a terminal. */
export function failureText(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code, path } = error as NodeJS.ErrnoException
  const words = code !== undefined && Object.hasOwn(IN_WORDS, code) ? IN_WORDS[code] : undefined
  // Our own messages are sentences already, and do not start with a code.
  if (words && error.message.startsWith(`${code}:`)) {
    if (path !== undefined) return words(path)
    // Read and write errors have no path.
    const text = words('the file')
    return text.charAt(0).toUpperCase() + text.slice(1)
  }
  return error.message.trim().replace(/\s*\n\s*/g, ' ')
}

/** For `catch`: adds the path to the error of a write, which Node leaves out, and throws it again. */
export function withPath(path: string): (error: NodeJS.ErrnoException) => never {
  return (error) => {
    error.path ??= path
    throw error
  }
}

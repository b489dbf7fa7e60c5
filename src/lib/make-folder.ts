import { mkdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * Makes a folder and its parents, unless they exist. Node's own `recursive` never returns for a folder that cannot be
 * made although its parent exists, as in /proc.
 * @param path absolute
 * @throws the error of `mkdir`; EEXIST means that something other than a folder has the error's path
 */
export async function makeFolder(path: string, mode = 0o777): Promise<void> {
  const parent = dirname(path)
  if (!(await isFolder(parent))) await makeFolder(parent, mode)
  try {
    await mkdir(path, mode)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || !(await isFolder(path))) throw error
  }
}

async function isFolder(path: string): Promise<boolean> {
  return await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
}

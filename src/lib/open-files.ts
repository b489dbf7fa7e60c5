import { readFileSync } from 'node:fs'

/** Files and connections that a process needs for itself: the store, the journal, the log and the files of the page. */
const OWN = 512

/** How many files this process may have open, `ulimit -n`; null if that is unlimited or unknown. */
export function readOpenFilesLimit(limitsFile = '/proc/self/limits'): number | null {
  try {
    const limit = /^Max open files\s+(\d+)/m.exec(readFileSync(limitsFile, 'utf8'))?.[1]
    return limit === undefined ? null : Number(limit)
  } catch {
    return null
  }
}

/** How many clients, up to `wanted`, may be connected within a limit of open files; each takes one. */
export function connectionsWithin(wanted: number, openFiles: number | null): number {
  if (openFiles === null) return wanted
  return Math.min(wanted, Math.max(1, openFiles - OWN, Math.floor(openFiles / 2)))
}

// Runs several test files, given by their compiled paths, in this process, so that they share expensive resources.
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'

/** The tests of a file come after a test with its path as the name, which fails if the file cannot be loaded. */
function queue([file, ...later]: string[]): void {
  if (file === undefined) return
  t.test(file, async () => {
    try {
      // Its tests are queued, and begin when this one has ended.
      await import(pathToFileURL(resolve(file)).href)
    } finally {
      queue(later)
    }
  })
}

queue(process.argv.slice(2))

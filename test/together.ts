// Runs several test files, named by their compiled paths, in this process, so that they share what is costly to start.
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'

/** Before the tests of a file there is one of its path, which fails if the file cannot be loaded. */
function queue([file, ...later]: string[]): void {
  if (file === undefined) return
  t.test(file, async () => {
    try {
      // Its tests are queued: they begin when this one has ended.
      await import(pathToFileURL(resolve(file)).href)
    } finally {
      queue(later)
    }
  })
}

queue(process.argv.slice(2))
